"""The faults a drill asks for on the command line (`--fault`), and how they are read. `fault_injection` carries them out.

    bad_data@sample=6400-6800     these sequences become seeded random bytes, whenever they are trained on
    bad_data@sample=A-B:share=0.3 only this share of their bytes, spread evenly: a milder poison
    kill@step=300:rank=1          SIGKILL to itself                    hang@step=450:rank=1     SIGSTOP to itself
    term@step=120:rank=1          SIGTERM to itself, as a scheduler sends it
    crash@step=120                raises                               exit@step=80:code=3      every rank leaves with that code
    slow@step=90:rank=1,for=0.5:always   the rank takes half a second more for its data, from that step on
    nan_grad@step=90:length=1     one gradient element becomes NaN, for so many steps
    nan_state@step=90             with the update of that step every parameter becomes NaN
    bit_flip@step=90:rank=1       a bit of one parameter of that rank's shard flips, once
    unstable@step=200:times=50    the learning rate is so many times what it should be, from then on, in every attempt
    sick_optimizer@step=90:rank=1,later=34   first moments of Adam begin to run away, doubling; so much later it shows
    drift@step=90:rank=1,size=0.15   from then on each update leaves noise in the weights, so large a share of them
    scale_collapse@step=90:length=4  fp16: so many updates in a row overflow
    bit_rot@step=100              a byte of that checkpoint changes after it was committed
    log_flood@step=60:rank=1,lines=100000   so many lines of 200 bytes to stderr, as fast as they go
    edit@step=60                  a line is added to RUN_DIR/edited.txt, as if the run's sources were edited
    …:always                      from that step on, in every attempt           …:attempt=2    only in that attempt

A step fault is injected before the step's forward, after it has been recorded durably in RUN_DIR/faults: once per run, however
often the run passes that step. Sample ranges are half-open and mean the original data order. The simulator of
sentinel has the same kinds (sentinel/sim/faults.py).
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from .exits import ConfigError

# Kind → the options it takes beside `attempt` and `always`.
OPTIONS: dict[str, tuple[str, ...]] = {
    "bad_data": ("share",),
    "kill": ("rank",),
    "hang": ("rank",),
    "term": ("rank",),
    "crash": ("rank",),
    "exit": ("code",),
    "slow": ("rank", "for"),
    "nan_grad": ("rank", "length"),
    "nan_state": (),
    "bit_flip": ("rank",),
    "unstable": ("times",),
    "sick_optimizer": ("rank", "later"),
    "drift": ("rank", "size"),
    "scale_collapse": ("length",),
    "bit_rot": (),
    "log_flood": ("rank", "lines"),
    "edit": (),
}
KINDS = tuple(OPTIONS)
STEP_KINDS = tuple(kind for kind in KINDS if kind not in ("bad_data", "unstable", "bit_rot"))  # the loop asks for these
EVERY_RANK = ("exit", "nan_state", "sick_optimizer", "drift", "scale_collapse")  # every rank must know, whosever shard it is

# Option → default, least and most it may be, whether only whole numbers are, and what it is.
NUMBERS: dict[str, tuple[float, float, float, bool, str]] = {
    "rank": (0, 0, 1e6, True, "rank"),
    "attempt": (0, 1, 1e6, True, "attempt"),
    "share": (1.0, 1e-9, 1.0, False, "share"),
    "for": (1.0, 1e-9, 3600.0, False, "time to be slow for, in seconds"),
    "length": (1, 1, 1e6, True, "number of steps"),
    "code": (1, 0, 255, True, "exit code"),
    "times": (50.0, 1e-9, 1e6, False, "factor"),
    "later": (34, 0, 1000, True, "number of steps"),
    "size": (0.15, 1e-9, 100.0, False, "share of the weights"),
    "lines": (100_000, 1, 1e9, True, "number of lines"),
}


@dataclass(frozen=True)
class Fault:
    """`step` for a step fault, `samples` (half-open) for bad_data; the other is None. `attempt` 0: in any. `options`: NUMBERS."""

    text: str
    kind: str
    step: int | None = None
    samples: tuple[int, int] | None = None
    rank: int = 0
    always: bool = False
    attempt: int = 0
    options: Mapping[str, float] = field(default_factory=dict)

    @property
    def slug(self) -> str:
        return re.sub(r"[^A-Za-z0-9_]+", "-", self.text).strip("-")

    def number(self, option: str) -> float:
        return self.options.get(option, NUMBERS[option][0])

    def is_due(self, step: int, attempt: int = 1) -> bool:
        """Whether it is due at this step of this attempt, disregarding records of earlier injections."""
        if self.step is None or self.attempt not in (0, attempt):
            return False
        return step >= self.step if self.always else step == self.step


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
    items = [item for part in tail for item in part.split(",")]
    always = "always" in items
    known = OPTIONS[kind] if kind in ("bad_data", "unstable") else (*OPTIONS[kind], "attempt")
    options = _options(text, kind, wanted, [item for item in items if item != "always"], known)
    if kind == "bad_data":
        if always:
            raise _wrong(text, "bad_data strikes whenever the data is trained on anyway", "it without :always")
        return Fault(text, kind, samples=_sample_range(text, value), options=options)
    step, first = _number(text, "step", value), 0 if kind == "exit" else 1
    if step < first:
        raise _wrong(text, f"step={value} comes before the first step", "1 or above")
    rank, attempt = int(options.pop("rank", 0)), int(options.pop("attempt", 0))
    return Fault(text, kind, step=step, rank=rank, always=always, attempt=attempt, options=options)


def _options(text: str, kind: str, wanted: str, items: list[str], known: tuple[str, ...]) -> dict[str, float]:
    options: dict[str, float] = {}
    for item in items:
        key, equals, value = item.partition("=")
        if not equals:
            raise _wrong(text, f"{item!r} is not key=value", "for example :rank=1")
        if key not in known:
            example = f":{known[0]}={NUMBERS[known[0]][0]:g}" if known[0] != "rank" else ":rank=R"
            raise _wrong(text, f"{kind} takes no {key!r}", f"{kind}@{wanted}{example}; it takes {', '.join(known)}")
        options[key] = _value(text, key, value)
    return options


def _value(text: str, key: str, value: str) -> float:
    default, least, most, whole, what = NUMBERS[key]
    if whole:
        number = float(_number(text, key, value))
    else:
        try:
            number = float(value)
        except ValueError:
            number = math.nan
    if not least <= number <= most:
        span = f"from {least:g} to {most:g}" if whole else f"above 0 and at most {most:g}"
        raise _wrong(text, f"{key}={value!r} is no {what}", f"a number {span}, for example {key}={default or 1:g}")
    return number


def _sample_range(text: str, value: str) -> tuple[int, int]:
    start, dash, end = value.partition("-")
    first, behind = _number(text, "sample", start), _number(text, "sample", end if dash else "")
    if first >= behind:
        raise _wrong(text, f"the range {value} is empty", "a half-open range A-B with A below B")
    return first, behind


def _number(text: str, key: str, value: str) -> int:
    if not (value.isascii() and value.isdigit() and len(value) < 16):
        raise _wrong(text, f"{key}={value!r} is not a whole number", f"digits only, for example {key}=300")
    return int(value)


def _wrong(text: str, what: str, remedy: str) -> ConfigError:
    return ConfigError(f"--fault {text!r}: {what}; write {remedy}")
