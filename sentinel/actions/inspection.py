"""Looking at samples through the launcher: start the inspection's attempt, ask again until it has ended, judge what it wrote.

Holds nothing: a supervisor that was killed asks again and gets the same answer. The deadline is the engine's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sentinel.errors import GiveUp, GoesOn
from sentinel.launcher.contract import Launcher
from sentinel.model.actions import InspectSamples
from sentinel.model.attempts import AttemptSpec, Exited, ExitReport, Orphaned
from sentinel.model.records import Attribution, SampleSeen
from sentinel.plan.sample_attribution import attribute_samples

LOOK_EVERY_S = 1.0


@dataclass(frozen=True, slots=True)
class SampleSource:
    """How to see what an inspection did. `trains`: whether it wrote a stream of steps, which an inspection never does.
    `samples`: what samples.jsonl holds; raises GiveUp, with the reason, where it is not whole."""

    trains: Callable[[int], bool]
    samples: Callable[[int], Sequence[SampleSeen]]


def inspect_samples(
    launcher: Launcher,
    source: SampleSource,
    action: InspectSamples,
    command: tuple[str, ...],
    cwd: str,
    launch: str | None = None,
) -> Attribution:
    """The judgement. `launch`: as `AttemptSpec` has it. Raises GoesOn while it runs; GiveUp when no answer will come; RetryLater
    when nothing can be seen now."""
    spec = AttemptSpec(
        attempt=action.attempt,
        argv=command,
        cwd=cwd,
        resume=action.resume,
        overrides=action.overrides,
        inspect=action.samples,
        exclude_nodes=action.exclude_nodes,
        launch=launch,
    )
    view = launcher.ensure_started(spec)
    if source.trains(action.attempt):
        raise GiveUp(
            "the trainer trains where it was asked to inspect samples: it does not know spec.json's `inspect` "
            "(start the run with --without attribution)"
        )
    match view:
        case Exited(report=report) if _is_done(report):
            return attribute_samples(source.samples(action.attempt), action.suspect, action.attempt)
        case Exited(report=report):
            raise GiveUp(f"the inspection (attempt {action.attempt}) failed: {_how(report)}")
        case Orphaned(reason=reason):
            raise GiveUp(f"the inspection (attempt {action.attempt}) was lost: {reason}")
        case _:
            raise GoesOn(f"attempt {action.attempt} inspects samples", LOOK_EVERY_S)


def _is_done(report: ExitReport) -> bool:
    codes = [rank.code for rank in report.ranks] or [report.command_status]
    return all(code == 0 for code in codes)


def _how(report: ExitReport) -> str:
    first = next((rank for rank in report.ranks if rank.code != 0), None)
    if first is not None and first.error:
        return first.error
    return report.reason or "no reason is known"
