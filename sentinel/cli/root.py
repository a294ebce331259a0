"""The command line: parse and print, nothing else. Packages are imported inside the commands, so that `--help` is instant."""

from __future__ import annotations

import io
import os
import sys
import traceback
from pathlib import Path
from typing import Annotated

import typer

from sentinel.cli.agent import agent
from sentinel.cli.autopsy import autopsy
from sentinel.cli.checkpoints import checkpoints_app
from sentinel.cli.drill import drill
from sentinel.cli.init import init
from sentinel.cli.journal import journal_app
from sentinel.cli.mirror import mirror_app, restore
from sentinel.cli.node_check import register as register_node_check
from sentinel.cli.operator import Commands
from sentinel.cli.operator import register as register_operator
from sentinel.cli.options import (
    ANSWER,
    LOOK,
    POLICIES,
    REHEARSE,
    RUN,
    TRAINERS,
    Json,
    Listening,
    NamesRows,
    Pages,
    RunDir,
    RunDirAnywhere,
    TokenFile,
    dump,
    show,
)
from sentinel.cli.page import page_app
from sentinel.cli.policy import policy_app
from sentinel.cli.preflight import register as register_preflight
from sentinel.cli.probe import probe
from sentinel.cli.replay import replay, watch
from sentinel.cli.report import report
from sentinel.cli.run import run
from sentinel.cli.seeing import register as register_seeing
from sentinel.cli.status import register as register_status
from sentinel.cli.trainers import trainers_app
from sentinel.cli.waiting import warned_while_waiting
from sentinel.cli.web import web
from sentinel.errors import PolicyError, SentinelError, UsageError
from sentinel.signals import EXIT_INTERRUPTED, INTERRUPTS

EXIT_BUG = 70

app = typer.Typer(
    name="sentinel",
    cls=Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Watches a long pretraining run from outside, repairs it, proves the repair, and pages a person last.",
)


def _print_version(is_wanted: bool) -> None:
    if is_wanted:
        from importlib.metadata import version

        print(f"sentinel {version('training-sentinel')}")
        raise typer.Exit


@app.callback()
def before_any_command(
    version: Annotated[bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version.")] = False,
) -> None:
    """Options that stand before any command."""


app.command(cls=NamesRows, rich_help_panel=RUN)(run)


@app.command(cls=NamesRows, rich_help_panel=RUN)
def demo(
    run_dir: Annotated[Path, typer.Option(help="Where the run lives.")] = Path("runs/demo"),
    steps: Annotated[int, typer.Option(help="Optimizer steps; the default faults scale with it.")] = 600,
    seed: Annotated[int | None, typer.Option(help="Of the weights and the data order; default the trainer's own.")] = None,
    precision: Annotated[str, typer.Option(help="fp32, bf16 or fp16.")] = "fp32",
    policy: Annotated[str, typer.Option(help="A policy file, or the name of a shipped one.")] = "demo",
    no_faults: Annotated[bool, typer.Option("--no-faults", help="Train undisturbed.")] = False,
    fault: Annotated[list[str] | None, typer.Option(help="Hurt the run so, instead of the three default faults.")] = None,
    preset: Annotated[str | None, typer.Option(help="Size of the model: micro or tiny (the default).")] = None,
    page: Pages = None,
    listen: Listening = None,
    token_file: TokenFile = None,
) -> None:
    """Train the bundled GPT, hurt it three times, and watch it being repaired. Exit codes as for `run`.

    An unfinished run directory is continued, a finished one moved aside.
    """
    from sentinel.cli.demo import DemoOptions, run_demo
    from sentinel.errors import UsageError
    from sentinel.web.opening import Listen

    if no_faults and fault:
        raise UsageError("--no-faults and --fault contradict each other; give one of them")
    faults = () if no_faults else tuple(fault) if fault else None
    routes, shown = tuple(page or ()), Listen(listen, token_file)
    raise typer.Exit(run_demo(DemoOptions(run_dir, steps, seed, precision, policy, faults, preset, routes, shown)))


register_status(app)


@app.command(rich_help_panel=LOOK)
def tensorboard(
    run_dir: Annotated[Path, typer.Argument(help="A run directory, or a log.", metavar="RUN_DIR|LOG")],
    out: Annotated[Path | None, typer.Option(help="Of a log: where to draw; default LOG.tensorboard.", metavar="DIR")] = None,
    format: Annotated[str, typer.Option(help="Of a log, as for replay: auto, metrics, csv, …")] = "auto",
) -> None:
    """Make, or mend, the TensorBoard of a run or of a recorded log: a board for each attempt and `effective`, what survives.

    Say how to look at it. A log is anything `sentinel replay` reads, the stream of a run without a supervisor too.
    """
    from sentinel.tensorboard.command import draw

    print(draw(run_dir, out, format))


@app.command(cls=NamesRows, rich_help_panel=LOOK)
def track(
    run_dir: RunDir,
    to: Annotated[str, typer.Option(help="The tracker, and its options: {trackers}.", metavar="NAME[:option=value,…]")],
    follow: Annotated[bool, typer.Option("--follow", help="Go on until the run has ended, or this is interrupted.")] = False,
    until_eof: Annotated[bool, typer.Option("--until-eof", hidden=True)] = False,
) -> None:
    """Write a run to an experiment tracker: a tracker run for each attempt, in one group, and a fork for each rollback.

    What was written before is not written again: the same command goes on. `sentinel run --track` does it for a living run.
    Exit codes: 0 all of it is written, 1 the tracker did not take it, 2 usage.
    """
    from sentinel.trackers.command import track
    from sentinel.trackers.contract import TrackerError

    try:
        track(run_dir, to, follow, until_eof, lambda words: print(words, flush=True))
    except BrokenPipeError:
        raise  # nobody reads what is printed, which says nothing of the tracker
    except (TrackerError, OSError) as error:  # a disk that is full, a stream that cannot be read
        print(f"sentinel: {run_dir}: not written to {to}: {error}; the same command goes on", file=sys.stderr)
        raise typer.Exit(1) from None


@app.command(rich_help_panel=RUN)
def stop(
    run_dir: RunDir,
    timeout: Annotated[float, typer.Option(help="Seconds to wait for the run to stop.", min=0.0)] = 900.0,
) -> None:
    """Stop the run after a checkpoint, whether or not a supervisor is alive."""
    from sentinel.cli.stop import stop_run

    print(stop_run(run_dir, timeout))


@app.command(rich_help_panel=LOOK)
def hardware(
    policy: Annotated[str, typer.Option(help="A policy file, or the name of a shipped one.")] = "default",
    as_json: Json = False,
) -> None:
    """What the GPUs and the kernel log of this machine tell now, or why nothing can be seen.

    Exit codes: 0 GPUs are seen and none asks for anything, 1 something is wrong with one, 2 usage or policy error, 3 no GPU can
    be seen (the sentence says why).
    """
    from sentinel.cli.hardware import hardware_text, look_at_hardware

    document, code = look_at_hardware(policy)
    print(dump(document) if as_json else hardware_text(document))
    raise typer.Exit(code)


app.command(rich_help_panel=RUN)(agent)
app.command(cls=NamesRows, rich_help_panel=RUN)(init)
app.command(cls=NamesRows, rich_help_panel=TRAINERS)(probe)
register_seeing(app)
app.command(rich_help_panel=LOOK)(web)
app.command(cls=RunDirAnywhere, rich_help_panel=LOOK)(report)
app.add_typer(checkpoints_app, name="checkpoints", rich_help_panel=LOOK)
register_operator(app)
register_node_check(app)
register_preflight(app)
app.add_typer(journal_app, name="journal", rich_help_panel=LOOK)
app.add_typer(mirror_app, name="mirror", rich_help_panel=LOOK)
app.command(rich_help_panel=RUN)(restore)
app.add_typer(page_app, name="page", rich_help_panel=ANSWER)
app.add_typer(policy_app, name="policy", rich_help_panel=POLICIES)
app.add_typer(trainers_app, name="trainers", rich_help_panel=TRAINERS)
for command in (replay, watch, autopsy, drill):
    app.command(rich_help_panel=REHEARSE)(command)


def main() -> None:
    """Entry point: what a person can cause ends in a sentence, never in a traceback: exit code 2 for usage and policy, where
    nothing was started; 1 for everything else that sentinel cannot do; 70 for a bug, with its traceback; 130 for Ctrl-C."""
    if sys.stdout is None or sys.stderr is None:  # closed by whoever started it: then nobody reads, and nothing must fail for it
        nowhere = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w", encoding="utf-8")
        sys.stdout, sys.stderr = sys.stdout or nowhere, sys.stderr or nowhere
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a name that is not UTF-8 costs a character, not the answer
    INTERRUPTS.came = False  # who calls this twice in one process interrupted the command before
    try:
        with warned_while_waiting():
            app()
    except SystemExit:
        if INTERRUPTS.came:
            sys.exit(EXIT_INTERRUPTED)
        raise
    except SentinelError as error:
        show(str(error), err=True)
        sys.exit(2 if isinstance(error, (UsageError, PolicyError)) else 1)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)
    except Exception:  # noqa: BLE001 - told as any other bug is, and with a code of its own: what starts sentinel may start it again
        traceback.print_exc()
        sys.exit(EXIT_BUG)
