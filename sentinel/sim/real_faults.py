"""The faults that the bundled trainer can be hurt with: the simulator's grammar, with the options that real weights ask for.

A kind means the same in both; what differs is how strong it is. In the simulator a fault says what it does to the loss, in nats
(`height`, `loss`, `growth`, `heals`); real weights take it as they take it, and these options are left out of what the
trainer is given. tests/sim/test_drill_files.py holds the two grammars together.
"""

from __future__ import annotations

from sentinel.errors import UsageError
from sentinel.sim.faults import KINDS, SAMPLE, STEP, Fault, parse_fault

# kind → where it may be placed, and its options with their defaults, as in the trainer
REAL_KINDS: dict[str, tuple[tuple[str, ...], dict[str, str]]] = {
    "bad_data": ((SAMPLE,), {"share": "1"}),
    "kill": ((STEP,), {"rank": "0"}),
    "hang": ((STEP,), {"rank": "0"}),
    "term": ((STEP,), {"rank": "0"}),
    "crash": ((STEP,), {"rank": "0"}),
    "exit": ((STEP,), {"code": "1"}),
    "slow": ((STEP,), {"rank": "0", "for": "1"}),
    "nan_grad": ((STEP,), {"rank": "0", "length": "1"}),
    "nan_state": ((STEP,), {}),
    "bit_flip": ((STEP,), {"rank": "0"}),
    "unstable": ((STEP,), {"times": "50"}),
    "sick_optimizer": ((STEP,), {"rank": "0", "later": "34"}),
    "drift": ((STEP,), {"rank": "0", "size": "0.15"}),
    "scale_collapse": ((STEP,), {"length": "1"}),
    "bit_rot": ((STEP,), {}),
    "log_flood": ((STEP,), {"rank": "0", "lines": "100000"}),
    "edit": ((STEP,), {}),
}
REMEDY = "write what the real trainer is to suffer: real: {faults: […]}, or why it cannot: real: {not_shown: …}"
EFFECTS = ("height", "loss", "growth", "heals")  # what a simulated model makes of a fault; a real one is not told


def parse_real_fault(text: str) -> Fault:
    """One line in the trainer's grammar. Raises UsageError naming what is wrong and what to write."""
    return parse_fault(text, REAL_KINDS)


def as_real_fault(fault: Fault) -> Fault:
    """A simulated fault as the trainer is given it. Raises UsageError for what only the simulator can do."""
    if fault.kind not in REAL_KINDS:
        raise UsageError(f"fault {fault.text!r}: is for the simulator only; {REMEDY}")
    known = REAL_KINDS[fault.kind][1]
    head, *tail = fault.text.split(":")
    items = [item for part in tail for item in part.split(",")]
    left = [item for item in items if item.partition("=")[0] not in EFFECTS]
    strange = [item for item in left if item.partition("=")[0] not in (*known, "attempt", "always")]
    if strange:
        raise UsageError(f"fault {fault.text!r}: the bundled trainer takes no {strange[0]!r}; {REMEDY}")
    given = {item.partition("=")[0] for item in left}
    usual = KINDS[fault.kind][1]
    left += [f"{key}={usual[key]}" for key, own in known.items() if key in usual and key not in given and usual[key] != own]
    return parse_real_fault(":".join([head, *([",".join(left)] if left else [])]))


assert all(kind in KINDS or kind in ("log_flood", "edit") for kind in REAL_KINDS), "a kind means the same in both grammars"
