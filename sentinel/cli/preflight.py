"""`sentinel preflight`: whether the nodes fit together, before there is an attempt."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sentinel.cli.options import LOOK, Json, dump

if TYPE_CHECKING:
    from sentinel.launcher.folder_trial import FolderTrial
    from sentinel.plan.preflight import NodeFacts
    from sentinel.plan.preflight_check import PreflightCheck

GOOD, BAD, UNKNOWN = 0, 1, 3
EXITS = "Exit codes: 0 every check is good, 1 one is bad, 2 usage, 3 none is bad and one is unknown."
Ports = Annotated[list[int] | None, typer.Option("--port", help="A port that must be free on every node; may be repeated.")]
Launcher = Annotated[str, typer.Option(help="Whose nodes: local or slurm, as for `sentinel run`.")]
Options = Annotated[list[str] | None, typer.Option("--launcher-option", help="A setting of the launcher.", metavar="NAME=VALUE")]
Size = Annotated[int | None, typer.Option(help="Bytes of one checkpoint; else of the run's newest.", min=1)]
PYTHON = "The Python of the training on every node; else Sentinel's own."


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command("preflight", epilog=EXITS, rich_help_panel=LOOK)(preflight)


def preflight(
    run_dir: Annotated[Path, typer.Option("--run-dir", help="Where the run is to write.")] = Path("run"),
    launcher: Launcher = "local",
    launcher_option: Options = None,
    checkpoint_bytes: Size = None,
    port: Ports = None,
    python: Annotated[str, typer.Option(help=PYTHON)] = sys.executable,
    timeout: Annotated[float, typer.Option(help="Seconds within which nodes must answer.", min=1.0)] = 60.0,
    as_json: Json = False,
) -> None:
    """Equal versions on all nodes, clocks, disk for two checkpoints, free ports, a shared folder: each with its reason.

    Nothing is started. Where the run is to write, a folder is made for some seconds when there are other machines.
    """
    from dataclasses import asdict

    from sentinel.client.machine import read_host
    from sentinel.clock import SystemClock
    from sentinel.errors import UsageError
    from sentinel.launcher.folder_trial import FolderTrial
    from sentinel.launcher.registry import LaunchPlace, open_reach, parse_options
    from sentinel.plan.preflight import Asked, judge_preflight, read_facts
    from sentinel.plan.preflight_check import PreflightCheck

    def leave(checks: tuple[PreflightCheck, ...]) -> None:
        lines = (f"{check.verdict:8} {check.name:9} {check.reason}" for check in checks)
        typer.echo(dump({"checks": [asdict(check) for check in checks]}) if as_json else "\n".join(lines))
        verdicts = {check.verdict for check in checks}
        raise typer.Exit(BAD if "bad" in verdicts else UNKNOWN if "unknown" in verdicts else GOOD)

    reach = open_reach(launcher, parse_options(launcher_option or ()), LaunchPlace(run_dir))
    if isinstance(reach, str):
        raise UsageError(f"--launcher {launcher}: {reach}")
    nodes = reach.participants(())
    if isinstance(nodes, str):
        return leave((PreflightCheck("nodes", "unknown", nodes),))
    words = [python, "-m", "sentinel.client.node_facts", "--path", str(run_dir.absolute())]
    words += [word for number in port or () for word in ("--port", str(number))]
    clock = SystemClock()
    began_s = clock.wall_s()
    with ExitStack() as stack:
        folder = None if nodes == (read_host(),) else _enter_trial(stack, run_dir)
        if isinstance(folder, FolderTrial):
            words += ["--shared", str(folder.folder)]
        replies = reach.run(nodes, words, timeout)
        asked = Asked(began_s, clock.wall_s(), checkpoint_bytes or _newest_bytes(run_dir))
        answers = {node: read_facts(replies.get(node)) for node in nodes}
        checks = judge_preflight(answers, asked)
        if isinstance(folder, FolderTrial):
            checks = (*checks, _judge_folder(folder, answers))
        elif folder is not None:
            checks = (*checks, folder)
    return leave(checks)


def _enter_trial(stack: ExitStack, run_dir: Path) -> FolderTrial | PreflightCheck:
    from sentinel.client.machine import read_host
    from sentinel.launcher.folder_trial import FolderTrial
    from sentinel.plan.preflight_check import PreflightCheck

    try:
        return stack.enter_context(FolderTrial(run_dir))
    except OSError as error:
        where = error.filename or run_dir
        return PreflightCheck("shared", "bad", f"{read_host()} cannot write in {where}: {error.strerror or error}")


def _judge_folder(trial: FolderTrial, answers: Mapping[str, NodeFacts | str]) -> PreflightCheck:
    from sentinel.client.machine import read_host
    from sentinel.plan.shared_folder import SeenOfNode, judge_shared

    facts = {node: None if isinstance(answer, str) else answer.shared for node, answer in answers.items()}
    nothing = SeenOfNode(None, 0, 0)
    seen = {node: nothing if one is None else trial.seen(one.name, one.numbers) for node, one in facts.items()}
    return judge_shared(read_host(), str(trial.folder.parent), facts, seen)


def _newest_bytes(run_dir: Path) -> int | None:
    """Of the run's newest checkpoint; None where there is none to measure."""
    from sentinel.telemetry.checkpoints import read_all

    try:
        found = read_all(run_dir)
    except OSError:
        return None
    return next((one.bytes for one in reversed(found) if one.bytes), None)
