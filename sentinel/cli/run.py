"""`sentinel run`: its options, and what they ask of the supervisor."""

from __future__ import annotations

import os
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from sentinel.cli.options import Listening, Pages, TokenFile
from sentinel.signals import held_back, hold_back, let_through

Command = Annotated[list[str] | None, typer.Argument(help="The training command, after --.", metavar="-- CMD...")]
Where = Annotated[Path | None, typer.Option(help="Where the run lives; default runs/<program name>.")]
ObserveOnly = Annotated[bool, typer.Option("--observe-only", help="Decide and record, change nothing.")]
Without = Annotated[str, typer.Option(help="What the trainer cannot do, as in skip,live_overrides,attribution.")]
With = Annotated[str, typer.Option("--with", help="What the command can do besides: exclude (SENTINEL_EXCLUDE_NODES).")]
Code = Annotated[
    list[str] | None, typer.Option(help="Source to watch for changes, instead of what the command leads to.", metavar="PATH")
]
Boards = Annotated[bool, typer.Option(help="Keep RUN_DIR/tensorboard: each attempt, and the run that survives.")]
Track = Annotated[
    list[str] | None,
    typer.Option(
        help="Write every attempt to an experiment tracker, too; may be repeated. {trackers}.", metavar="NAME[:option=value,…]"
    ),
]
Mirror = Annotated[
    str | None,
    typer.Option(
        help="Mirror the run off this machine: a directory or an address; options journal, streams, every, keep; off: no longer.",
        metavar="TO[,option=value,…]",
    ),
]
LauncherKind = Annotated[str | None, typer.Option(help="What starts and stops the training. {launchers}.", metavar="KIND")]
LauncherOptions = Annotated[
    list[str] | None,
    typer.Option(help="A setting of the launcher; may be repeated. {launcher_options}.", metavar="NAME=VALUE"),
]
Warm = Annotated[
    bool | None,
    typer.Option("--warm/--no-warm", help="Keep ranks in reserve, so that a relaunch needs no imports. Costs their memory."),
]
Direct = Annotated[
    bool | None,
    typer.Option("--direct/--no-direct", help="Start the ranks of a torchrun command on one node without it, seconds sooner."),
]
TimeLimit = Annotated[
    str | None,
    typer.Option(help="How long the machine is ours, as in 335h: stop in time, to be started again.", metavar="DURATION"),
]
TakeoverWait = Annotated[
    str | None,
    typer.Option(
        help="How long to wait for the lease of a supervisor on another machine; within Slurm and Kubernetes 90s.",
        metavar="DURATION",
        show_default="0s",
    ),
]
Trainer = Annotated[
    str | None,
    typer.Option(
        help="Profile of a trainer that knows nothing of sentinel: hf-trainer, FILE:root=DIR.", metavar="NAME"
    ),
]
Config = Annotated[
    Path | None,
    typer.Option(help="What to run, from a file; without a command: sentinel.yaml of this folder.", metavar="FILE"),
]
ShareWith = Annotated[
    str | None, typer.Option(help="Let this group read the run directory; else it is yours alone.", metavar="GROUP")
]
Nice = Annotated[
    int | None, typer.Option(help="How far Sentinel stands back behind the ranks, 0 to 19; by default 5.", metavar="N")
]
Pin = Annotated[str | None, typer.Option(help="Processors that Sentinel keeps to, as in 0,2-5; ranks do not.", metavar="CPUS")]
StandbyFlag = Annotated[
    bool, typer.Option("--standby", help="Wait until the run in --run-dir has lost its supervisor, and go on with it here.")
]
LeaseLength = Annotated[
    str | None,
    typer.Option(
        "--lease",
        help="How long this supervisor may go unheard before a standby takes its place.",
        metavar="DURATION",
        show_default="60s",
    ),
]
ChangedCommand = Annotated[
    bool, typer.Option("--changed-command", help="Go on with the run in --run-dir, under another command than before.")
]

PolicyFile = Annotated[
    str | None,
    typer.Option(help="A policy file, or the name of a shipped one.", show_default="the run's own; of a new run: default"),
]


@held_back()  # until `supervise` has its handlers
def run(
    command: Command = None,
    policy: PolicyFile = None,
    run_dir: Where = None,
    observe_only: ObserveOnly = False,
    without: Without = "",
    with_: With = "",
    code: Code = None,
    tensorboard: Boards = True,
    track: Track = None,
    mirror: Mirror = None,
    launcher: LauncherKind = None,
    launcher_option: LauncherOptions = None,
    warm: Warm = None,
    direct: Direct = None,
    time_limit: TimeLimit = None,
    takeover_wait: TakeoverWait = None,
    standby: StandbyFlag = False,
    lease: LeaseLength = None,
    changed_command: ChangedCommand = False,
    trainer: Trainer = None,
    share_with: ShareWith = None,
    nice: Nice = None,
    pin: Pin = None,
    config: Config = None,
    page: Pages = None,
    listen: Listening = None,
    token_file: TokenFile = None,
) -> None:
    """Launch a training command, or adopt the one that is running; watch it; repair it.

    Exit codes: 0 the run finished, 1 it failed and no repair is left (or sentinel can do no more, and says why), 2 usage or
    policy error, 75 stopped before a deadline or by SIGUSR1 (start it again, and it goes on), 130 stopped, 70 a bug in sentinel
    (training goes on).
    """
    from sentinel.launcher.registry import parse_options
    from sentinel.mirrors.settings import parse_mirror
    from sentinel.supervisor.app import supervise
    from sentinel.supervisor.config_file import default_run_dir, find_config
    from sentinel.supervisor.deadline import parse_time_limit
    from sentinel.supervisor.priority import standing_back
    from sentinel.supervisor.run_request import RunRequest, question_about
    from sentinel.supervisor.takeover import parse_lease_length, parse_takeover_wait
    from sentinel.terminal.choose import choose_narrator
    from sentinel.web.opening import Listen

    file = find_config(config, words := tuple(command or ()), run_dir)
    lacks, more = (tuple(word.strip() for word in names.split(",") if word.strip()) for names in (without, with_))
    asked = RunRequest(
        run_dir=run_dir or default_run_dir(words), policy=policy, command=words, cwd=os.getcwd(),
        observe_only=observe_only, without=lacks, more=more, tensorboard=tensorboard, share_with=share_with, nice=nice, pin=pin,
        code=tuple(code or ()), track=tuple(track or ()), mirror=parse_mirror("--mirror", mirror), pages=tuple(page or ()),
        listen=Listen(listen, token_file), trainer=trainer, launcher=launcher, standby=standby, lease_s=parse_lease_length(lease),
        launcher_options=parse_options([*(launcher_option or ()), *_switches(warm=warm, direct=direct)]),
        time_limit_s=parse_time_limit(time_limit), takeover_wait_s=parse_takeover_wait(takeover_wait, os.environ),
    )  # fmt: skip
    asked = asked if file is None else file.lay_under(asked, gave_run_dir=run_dir is not None)
    asked = replace(asked, changed_command=changed_command or _says_yes(question_about(asked.run_dir, asked.command)))
    with standing_back(asked.nice, asked.pin) as threads, closing(choose_narrator(asked.run_dir)) as narrator:
        raise typer.Exit(supervise(replace(asked, start_thread=threads.start), narrator))


def _switches(**asked: bool | None) -> list[str]:
    """The launcher's options that have a switch of their own; nothing for those that nobody gave."""
    return [f"{name}={'on' if is_on else 'off'}" for name, is_on in asked.items() if is_on is not None]


def _says_yes(question: str) -> bool:
    """Asked once, where somebody sits there; silence and a closed input are no."""
    if not question or not (sys.stdin.isatty() and sys.stdout.isatty()):
        return False
    let_through()  # Ctrl-C is an answer, too
    try:
        return typer.confirm(question, default=False)
    except typer.Abort:
        return False
    finally:
        hold_back()
