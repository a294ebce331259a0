"""`sentinel node-check`: whether this node is healthy, by Sentinel's own check or in the words of another program."""

from __future__ import annotations

import importlib.util
import os
import sys
from typing import Annotated

import typer

from sentinel.cli.options import LOOK

HEALTHY, SICK, UNKNOWN = 0, 1, 2
DEFAULTS = {"dcgm": ("dcgmi", "diag", "-r", "1", "-j"), "nhc": ("nhc",)}
SOCKET = "/var/run/nvhcd.sock"
EXITS = "Exit codes: 0 healthy, 1 sick (the reason on standard output), 2 unknown (the reason on standard error), or usage."


Program = Annotated[list[str] | None, typer.Argument(help="With --reads: the program to run.", metavar="[-- PROGRAM ...]")]
Gpus = Annotated[int | None, typer.Option(help="How many GPUs there must be.", min=0)]
Memory = Annotated[int, typer.Option(help="MiB of each device's memory that are tried.", min=0)]
Pairs = Annotated[bool, typer.Option("--pairs", help="All-reduces between pairs of nodes, too (under torchrun or srun).")]
Reads = Annotated[str | None, typer.Option(help="Read the verdict of another program: dcgm, nhc, primus, nvrx.")]
Timeout = Annotated[float, typer.Option(help="With --reads: seconds that the program may take.", min=1.0)]


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command("node-check", epilog=EXITS, rich_help_panel=LOOK)(node_check)


def node_check(
    command: Program = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda: what is tried.")] = "auto",
    gpus: Gpus = None,
    memory: Memory = 256,
    pairs: Pairs = False,
    reads: Reads = None,
    socket: Annotated[str, typer.Option(help="With --reads nvrx: the socket of the node health service.")] = SOCKET,
    timeout: Timeout = 240.0,
) -> None:
    """Say whether this node is healthy: the command for a policy's node_check, and for sbatch scripts.

    Matrix products against a digest that is computed another way, and a pattern in memory, on each GPU or on the CPU.
    """
    from sentinel.errors import UsageError

    if reads is None:
        if command:
            raise UsageError(f"{command[0]}: a program is run with --reads only; say which format it prints, or leave it out")
        _own(device, gpus, memory, pairs)
    else:
        _other(reads, tuple(command or ()), socket, timeout)


def _own(device: str, gpus: int | None, memory: int, pairs: bool) -> None:
    """In the place of this process: what computes loads torch, which Sentinel does not."""
    from sentinel.errors import UsageError

    if device not in ("auto", "cpu", "cuda"):
        raise UsageError(f"--device {device}: no such device; use auto, cpu or cuda")
    if importlib.util.find_spec("torch") is None:
        typer.echo("torch is not installed here, so that nothing can be tried", err=True)
        raise typer.Exit(UNKNOWN)
    words = ["--device", device, "--memory", str(memory), *(["--pairs"] if pairs else [])]
    words += [] if gpus is None else ["--gpus", str(gpus)]
    sys.stdout.flush()
    os.execv(sys.executable, [sys.executable, "-m", "sentinel.client.torch.node_check", *words])


def _other(reads: str, command: tuple[str, ...], socket: str, timeout: float) -> None:
    from sentinel.client.machine import read_host
    from sentinel.errors import UsageError
    from sentinel.plan.node_reports import READERS

    if reads not in READERS:
        raise UsageError(f"--reads {reads}: no such format; use one of {', '.join(READERS)}")
    if reads == "nvrx" and command:
        raise UsageError(f"--reads nvrx asks a socket and runs nothing; leave out {command[0]}")
    if reads == "nvrx":
        from sentinel.launcher.nvrx_health import ask_service

        code, output, trouble = ask_service(socket, timeout)
    else:
        words = command or DEFAULTS.get(reads)
        if not words:
            raise UsageError(f"--reads {reads} needs the program: `sentinel node-check --reads {reads} -- PROGRAM …`")
        code, output, trouble = _run(words, timeout)
    found = READERS[reads](code, output, read_host())
    is_sick = found.verdict == "sick"
    typer.echo(found.reason if not trouble or found.verdict != "unknown" else f"{found.reason}; {trouble}", err=not is_sick)
    raise typer.Exit({"healthy": HEALTHY, "sick": SICK}.get(found.verdict, UNKNOWN))


def _run(words: tuple[str, ...], timeout: float) -> tuple[int | None, str, str]:
    """Exit status, None where it did not end; both outputs; what went wrong with it."""
    from sentinel.launcher.asking import AskLimits, ask

    reply = ask(words, os.environ, AskLimits(timeout))
    return reply.status, f"{reply.output}\n{reply.errors}", "" if reply.status == 0 else reply.trouble
