"""A training command taken apart, so that its ranks can be started ahead and without torchrun. Pure but for finding programs.

    env NAME=VALUE … python [-u -B -O …] SCRIPT|-m MODULE ARGUMENTS
    env NAME=VALUE … torchrun|python -m torch.distributed.run [options] SCRIPT|-m MODULE ARGUMENTS    on one node

What it does not know for certain it refuses, with the reason: that command is started as it stands.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from sentinel.launcher.interpreter import find_interpreter

_PYTHON = re.compile(r"python(\d+(\.\d+)?)?t?$")
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
_FLAGS = ("-u", "-B", "-O", "-OO", "-s", "-P")
_AGENT = "torch.distributed.run"
_HOLDS = {  # how many words each of torchrun's options holds
    "--standalone": 0, "--nnodes": 1, "--nproc-per-node": 1, "--max-restarts": 1, "--local-addr": 1, "--module": 0,
    "--no-python": 0,
}  # fmt: skip
_SHORT = {"-m": "--module"}
RANKS_MAX = 64


class NotWarm(ValueError):
    """This command cannot be started ahead; why."""


@dataclass(frozen=True, slots=True)
class WarmCommand:
    """`python`: a path, `flags` behind it. `variables`: those the command sets itself. `ranks`: None where there is no torchrun
    and so one process that is told no rank. `arguments`: of the program."""

    python: str
    flags: tuple[str, ...]
    variables: tuple[tuple[str, str], ...]
    ranks: int | None
    kind: Literal["module", "script"]
    name: str
    arguments: tuple[str, ...]

    @property
    def shape(self) -> tuple[object, ...]:
        """What a reserve depends on: two commands of one shape differ in their arguments alone."""
        return self.python, self.flags, self.variables, self.ranks, self.kind, self.name


def read_command(argv: Sequence[str], cwd: str) -> WarmCommand:
    """Raises NotWarm."""
    variables, words = _variables(list(argv))
    if not words:
        raise NotWarm("it has no program")
    if os.path.basename(words[0]) == "torchrun":
        python = find_interpreter(words[:1], cwd)
        if python is None:
            raise NotWarm("torchrun's own Python is not found in its first line")
        return _of_agent(python, words[1:], variables, cwd)
    python, flags, rest = _python(words, cwd)
    if len(rest) > 1 and rest[0] == "-m" and rest[1] == _AGENT:
        return _of_agent(python, rest[2:], variables, cwd)
    kind, name, arguments = _program(rest)
    return WarmCommand(python, flags, variables, None, kind, name, arguments)


def _variables(words: list[str]) -> tuple[tuple[tuple[str, str], ...], list[str]]:
    """`env A=b` in front; with options of `env` it is not understood."""
    if not words or os.path.basename(words[0]) != "env":
        return (), words
    rest = words[1:]
    found: dict[str, str] = {}
    while rest and _ASSIGNMENT.match(rest[0]):
        name, _, value = rest.pop(0).partition("=")
        found[name] = value
    return tuple(found.items()), rest


def _python(words: Sequence[str], cwd: str) -> tuple[str, tuple[str, ...], list[str]]:
    word = words[0]
    path = shutil.which(os.path.join(cwd, word) if os.sep in word else word)
    if path is None or not _PYTHON.match(os.path.basename(word)):
        raise NotWarm(f"{word} is neither a Python nor torchrun")
    rest, flags = list(words[1:]), []
    while rest and rest[0] in _FLAGS:
        flags.append(rest.pop(0))
    return path, tuple(flags), rest


def _program(words: Sequence[str]) -> tuple[Literal["module", "script"], str, tuple[str, ...]]:
    if len(words) > 1 and words[0] == "-m":
        return "module", words[1], tuple(words[2:])
    if not words or words[0].startswith("-"):
        raise NotWarm(f"{words[0] if words else 'nothing'} stands where its Python should be given -m MODULE or a script")
    return "script", words[0], tuple(words[1:])


def _of_agent(python: str, words: list[str], variables: tuple[tuple[str, str], ...], cwd: str) -> WarmCommand:
    given: dict[str, str] = {}
    rest = list(words)
    while rest and rest[0].startswith("-"):
        word, equals, value = rest.pop(0).partition("=")
        name = _SHORT.get(word, word.replace("_", "-"))
        if name not in _HOLDS or (equals and not _HOLDS[name]):
            raise NotWarm(f"torchrun's option {word} is one that only torchrun knows to honour")
        if _HOLDS[name] and not equals:
            value = rest.pop(0) if rest else ""
        given[name] = value
    ranks = given.get("--nproc-per-node", "1")
    if given.get("--nnodes", "1") not in ("1", "1:1"):
        raise NotWarm("it runs on several nodes")
    if given.get("--max-restarts", "0") != "0":
        raise NotWarm("torchrun is to restart its ranks itself (--max-restarts)")
    if not ranks.isdecimal() or not 1 <= int(ranks) <= RANKS_MAX:
        raise NotWarm(f"--nproc-per-node {ranks}: is no number of ranks from 1 to {RANKS_MAX}")
    if "--no-python" in given:
        if not rest:
            raise NotWarm("torchrun is given no program")
        python, flags, words = _python(rest, cwd)
    else:
        flags, words = ("-u",), ["-m", *rest] if "--module" in given else rest
    kind, name, arguments = _program(words)
    return WarmCommand(python, flags, variables, int(ranks), kind, name, arguments)


def agent_variables(ranks: int, environ: Mapping[str, str]) -> dict[str, str]:
    """What torchrun sets the same for every rank of every launch (torch 2.13, torch/distributed/elastic/agent/server)."""
    threads = {} if "OMP_NUM_THREADS" in environ or ranks == 1 else {"OMP_NUM_THREADS": "1"}
    return threads | {
        "GROUP_RANK": "0", "GROUP_WORLD_SIZE": "1", "ROLE_NAME": "default", "LOCAL_WORLD_SIZE": str(ranks),
        "WORLD_SIZE": str(ranks), "ROLE_WORLD_SIZE": str(ranks), "TORCHELASTIC_RESTART_COUNT": "0",
        "TORCHELASTIC_MAX_RESTARTS": "0", "TORCHELASTIC_RUN_ID": "none", "TORCHELASTIC_USE_AGENT_STORE": "False",
        "TORCH_NCCL_ASYNC_ERROR_HANDLING": environ.get("TORCH_NCCL_ASYNC_ERROR_HANDLING", "1"),
    }  # fmt: skip


def rank_variables(rank: int) -> dict[str, str]:
    return {"RANK": str(rank), "LOCAL_RANK": str(rank), "ROLE_RANK": str(rank)}
