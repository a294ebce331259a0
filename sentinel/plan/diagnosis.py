"""State, data or hardware? A failed stretch is trained again, from the same checkpoint on the same data with nothing changed, and
the two records are compared bit by bit.

- the same record and the same failure: the data meets this state of the weights; leaving the data out helps;
- no failure this time: what failed is not in the weights nor in the data. A trainer that computes the same numbers to the bit
  every time (it says so: `deterministic` in its receipt) was then disturbed from outside: hardware. Any other: transient;
- another record already *before* the onset, of such a trainer: hardware computes differently now.

Google's PaLM team used the first test by hand: the spiking batches, replayed from another checkpoint, did not spike (PaLM 2022,
5.1), which is why data alone is not the cause.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from sentinel.model.readings import StepReading
from sentinel.model.records import Cause, Comparison, Diagnosis

EXACT = ("loss", "grad_norm", "param_norm", "activation_norm")
RANKS_OWN = re.compile(r".+/rank-(\d{1,9})")  # a number of one rank alone, as in param_norm/rank-3


def compare(record: Mapping[int, StepReading], again: Mapping[int, StepReading], first: int, last: int) -> Comparison:
    """Both records over first..last, up to the first difference. Only numbers that are functions of weights and data count."""
    compared = 0
    for step in range(first, last + 1):
        old, new = record.get(step), again.get(step)
        if old is None or new is None:
            continue
        compared += 1
        if old.samples != new.samples:
            return Comparison(compared, step, "samples")
        own = sorted(name for name in old.metrics if RANKS_OWN.fullmatch(name) and _differ(name, old, new))
        for name in (*EXACT, *own):
            if _differ(name, old, new):
                ranks = tuple(sorted(int(found[1]) for word in own if (found := RANKS_OWN.fullmatch(word))))
                return Comparison(compared, step, name, old.metrics[name], new.metrics[name], ranks)
    return Comparison(compared)


def _differ(name: str, old: StepReading, new: StepReading) -> bool:
    before, now = old.metrics.get(name), new.metrics.get(name)
    if before is None or now is None:
        return False
    return before != now and not (before != before and now != now)


def judge_diagnosis(found: Comparison | None, onset_step: int, struck_again: bool, deterministic: bool) -> Diagnosis:
    """What the repetition proved. `found` None: the records could not be compared."""
    again = "it failed again" if struck_again else "it did not fail again"
    if found is None or found.compared == 0:
        return Diagnosis("unknown", f"{again}, but no step could be compared with the record")
    if found.metric == "samples":
        return Diagnosis("unknown", f"{again}, but step {found.differs_at} trained on other samples than the record says")
    if found.differs_at is None:
        same = f"{found.compared} steps are equal to the record to the bit"
        cause: Cause = "data" if struck_again else "unknown"
        return Diagnosis(cause, f"{again}, and {same}: " + ("data and state together" if struck_again else "nothing differs"))
    where = f"{found.metric} of step {found.differs_at} was {found.before!r} and is {found.now!r}"
    blamed = f" (rank {', '.join(map(str, found.ranks))})" if found.ranks else ""
    if not deterministic:
        if struck_again:
            return Diagnosis("unknown", f"{again}; {where}, but this trainer does not claim to compute the same twice")
        return Diagnosis("transient", f"{again}; {where}: not in the weights nor in the data")
    if found.differs_at < onset_step or not struck_again:
        place = "before the onset" if found.differs_at < onset_step else "where it failed"
        return Diagnosis("hardware", f"{again}; {where}, {place}: the hardware computed otherwise{blamed}", found.ranks)
    return Diagnosis("data", f"{again}; the records agree up to step {found.differs_at - 1}: data and state together")
