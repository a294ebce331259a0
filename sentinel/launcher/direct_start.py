"""The ranks of a torchrun command started without torchrun, as `sentinel run --direct` asks.

torchrun's agent takes seconds to come up, imports torch once more, and then does little for ranks of one machine: it sets their
variables, waits for them, and ends them all when one has failed. The keeper does that anyway. Each attempt has a store of its own
on a fresh port, held by rank 0. A command that is no torchrun, or of which only torchrun knows what it asks for, is started as
it stands.
"""

from __future__ import annotations

import os
import signal
import subprocess

from sentinel.launcher.keeper_start import (
    NotStartable,
    Started,
    complain,
    not_startable,
    open_logs,
    own_environment,
    read_order,
    start_command,
)
from sentinel.launcher.store_port import find_port
from sentinel.launcher.warm_command import NotWarm, WarmCommand, agent_variables, rank_variables, read_command
from sentinel.run_files.attempt_files import AttemptFiles


def start_ranks(files: AttemptFiles) -> Started | NotStartable:
    """As `keeper_start.start_command`, a process for each rank."""
    order = read_order(files)
    if isinstance(order, NotStartable):
        return order
    try:
        command = read_command(order.argv, order.cwd)
        if command.ranks is None:
            return start_command(files)
        environment = own_environment() | dict(command.variables)
        environment |= agent_variables(command.ranks, environment) | order.variables
        environment |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(find_port())}
    except (NotWarm, OSError) as error:
        complain(f"attempt {files.attempt} is started as it stands: {error}")
        return start_command(files)
    words = words_of(command)
    started: list[subprocess.Popen[bytes]] = []
    try:
        with open_logs(files) as (out, err):
            for rank in range(command.ranks):
                started.append(
                    subprocess.Popen(
                        words, cwd=order.cwd, env=environment | rank_variables(rank), stdin=subprocess.DEVNULL, stdout=out,
                        stderr=err, start_new_session=True,
                    )
                )  # fmt: skip
    except OSError as error:
        for process in started:  # none of them can have met the others
            process.send_signal(signal.SIGKILL)
            process.wait()
        return not_startable(words[0], order.cwd, error)
    except ValueError as error:  # a NUL in a word
        return NotStartable(f"the command {order.argv!r} cannot be started: {error}", "certain")
    return Started(tuple(started), is_agentless=True)


def words_of(command: WarmCommand) -> list[str]:
    """What each rank runs, as torchrun would start it."""
    program = ["-m", command.name] if command.kind == "module" else [command.name]
    return [os.fspath(command.python), *command.flags, *program, *command.arguments]
