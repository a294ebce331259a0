"""Every verb that reads can be read by a program: it has `--json`. A verb without it stands here, with why."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from sentinel.cli.options import RunDirAnywhere
from sentinel.cli.root import app
from tests.unit.report.streamed_run import write_streamed

ASKS = "asks something of the run; its answer is the exit code and a sentence"
WRITES = "writes, and says where"
SERVES = "goes on until it is interrupted, and has a protocol of its own"
CHECKS = "the command of a node_check: its answer is the exit code and the reason, by that contract"
IS_JSON = "prints a JSON schema"
OTHERS = {
    "run": SERVES, "demo": SERVES, "web": SERVES, "agent": SERVES, "checkpoints remember": SERVES,
    "stop": ASKS, "pause": ASKS, "resume": ASKS, "hold": ASKS, "rollback": ASKS, "skip": ASKS, "set": ASKS, "uncordon": ASKS,
    "readmit": ASKS, "ack": ASKS, "resolve": ASKS, "approve": ASKS, "deny": ASKS, "note": ASKS, "page test": ASKS,
    "node-check": CHECKS,
    "init": WRITES, "tensorboard": WRITES, "track": WRITES, "restore": WRITES, "journal salvage": WRITES, "mirror push": WRITES,
    "policy schema": IS_JSON, "trainers schema": IS_JSON,
}  # fmt: skip
OF_A_RUN = (
    "status", "doctor", "incidents", "incidents show 1", "lineage", "events", "chronicle", "top", "report", "checkpoints list",
    "journal verify",
)  # fmt: skip


def verbs(group: Any, words: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from verbs(command, (*words, name))
        else:
            yield " ".join((*words, name)), command


VERBS = dict(verbs(typer.main.get_command(app)))


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_that_reads_has_json_and_any_other_says_why_not(verb: str) -> None:
    has_json = "--json" in [option for parameter in VERBS[verb].params for option in parameter.opts]
    assert has_json != (verb in OTHERS), f"{verb}: give it --json, or, if it does not read, its reason in OTHERS"


def test_no_reason_stands_for_a_verb_that_is_gone() -> None:
    assert set(OTHERS) <= set(VERBS)


@pytest.mark.parametrize("verb", VERBS)
def test_a_run_directory_beside_other_words_may_stand_anywhere(verb: str) -> None:
    words = [parameter.name for parameter in VERBS[verb].params if parameter.param_type_name == "argument"]
    if "run_dir" in words and len(words) > 1:
        assert isinstance(VERBS[verb], RunDirAnywhere)


@pytest.fixture(scope="module")
def run_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_streamed(tmp_path_factory.mktemp("runs") / "demo")


@pytest.mark.parametrize("verb", OF_A_RUN)
def test_what_is_read_of_a_run_is_strict_json(run_dir: Path, verb: str) -> None:
    done = CliRunner().invoke(app, [*verb.split(), str(run_dir), "--json"])
    assert done.stdout, done.stderr
    for line in done.stdout.splitlines():
        json.loads(line, parse_constant=lambda word: pytest.fail(f"{word} is no JSON"))


@pytest.mark.parametrize("words", ["policy show opt-175b", "policy explain default", "trainers list", "policy check default"])
def test_what_is_read_of_a_policy_is_one_document(words: str) -> None:
    done = CliRunner().invoke(app, [*words.split(), "--json"])
    assert done.exit_code == 0, done.stderr
    document = json.loads(done.stdout)
    assert document
    if words.startswith("policy show"):
        assert document["spec"]["rules"]
        assert "extends" not in document
