"""The operator's commands: what a person asks of a run while it is live, and what they look at. Parse, ask, print the answer."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from sentinel.cli.options import ANSWER, LOOK, STEER, RunDir, RunDirAnywhere, show

if TYPE_CHECKING:
    from sentinel.model.operator_requests import OperatorRequest

Timeout = Annotated[float, typer.Option(help="Seconds to wait for the supervisor's answer.", min=0.0)]
Number = Annotated[int, typer.Argument(help="The incident's number.", metavar="N", min=1)]
NodeName = Annotated[str, typer.Argument(help="Its name, as `sentinel status` shows it.", metavar="NODE")]
OfRung = Annotated[int | None, typer.Option("--rung", help="Only if this one (1 is the first) waits by then.", min=1)]
Force = Annotated[bool, typer.Option("--force", help="Without the check that the policy asks for.")]
EXITS = "Exit codes: 0 granted, 1 refused (the sentence says why), 2 usage, or nobody supervises the run and could answer."


SHOW = "incidents show"


class Commands(TyperGroup):
    """`incidents RUN_DIR` is a command, and so is `incidents show N RUN_DIR`: the two words are its name."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args[:2] == SHOW.split():
            args = [SHOW, *args[2:]]
        return super().resolve_command(ctx, args)


def register(app: typer.Typer) -> None:
    """Add the commands to the program."""
    app.command(SHOW, cls=RunDirAnywhere, rich_help_panel=LOOK)(incidents_show)
    steering = (pause, resume, hold, rollback, skip, set_, uncordon, readmit)
    for panel, commands in ((STEER, steering), (ANSWER, (ack, resolve, approve, deny, note))):
        for command in commands:
            name = command.__name__.rstrip("_")
            app.command(name, cls=RunDirAnywhere, epilog=EXITS, rich_help_panel=panel)(command)


def incidents_show(
    number: Number,
    run_dir: RunDir,
    samples: Annotated[bool, typer.Option("--samples", help="The samples that were looked at, the worst first.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document instead of text.")] = False,
) -> None:
    """One incident: what broke, what was tried, how it ended; and with --samples which data did it, and where it lies."""
    from sentinel.report.masked import masked_json
    from sentinel.report.samples import incident_text, read_incident

    document = read_incident(run_dir, number, samples)
    show(masked_json(document) if as_json else incident_text(document))


def pause(run_dir: RunDir, timeout: Timeout = 30.0) -> None:
    """Watch on, but carry nothing out until `sentinel resume`. Training goes on."""
    from sentinel.model.operator_requests import PauseRun

    ask_run(run_dir, PauseRun(), timeout)


def resume(run_dir: RunDir, timeout: Timeout = 30.0) -> None:
    """End a pause or a hold: remedies are carried out again, a held run is launched again."""
    from sentinel.model.operator_requests import ResumeRun

    ask_run(run_dir, ResumeRun(), timeout)


def hold(run_dir: RunDir, timeout: Timeout = 30.0) -> None:
    """Stop training after a checkpoint and wait for `sentinel resume`; the supervisor stays."""
    from sentinel.model.operator_requests import HoldRun

    ask_run(run_dir, HoldRun(), timeout)


def rollback(
    run_dir: RunDir,
    to: Annotated[int, typer.Option("--to", help="Newest good checkpoint at or below this step; 0: from scratch.", min=0)],
    skip: Annotated[list[str] | None, typer.Option("--skip", help="Leave out these samples, as in 51200-53760.")] = None,
    set_: Annotated[list[str] | None, typer.Option("--set", help="With another setting, as in lr=0.5x.")] = None,
    timeout: Timeout = 30.0,
) -> None:
    """Relaunch from an older checkpoint. Later ones are moved to quarantine, never deleted."""
    from dataclasses import replace

    from sentinel.errors import UsageError
    from sentinel.model.attempts import SettingsInForce
    from sentinel.model.operator_requests import RollBack
    from sentinel.operator.requests import read_range, read_settings

    settings, keys, until = read_settings(set_, live=False) if set_ else (SettingsInForce(), (), None)
    if until is not None:
        raise UsageError("until: counts from a live change; after a rollback use `sentinel set lr=configured RUN_DIR`")
    settings = replace(settings, skip=tuple(read_range(text) for text in skip or ()))
    ask_run(run_dir, RollBack(to, settings, keys), timeout)


def skip(
    samples: Annotated[str, typer.Argument(help="Sample indices, the end not included, as in 51200-53760.", metavar="A-B")],
    run_dir: RunDir,
    timeout: Timeout = 30.0,
) -> None:
    """Never train on these samples. What was trained on already takes a rollback to before it, which is done."""
    from sentinel.model.operator_requests import LeaveOut
    from sentinel.operator.requests import read_range

    ask_run(run_dir, LeaveOut(read_range(samples)), timeout)


def set_(
    settings: Annotated[list[str], typer.Argument(help="KEY=VALUE, as in lr=0.5x clip_norm=0.3.", metavar="KEY=VALUE...")],
    run_dir: RunDir,
    timeout: Timeout = 30.0,
) -> None:
    """Change settings while it runs, as in `lr=0.5x clip_norm=0.3 until='2000 steps'`.

    KEY is one of: {live}; `until` says when they go back. lr counts against the schedule. KEY=configured gives back the trainer's
    own setting. No remedy undoes what a person set.
    """
    from sentinel.model.operator_requests import ChangeSettings
    from sentinel.operator.requests import read_settings

    overrides, keys, until = read_settings(settings, live=True)
    ask_run(run_dir, ChangeSettings(overrides, keys, until), timeout)


def approve(number: Number, run_dir: RunDir, rung: OfRung = None, timeout: Timeout = 30.0) -> None:
    """Take the rung of incident N that waits for a person."""
    from sentinel.model.operator_requests import Approve

    ask_run(run_dir, Approve(number, None if rung is None else rung - 1), timeout)


def deny(number: Number, run_dir: RunDir, rung: OfRung = None, timeout: Timeout = 30.0) -> None:
    """Pass over the rung of incident N that waits for a person; the next one is taken."""
    from sentinel.model.operator_requests import Deny

    ask_run(run_dir, Deny(number, None if rung is None else rung - 1), timeout)


def ack(number: Number, run_dir: RunDir, timeout: Timeout = 30.0) -> None:
    """A person has seen incident N: its page is not repeated. Works also when nobody supervises the run."""
    from sentinel.model.operator_requests import Acknowledge

    ask_run(run_dir, Acknowledge(number), timeout)


def resolve(number: Number, run_dir: RunDir, timeout: Timeout = 30.0) -> None:
    """Close the page of incident N, and tell everybody who was called. Works also when nobody supervises the run."""
    from sentinel.model.operator_requests import Resolve

    ask_run(run_dir, Resolve(number), timeout)


def note(
    text: Annotated[str, typer.Argument(help="One line, up to 2000 characters.", metavar="TEXT")],
    run_dir: RunDir,
    timeout: Timeout = 30.0,
) -> None:
    """Write an entry of your own into the record of the run, under your name. Works also when nobody supervises the run."""
    from sentinel.errors import UsageError
    from sentinel.model.operator_requests import REMARK_CHARS_MAX, Remark, is_remark

    if not is_remark(text):
        raise UsageError(f"the note is not one printable line of 1 to {REMARK_CHARS_MAX} characters; leave out line breaks")
    ask_run(run_dir, Remark(text), timeout)


def readmit(node: NodeName, run_dir: RunDir, force: Force = False, timeout: Timeout = 30.0) -> None:
    """Use a node again that a remedy has left out, from the next launch on. The same as `uncordon`."""
    _readmit(node, run_dir, force, timeout)


def uncordon(node: NodeName, run_dir: RunDir, force: Force = False, timeout: Timeout = 30.0) -> None:
    """Use a node again that is left out, from the next launch on: where the policy has a node_check, if that calls it healthy.

    The check is waited for besides --timeout, as long as the policy lets it take. --force is recorded with your name.
    """
    _readmit(node, run_dir, force, timeout)


def _readmit(node: str, run_dir: Path, force: bool, timeout: float) -> None:
    from sentinel.model.operator_requests import Readmit
    from sentinel.report.run_policy import read_check_timeout

    ask_run(run_dir, Readmit(node, force), timeout + (0.0 if force else read_check_timeout(run_dir)))


def ask_run(run_dir: Path, request: OperatorRequest, timeout: float) -> None:
    """Ask, print the answer, and end: with 1 where it was refused."""
    from sentinel.operator.requests import ask

    answer = ask(run_dir, request, timeout)
    show(answer.words if answer.granted else f"refused: {answer.words}", err=not answer.granted)
    raise typer.Exit(0 if answer.granted else 1)
