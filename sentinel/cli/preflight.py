"""`sentinel preflight`: whether the nodes fit together, before there is an attempt."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from sentinel.cli.options import LOOK, Json, dump

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
    """Equal versions on all nodes, clocks, disk for two checkpoints, free ports: each with its reason. Nothing is started."""
    from dataclasses import asdict

    from sentinel.clock import SystemClock
    from sentinel.errors import UsageError
    from sentinel.launcher.registry import LaunchPlace, open_reach, parse_options
    from sentinel.plan.preflight import Asked, PreflightCheck, judge_preflight, read_facts

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
    replies = reach.run(nodes, words, timeout)
    asked = Asked(began_s, clock.wall_s(), checkpoint_bytes or _newest_bytes(run_dir))
    return leave(judge_preflight({node: read_facts(replies.get(node)) for node in nodes}, asked))


def _newest_bytes(run_dir: Path) -> int | None:
    """Of the run's newest checkpoint; None where there is none to measure."""
    from sentinel.telemetry.checkpoints import read_all

    try:
        found = read_all(run_dir)
    except OSError:
        return None
    return next((one.bytes for one in reversed(found) if one.bytes), None)
