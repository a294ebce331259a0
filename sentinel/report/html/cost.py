"""What an incident cost: seconds of each account of the ledger between its first sign and its repair, steps, GPU time, money."""

from __future__ import annotations

from dataclasses import dataclass

from sentinel.model.amounts import lost_words, time_words
from sentinel.model.incidents import Incident
from sentinel.model.price import Price
from sentinel.plan.gpus import Gpus
from sentinel.report.cost import amount_words, incident_cost
from sentinel.report.html.collected import IncidentStretch
from sentinel.report.losses import LOST, IncidentLoss
from sentinel.report.settings import setting_text, settings_asked

WORDS = {
    "replay": "trained and thrown away",
    "detection": "until the failure was believed",
    "recovery": "until training stood again",
    "waiting": "nothing to train on, backoff, held or stopped",
}


@dataclass(frozen=True, slots=True)
class Cost:
    """`rows`: account, what it is, how long. `gpu_time`: GPU hours, and money where there is a price; empty where no GPU was
    used, or that is not known, which `unknown` then says. `is_over`: False while it still grows."""

    rows: tuple[tuple[str, str, str], ...]
    lost: str
    lost_s: float
    steps: str
    gpu_time: str
    unknown: str
    detected: str
    recovered: str | None
    is_over: bool


def cost_of(incident: Incident, stretch: IncidentStretch | None, gpus: Gpus, price: Price | None) -> Cost:
    loss = stretch.loss if stretch is not None and stretch.loss is not None else IncidentLoss(incident.id, str(incident.kind))
    spent, cost = loss.seconds, incident_cost(loss, gpus, price)
    restored = incident.restored_s
    late_s = incident.detected_s - incident.visible_s
    return Cost(
        rows=tuple((name, WORDS[name], _exact(spent[name])) for name in LOST if spent[name] >= 0.05),
        lost=_exact(loss.lost_s),
        lost_s=loss.lost_s,
        steps=lost_words(incident.steps_lost, incident.steps_unseen),
        gpu_time=amount_words(cost, price.currency if price is not None else "") if cost["gpu_hours"] else "",
        unknown="GPU hours are not known: " + gpus.why if cost["gpu_hours"] is None and gpus.why else "",
        detected=_exact(late_s) if late_s >= 0.05 else "at once",
        recovered=_exact(restored - incident.visible_s) if restored is not None else None,
        is_over=incident.is_closed,
    )


def _exact(seconds: float) -> str:
    seconds = max(0.0, seconds)
    return time_words(seconds)


def setting_rows(stretch: IncidentStretch | None) -> list[tuple[str, str, str]]:
    """Every setting over the trainer's own, before the incident and behind it."""
    if stretch is None:
        return []
    before, behind = settings_asked(stretch.settings_before), settings_asked(stretch.settings_after or stretch.settings_before)
    return [
        (name, setting_text(name, before.get(name)), setting_text(name, behind.get(name))) for name in sorted({*before, *behind})
    ]
