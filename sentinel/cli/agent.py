"""`sentinel agent`: one node's eyes and hands. Parse and watch."""

from __future__ import annotations

import shlex
from typing import Annotated

import typer

from sentinel.cli.options import RunDir

Node = Annotated[
    str | None,
    typer.Option(help="The node, as the heartbeats of its ranks call it; default SENTINEL_NODE, or the host.", metavar="NAME"),
]
Check = Annotated[
    str | None, typer.Option(help="A command that checks this node when that is asked: 0 healthy, 1 sick.", metavar="COMMAND")
]
CheckTimeout = Annotated[float, typer.Option(help="How many seconds the check may take.", min=1.0)]
KernelLogPath = Annotated[str, typer.Option(help="Where the kernel log is read: /dev/kmsg, a file that grows, or off.")]
Nvml = Annotated[bool, typer.Option("--nvml/--no-nvml", help="Whether to ask the NVIDIA driver, in a process of its own.")]


def agent(
    run_dir: RunDir,
    node: Node = None,
    check: Check = None,
    check_timeout: CheckTimeout = 300.0,
    kernel_log: KernelLogPath = "/dev/kmsg",
    nvml: Nvml = True,
) -> None:
    """Stay on a node of a run beside its ranks, and see ranks, GPUs and the kernel log there for the supervisor.

    It ends and signals ranks when the supervisor asks for that, and decides nothing itself. It goes on until it is stopped. Exit
    codes: 0 stopped, 2 usage.
    """
    from sentinel.agent.hardware_news import HardwareNews
    from sentinel.agent.orders import CheckCommand
    from sentinel.agent.watching import check_node, watch_node
    from sentinel.client.machine import read_host
    from sentinel.clock import SystemClock
    from sentinel.errors import UsageError
    from sentinel.telemetry.hardware import Hardware
    from sentinel.telemetry.kernel_log import KernelLog
    from sentinel.telemetry.nvml import NvmlSource

    named = read_host() if node is None else node
    check_node(named)
    run_dir = run_dir.absolute()
    try:
        words = tuple(shlex.split(check or ""))
    except ValueError as error:
        raise UsageError(f"--check {check!r}: is no command line ({error})") from None
    log = None if kernel_log == "off" else KernelLog(kernel_log, run_dir)
    news = HardwareNews(Hardware(NvmlSource(run_dir) if nvml else None, log))
    watch_node(run_dir, named, news, CheckCommand(words, check_timeout), SystemClock())
