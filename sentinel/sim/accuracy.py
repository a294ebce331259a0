"""How well a simulated run was judged: each fault that poisons data or numbers, against the incident it became.

*Onset error*: steps from the first update that the fault hurt to the dated onset; above zero is late. Of damage that lies hidden
at first (`sick_optimizer`) it is the first update that shows it. *Skipped* and *poisoned*: samples that the remedies left out,
and those that were bad. The truth is the simulated trainer's own.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sentinel.model.attempts import SampleRange
from sentinel.model.incidents import Incident
from sentinel.model.state import RunState
from sentinel.plan.remedy import skip_window
from sentinel.plan.skip import merge
from sentinel.policy.schema import Policy
from sentinel.sim.faults import SAMPLE, Fault

POISONING = (
    "bad_data", "nan_state", "nan_grad", "spike", "unstable", "bit_flip", "sick_optimizer", "drift", "scale_collapse",
)  # fmt: skip
GROWING = ("unstable", "drift")  # they begin far below the noise: the first update that they hurt cannot be seen
SKIPPED_MAX = 2.0  # times what was poisoned, beside the policy's margins

Struck = Mapping[int, Mapping[str, int]]  # by attempt: the first update that each fault hurt


@dataclass(frozen=True)
class Accuracy:
    """One fault. `incident` 0: it became none. `skipped_samples` and `margin_samples`, what the policy adds around the dated
    stretch, are None where nothing was left out; `poisoned_samples` where the fault is in no data."""

    fault: str
    kind: str
    first_step: int
    incident: int = 0
    onset_step: int | None = None
    poisoned_samples: int | None = None
    skipped_samples: int | None = None
    margin_samples: int | None = None

    @property
    def error_steps(self) -> int | None:
        return None if self.onset_step is None else self.onset_step - self.first_step

    @property
    def ratio(self) -> float | None:
        """Skipped over poisoned."""
        if self.skipped_samples is None or not self.poisoned_samples:
            return None
        return self.skipped_samples / self.poisoned_samples

    @property
    def is_wasteful(self) -> bool:
        """More was left out than twice the poison and the policy's own margins."""
        if self.skipped_samples is None or self.poisoned_samples is None:
            return False
        return self.skipped_samples > SKIPPED_MAX * self.poisoned_samples + (self.margin_samples or 0)

    @property
    def document(self) -> dict[str, Any]:
        return {
            "fault": self.fault, "incident": self.incident or None, "first_step": self.first_step, "onset_step": self.onset_step,
            "onset_error_steps": self.error_steps, "poisoned_samples": self.poisoned_samples,
            "skipped_samples": self.skipped_samples, "margin_samples": self.margin_samples,
        }  # fmt: skip

    @property
    def line(self) -> str:
        if not self.incident:
            return f"{self.fault}: first hurt step {self.first_step}; no numeric incident"
        dated = "not dated" if self.error_steps is None else f"dated {self.onset_step}, onset error {self.error_steps:+d} steps"
        text = f"{self.fault}: first hurt step {self.first_step}; incident {self.incident} {dated}"
        if self.poisoned_samples is None:
            return text
        if self.skipped_samples is None:
            return f"{text}; {self.poisoned_samples} samples poisoned, none skipped"
        skipped = f"{self.skipped_samples} samples skipped ({self.margin_samples} as margins)"
        return f"{text}; {skipped}, {self.poisoned_samples} poisoned"


def judge_accuracy(faults: Sequence[Fault], struck: Struck, state: RunState, policy: Policy) -> tuple[Accuracy, ...]:
    """Each poisoning fault that struck, in the order of the steps. An incident is of the newest fault that had hurt its attempt
    when it was found; a second incident of the same fault is the same failure again, and is not counted."""
    poisoning = {fault.text: fault for fault in faults if fault.kind in POISONING}
    of_fault: dict[str, tuple[Incident, int]] = {}
    for incident in state.incidents:
        began = {text: step for text, step in struck.get(incident.attempt, {}).items() if text in poisoning}
        hurt = [(step, text) for text, step in began.items() if step <= incident.detected_step]
        if incident.is_numeric and hurt:
            step, text = max(hurt)
            of_fault.setdefault(text, (incident, step))
    first = {text: step for attempt in sorted(struck, reverse=True) for text, step in struck[attempt].items()}
    found = []
    for text, fault in poisoning.items():
        poisoned = fault.behind - int(fault.at) if fault.place == SAMPLE else None
        if text in of_fault:
            incident, step = of_fault[text]
            skipped, margin = _skipped(incident, policy)
            found.append(Accuracy(text, fault.kind, step, incident.id, incident.onset_step, poisoned, skipped, margin))
        elif text in first:
            found.append(Accuracy(text, fault.kind, first[text], 0, None, poisoned))
    return tuple(sorted(found, key=lambda one: one.first_step))


def _skipped(incident: Incident, policy: Policy) -> tuple[int | None, int | None]:
    """Samples that the tries left out, and how many of them the newest such rung asks for around the dated stretch."""
    tries = [one for one in incident.tries if one.remedy.skip]
    if not tries or incident.samples is None:
        return None, None
    skipped = merge(span for one in tries for span in one.remedy.skip)
    at = max(incident.samples.detected, 10**9)  # far from the first sample, which cuts a window off
    nowhere = replace(incident, samples=replace(incident.samples, onset=at, detected=at))
    margin = skip_window(policy.spec.playbooks[incident.playbook], tries[-1].remedy.rung, nowhere, incident.samples.data_seed)
    return _count(skipped), _count([margin] if margin is not None else [])


def _count(spans: Sequence[SampleRange]) -> int:
    return sum(span.end - span.start for span in spans)


def summarise(found: Sequence[Accuracy]) -> dict[str, Any]:
    """What `--json` has of many: None where there was nothing to measure."""
    sudden, growing = ([one for one in found if (one.kind in GROWING) == grows] for grows in (False, True))
    return {
        "faults": len(found),
        "no_incident": sum(not one.incident for one in found),
        "onset_error_steps": _figures([abs(one.error_steps) for one in sudden if one.error_steps is not None]),
        "onset_error_steps_of_growing": _figures([abs(one.error_steps) for one in growing if one.error_steps is not None]),
        "skipped_over_poisoned": _figures([one.ratio for one in found if one.ratio is not None]),
        "wasteful": sum(one.is_wasteful for one in found),
    }


def summary_lines(found: Sequence[Accuracy]) -> Iterator[str]:
    """The same for people; nothing where nothing was poisoned."""
    summary = summarise(found)
    if found:
        yield f"poisoning faults: {summary['faults']}, of which {summary['no_incident']} became no numeric incident"
    for key, words in (
        ("onset_error_steps", "onset error in steps"),
        ("onset_error_steps_of_growing", f"onset error in steps of what grows from nothing ({', '.join(GROWING)})"),
        ("skipped_over_poisoned", "samples skipped over poisoned"),
    ):
        if (figures := summary[key]) is not None:
            yield f"{words}, {figures['incidents']} incidents: median {figures['median']:g}, p95 {figures['p95']:g}"
    if summary["wasteful"]:
        yield f"{summary['wasteful']} skipped more than {SKIPPED_MAX:g} x the poison and the policy's margins"


def _figures(values: Sequence[float]) -> dict[str, float] | None:
    ordered = sorted(values)
    if not ordered:
        return None
    return {"incidents": len(ordered), "median": round(_quantile(ordered, 0.5), 3), "p95": round(_quantile(ordered, 0.95), 3)}


def _quantile(ordered: Sequence[float], share: float) -> float:
    """Of sorted values: the nearest rank."""
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]
