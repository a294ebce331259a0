"""Every verb that reads has `--json`; a new one without it must stand here, with the reason."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from typer.main import get_command

from sentinel.cli.root import app

ACT = """run demo stop init restore pause resume hold rollback skip set uncordon readmit ack resolve approve deny note web
tensorboard track agent; checkpoints remember; journal salvage; mirror push; page test"""
VERDICTS = "node-check"  # an exit code, and one line of a reason: the words of every health check
ARE_JSON = "policy schema; trainers schema"


def verbs(command: Any, path: str = "") -> Iterator[tuple[str, bool]]:
    """Each with whether it has the option."""
    inner = getattr(command, "commands", None)
    if not inner:
        yield path, any("--json" in option.opts for option in command.params)
    for name, one in (inner or {}).items():
        yield from verbs(one, f"{path} {name}".strip())


def test_a_verb_that_reads_prints_json() -> None:
    first, *pairs = f"{ACT}; {VERDICTS}; {ARE_JSON}".split("; ")
    without = {*first.split(), *pairs}
    found = dict(verbs(get_command(app)))
    assert {name for name, has_json in found.items() if not has_json} == without
    assert {"status", "doctor", "incidents", "incidents show", "top", "logs", "events", "policy show"} <= found.keys()
