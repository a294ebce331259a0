"""Until when sentinel has its machine: `--time-limit`, the policy's `run.deadline`, or what Slurm says. The earliest holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sentinel.engine import Engine
from sentinel.engine.leaving import margin_of
from sentinel.errors import UsageError
from sentinel.model.amounts import time_words
from sentinel.model.events import Deadline
from sentinel.policy.quantities import Malformed, parse_positive_duration, show_duration
from sentinel.policy.schema import DEADLINE_MARGIN_S, Policy

VARIABLE = "SLURM_JOB_END_TIME"  # Unix seconds; slurmd sets it for a batch script and its steps


@dataclass(frozen=True, slots=True)
class EndOfTime:
    """In Unix seconds of the machine's clock; the rest as in `Deadline`."""

    unix_s: float | None = None
    by: str = ""
    counts_from_start: bool = False
    remark: str = ""

    def on_session_clock(self, now_s: float, wall_s: float) -> Deadline | None:
        """None where there is nothing to say."""
        at_s = None if self.unix_s is None else now_s + (self.unix_s - wall_s)
        return Deadline(at_s, self.by, self.counts_from_start, self.remark) if at_s is not None or self.remark else None


def parse_time_limit(text: str | None) -> float | None:
    """`--time-limit` in seconds. Raises UsageError for what is no duration."""
    if text is None:
        return None
    try:
        return parse_positive_duration(text)
    except Malformed as error:
        raise UsageError(f"--time-limit: {error}; {error.remedy}") from None


def read_end(limit_s: float | None, policy: Policy, environ: Mapping[str, str], started_s: float) -> EndOfTime:
    """The earliest of what is known. `started_s`: when this sentinel began, Unix seconds.

    Raises:
        UsageError: the limit leaves no time to train, or Slurm's variable is no time.
    """
    run = policy.spec.run
    margin_s = run.deadline_margin_s or DEADLINE_MARGIN_S
    if limit_s is not None and limit_s <= margin_s:
        raise UsageError(
            f"--time-limit {show_duration(limit_s)}: leaves no time to train: the stop begins {show_duration(margin_s)} before; "
            "give more, or set a shorter run.deadline_margin in the policy"
        )
    known = [
        EndOfTime(started_s + seconds, by, counts_from_start=True)
        for seconds, by in (
            (limit_s, f"--time-limit {show_duration(limit_s or 0.0)}"),
            (run.deadline_s, f"the policy's run.deadline, {show_duration(run.deadline_s or 0.0)}"),
        )
        if seconds is not None
    ]
    slurm = _read_slurm(environ.get(VARIABLE, ""), started_s)
    if slurm is not None and slurm.unix_s is not None:
        known.append(slurm)
    earliest = min(known, key=lambda end: end.unix_s or 0.0, default=EndOfTime())
    remark = slurm.remark if slurm is not None else ""
    return EndOfTime(earliest.unix_s, earliest.by, earliest.counts_from_start, remark)


def _read_slurm(text: str, now_s: float) -> EndOfTime | None:
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= 12):
        raise UsageError(
            f"{VARIABLE}={text!r}: is not a time in Unix seconds, as Slurm writes it; correct it, or leave it out: "
            f"env -u {VARIABLE} sentinel run …"
        )
    if float(text) <= now_s:
        ago = time_words(now_s - float(text))
        return EndOfTime(remark=f"{VARIABLE}={text} lies {ago} back, so it is no deadline of this run, and is passed over")
    return EndOfTime(float(text), VARIABLE)


def refuse_too_late(deadline: Deadline | None, engine: Engine, now_s: float) -> None:
    """Raises UsageError where nothing trains, and in what time is left nothing could: started again and again, it would do so for
    ever. Training that lives is adopted, to be stopped in order."""
    attempt = engine.state.attempt
    if deadline is None or deadline.at_s is None or engine.state.ended == "failed":
        return
    margin, left_s = margin_of(engine.state, engine.policy, None), deadline.at_s - now_s
    if left_s <= margin.seconds and (attempt is None or attempt.is_over):
        raise UsageError(
            f"{deadline.by}: {time_words(left_s)} are left, which is no time to train ({margin.reason}); "
            "start it with more time, or set a shorter run.deadline_margin in the policy"
        )
