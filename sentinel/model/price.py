"""What an hour of one GPU costs, as the policy says it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Price:
    """`amount` for one GPU hour, above zero. `currency`: three letters as in ISO 4217; empty where an older policy names none."""

    amount: float
    currency: str = ""

    def words(self, money: float) -> str:
        """An amount in this currency, for a person; of a thousand on without its hundredths.

        >>> Price(2.5, "USD").words(31.0), Price(2.5).words(31.0), Price(2.5, "USD").words(128_086.4)
        ('31.00 USD', '31.00', '128,086 USD')
        """
        return f"{money:,.{0 if money >= 1000 else 2}f} {self.currency}".rstrip()
