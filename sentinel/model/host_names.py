"""Names of machines, as they are compared."""

from __future__ import annotations


def short_name(host: str) -> str:
    """Without its domain and case: some sources give them, some do not. An address stays whole."""
    first = host.partition(".")[0].casefold()
    return host if first.isdecimal() else first
