"""`sentinel probe`: its options. Parse and print."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Annotated

import typer

from sentinel.cli.options import Json
from sentinel.errors import UsageError


def probe(
    command: Annotated[
        list[str] | None,
        typer.Argument(
            help="The training command, after --; without it, that of sentinel.yaml in this folder.", metavar="-- CMD..."
        ),
    ] = None,
    trainer: Annotated[
        str | None, typer.Option(help="Its profile; without it, it is recognised by its command.", metavar="NAME")
    ] = None,
    steps: Annotated[int, typer.Option(help="Watch it for so many steps.", min=2)] = 20,
    time: Annotated[str, typer.Option(help="And for no longer than this, each start.", metavar="DURATION")] = "2m",
    checkpoint_every: Annotated[
        int | None,
        typer.Option(
            help="Ask for a save so often, where the profile can; 0: as the command has it.", min=0, show_default="steps / 2"
        ),
    ] = None,
    resume: Annotated[bool, typer.Option(help="Start it once more, from the first checkpoint.")] = True,
    run_dir: Annotated[
        Path | None, typer.Option(help="A new folder for all it writes, which is kept; default a temporary one.")
    ] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Keep the temporary folder.")] = False,
    as_it_is: Annotated[
        bool, typer.Option("--as-it-is", help="Start it although it may write over files of an earlier run.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Start a trainer for some steps, end it, and say what can be watched, restored, changed and proved, and what is missing.

    The flag that names its checkpoints' folder is pointed at a folder of the probe's own. Exit codes: 0 it can be watched and
    restored, 1 something for that is missing, 2 usage error (nothing was started).
    """
    from sentinel.clock import SystemClock
    from sentinel.policy.quantities import Malformed, parse_positive_duration
    from sentinel.report.masked import environment_masking, masked_json
    from sentinel.supervisor.config_file import find_config
    from sentinel.trainers.probe.command import ProbeRequest
    from sentinel.trainers.probe.command import probe as run
    from sentinel.trainers.probe.running import ProbeLimits

    try:
        seconds = parse_positive_duration(time)
    except Malformed as error:
        raise UsageError(f"--time: {error}; {error.remedy}") from None
    every = max(1, steps // 2) if checkpoint_every is None else checkpoint_every
    limits = ProbeLimits(steps=steps, seconds=seconds, save_every=every, tries_resume=resume)
    words, cwd = tuple(command or ()), os.getcwd()
    if (file := find_config(None, words, None)) is not None:
        words, cwd, trainer = file.config.command, str(file.path.parent), trainer or file.trainer
    asked = ProbeRequest(words, cwd, trainer, run_dir, keep, as_it_is, limits)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that nothing it started is left
    report = run(asked, SystemClock(), lambda line: print(line, file=sys.stderr, flush=True))
    print(masked_json(report.document) if as_json else environment_masking().text(report.text))
    raise typer.Exit(0 if report.is_fine else 1)
