"""Real harm on purpose: a killed rank, a stopped rank, a poisoned stretch of data, a NaN, a crash.

    bad_data@sample=6400-6800     these sequences become seeded random bytes, whenever they are trained on
    bad_data@sample=A-B:share=0.3 only this share of their bytes, spread evenly: a milder poison
    kill@step=300:rank=1          SIGKILL to itself                    hang@step=450:rank=1     SIGSTOP to itself
    bit_flip@step=90:rank=1       a bit of one parameter of that rank's shard flips, once
    slow@step=90:rank=1,for=0.5:always   the rank takes half a second more for its data, from that step on
    nan_grad@step=90              one gradient element becomes NaN     crash@step=120           raises
    …:always                      from that step on, in every attempt

A step fault strikes before the step's forward and after it has been recorded durably in RUN_DIR/faults, so it strikes once per
run however often the run comes past that step. Sample ranges are half-open and mean the original data order.
"""

from __future__ import annotations

import math
import os
import re
import signal
import time
from dataclasses import dataclass
from pathlib import Path

from sentinel.client import dumps, write_atomically
from trainer.exits import ConfigError

STEP_KINDS = ("kill", "hang", "nan_grad", "bit_flip", "crash", "slow")
KINDS = ("bad_data", *STEP_KINDS)


class InjectedCrash(RuntimeError):
    """Raised by crash@step=N."""


@dataclass(frozen=True)
class Fault:
    """`step` for a step fault, `samples` (half-open) for bad_data; the other is None."""

    text: str
    kind: str
    step: int | None = None
    samples: tuple[int, int] | None = None
    rank: int = 0
    always: bool = False
    share: float = 1.0
    slow_s: float = 0.0

    @property
    def slug(self) -> str:
        return re.sub(r"[^A-Za-z0-9_]+", "-", self.text).strip("-")

    def is_due(self, step: int) -> bool:
        """Whether it wants to strike at this step, records of earlier strikes aside."""
        return self.step is not None and (step >= self.step if self.always else step == self.step)


def parse_fault(text: str) -> Fault:
    """Read KIND@WHERE[:key=value,…][:always]. Raises ConfigError naming what is wrong."""
    head, *tail = text.split(":")
    kind, at, where = head.partition("@")
    if kind not in KINDS:
        raise _wrong(text, f"unknown kind {kind!r}", f"one of {', '.join(KINDS)}")
    wanted = "sample=A-B" if kind == "bad_data" else "step=N"
    key, _, value = where.partition("=")
    if not at or key != wanted.partition("=")[0]:
        raise _wrong(text, f"{kind} needs a place, not {where!r}", f"{kind}@{wanted}")
    always = "always" in tail
    options = _options(text, [part for part in tail if part != "always"])
    known = {"bad_data": ("share",), "slow": ("rank", "for")}.get(kind, ("rank",))
    unknown = sorted(set(options) - set(known))
    if unknown:
        example = ":share=0.5" if "share" in known else ":rank=R,for=0.5" if "for" in known else ":rank=R"
        raise _wrong(text, f"{kind} takes no {unknown[0]!r}", f"{kind}@{wanted}{example}")
    if kind == "bad_data":
        if always:
            raise _wrong(text, "bad_data strikes whenever the data is trained on anyway", "it without :always")
        return Fault(text, kind, samples=_sample_range(text, value), share=_share(text, options.get("share", "1")))
    step = _number(text, "step", value)
    if step < 1:
        raise _wrong(text, f"step={value} comes before the first step", "1 or above")
    slow_s = _seconds(text, options.get("for", "1")) if kind == "slow" else 0.0
    return Fault(text, kind, step=step, rank=_number(text, "rank", options.get("rank", "0")), always=always, slow_s=slow_s)


def due_faults(faults: tuple[Fault, ...], step: int, rank: int, run_dir: Path) -> list[Fault]:
    """This rank's step faults that strike now. Each is on record, fsynced, before it is returned."""
    due = [fault for fault in faults if fault.rank == rank and fault.is_due(step) and not _has_struck(fault, run_dir)]
    for fault in due:
        if not fault.always:
            record = {"fault": fault.text, "step": step, "rank": rank, "pid": os.getpid()}
            write_atomically(_record_path(fault, run_dir), dumps(record).encode())
    return due


def strike(fault: Fault, step: int) -> None:
    """Kill, stop, crash or delay this process. nan_grad and bit_flip do nothing here: theirs is done to tensors."""
    if fault.kind == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif fault.kind == "hang":
        os.kill(os.getpid(), signal.SIGSTOP)
    elif fault.kind == "slow":
        time.sleep(fault.slow_s)
    elif fault.kind == "crash":
        raise InjectedCrash(f"--fault {fault.text}: crash at step {step}")


def _record_path(fault: Fault, run_dir: Path) -> Path:
    return run_dir / "faults" / f"{fault.slug}.json"


def _has_struck(fault: Fault, run_dir: Path) -> bool:
    return not fault.always and _record_path(fault, run_dir).exists()


def _options(text: str, parts: list[str]) -> dict[str, str]:
    options: dict[str, str] = {}
    for item in (item for part in parts for item in part.split(",")):
        key, equals, value = item.partition("=")
        if not equals:
            raise _wrong(text, f"{item!r} is not key=value", "for example :rank=1")
        options[key] = value
    return options


def _sample_range(text: str, value: str) -> tuple[int, int]:
    start, dash, end = value.partition("-")
    first, behind = _number(text, "sample", start), _number(text, "sample", end if dash else "")
    if first >= behind:
        raise _wrong(text, f"the range {value} is empty", "a half-open range A-B with A below B")
    return first, behind


def _share(text: str, value: str) -> float:
    try:
        share = float(value)
    except ValueError:
        share = math.nan
    if not 0.0 < share <= 1.0:
        raise _wrong(text, f"share={value!r} is no share", "a number above 0 and at most 1, for example share=0.5")
    return share


def _seconds(text: str, value: str) -> float:
    try:
        seconds = float(value)
    except ValueError:
        seconds = math.nan
    if not 0.0 < seconds <= 3600.0:
        raise _wrong(text, f"for={value!r} is no time to be slow for", "seconds above 0 and at most 3600, for example for=0.5")
    return seconds


def _number(text: str, key: str, value: str) -> int:
    if not (value.isascii() and value.isdecimal()):
        raise _wrong(text, f"{key}={value!r} is not a whole number", f"digits, for example {key}=300")
    return int(value)


def _wrong(text: str, what: str, remedy: str) -> ConfigError:
    return ConfigError(f"--fault {text!r}: {what}; write {remedy}")
