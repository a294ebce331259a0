"""TensorBoard itself on a run directory's boards: what its readers give back, and what its server shows in a browser."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from sentinel.tensorboard.survivors import Begun
from tests.integration.supervised import wait_for
from tests.unit.tensorboard.board_kit import draw, loss_of, rows, write
from tests.unit.told_run import state_of, told

pytest.importorskip("tensorboard", reason="TensorBoard is not installed (pip install tensorboard)")

ATTEMPTS = [Begun(1, 0, True), Begun(2, 100, True), Begun(3, 40, True)]
SURVIVES = [(n, loss_of(1 if n <= 40 else 3, n)) for n in range(1, 61)]
RUNS = {"attempt-0001", "attempt-0002", "attempt-0003", "effective"}


@pytest.fixture(scope="module")
def boards(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """1 trained to 130, 2 went on from 100 to 120, 3 was sent back to 40 and ended at 60; two incidents."""
    run_dir = tmp_path_factory.mktemp("run")
    write(run_dir, 1, rows(1, 1, 130), resumed=0)
    write(run_dir, 2, rows(2, 101, 120), resumed=100)
    write(run_dir, 3, rows(3, 41, 60), resumed=40)
    draw(run_dir, ATTEMPTS, state_of(told()).incidents)
    return run_dir / "tensorboard"


def test_its_own_reader_gives_back_every_step_the_abandoned_branch_and_the_incidents(boards: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    def read(run: str) -> Any:
        found = EventAccumulator(str(boards / run), size_guidance={"scalars": 0, "tensors": 0})
        found.Reload()
        return found

    def values(found: Any, tag: str) -> list[tuple[int, float]]:
        return [(event.step, event.value) for event in found.Scalars(tag)]

    for attempt, first, last in ((1, 1, 130), (2, 101, 120), (3, 41, 60)):
        own = read(f"attempt-{attempt:04d}")
        assert values(own, "lm loss") == [(n, loss_of(attempt, n)) for n in range(first, last + 1)]
        assert set(own.Tags()["scalars"]) == {"lm loss", "grad-norm", "mfu"}
    effective = read("effective")
    assert values(effective, "lm loss") == SURVIVES
    assert values(effective, "sentinel/incident") == [(132, 1.0), (379, 2.0)]
    texts = [tag for tag in effective.Tags()["tensors"] if tag.startswith("sentinel/incidents/")]
    assert [tag.removesuffix("/text_summary") for tag in texts] == ["sentinel/incidents/0001", "sentinel/incidents/0002"]
    (told_of_it,) = effective.Tensors(texts[1])
    assert told_of_it.step == 379
    assert b"**Incident 2: spike**" in told_of_it.tensor_proto.string_val[0]


def test_its_server_shows_each_attempt_what_survives_the_incidents_and_the_layout(boards: Path) -> None:
    with tensorboard(boards) as ask:
        assert set(ask("data/runs")) == RUNS
        wait_for("the charts", lambda: ask("data/plugin/scalars/tags").keys() == RUNS)
        for run, attempt, first, last in (("attempt-0001", 1, 1, 130), ("attempt-0002", 2, 101, 120)):
            shown = ask("data/plugin/scalars/scalars", run=run, tag="lm loss")
            assert [(step, value) for _, step, value in shown] == [(n, loss_of(attempt, n)) for n in range(first, last + 1)]
        shown = ask("data/plugin/scalars/scalars", run="effective", tag="lm loss")
        assert [(step, value) for _, step, value in shown] == SURVIVES
        marked = ask("data/plugin/scalars/scalars", run="effective", tag="sentinel/incident")
        assert [(step, value) for _, step, value in marked] == [(132, 1.0), (379, 2.0)]
        layout = ask("data/plugin/custom_scalars/layout")
        assert [category["title"] for category in layout["category"]] == ["run", "layers", "update", "speed"]
        assert layout["category"][0]["chart"][0]["multiline"]["tag"][0] == "^lm loss$"
        drawn = ask("data/plugin/custom_scalars/scalars", run="effective", tag="^lm loss$")
        assert len(drawn["tag_to_events"]["lm loss"]) == len(SURVIVES)
        stories = {run: sorted(tags) for run, tags in ask("data/plugin/text/tags").items()}
        assert stories == {"effective": ["sentinel/incidents/0001", "sentinel/incidents/0002"]}
        (spike,) = ask("data/plugin/text/text", run="effective", tag="sentinel/incidents/0002")
        assert spike["step"] == 379
        assert "<strong>Incident 2: spike</strong>" in spike["text"]


@contextmanager
def tensorboard(folder: Path) -> Iterator[Any]:
    """A real server on a free port of this machine; gives what asks it."""
    words = [sys.executable, "-m", "tensorboard.main", "--logdir", str(folder), "--host", "127.0.0.1", "--port", "0"]
    log = folder.parent / "tensorboard.log"
    with log.open("w") as out:
        server = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
    try:

        def address() -> str | None:
            assert server.poll() is None, log.read_text()
            found = re.search(r"http://127\.0\.0\.1:\d+/", log.read_text())
            return found[0] if found else None

        at = wait_for("TensorBoard", address)

        def ask(path: str, **query: str) -> Any:
            with urllib.request.urlopen(f"{at}{path}?{urllib.parse.urlencode(query)}", timeout=30) as answer:
                return json.load(answer)

        wait_for("runs", lambda: set(ask("data/runs")) == RUNS)
        yield ask
    finally:
        server.terminate()
        server.wait(30)
