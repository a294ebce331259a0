"""A person shrinks the embedding's gradient of the real trainer while it trains: it is read back, shown, and taken back."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.forked_ranks import supervised_ranks
from tests.integration.forked_sentinel import run_sentinel
from tests.integration.supervised import Supervised, wait_for

NAME = "embed_grad_scale"
# Rotary positions: then nothing but the token embedding is in `grad_norm/embed`.
SIZES = "schedule.steps=100000", "data.batch_size=4", "data.seq_len=32", "checkpoint.every=1000", "model.positions=rotary"


def said(*words: str) -> str:
    done = run_sentinel(*words)
    assert done.returncode == 0, done.stderr
    return done.stdout


def embed_norm(run: Supervised, steps: range) -> float:
    found = [line["grad_norm/embed"] for step, line in run.surviving().items() if step in steps]
    return sum(found) / len(found)


@pytest.mark.slow
def test_the_embeddings_gradient_is_shrunk_live_and_goes_back_under_watch(tmp_path: Path) -> None:
    run = Supervised(tmp_path / "run", supervised_ranks(1, "--preset", "micro", "--set", *SIZES)).start()
    wait_for("a training run", lambda: run.last_step(1) > 60)
    place = str(run.run_dir)
    refused = run_sentinel("set", f"{NAME}=2", place)
    assert refused.returncode == 2
    assert f"{NAME}: 2 is out of range" in refused.stderr
    assert f"asked of the trainer: {NAME} 0.1 until step " in said("set", f"{NAME}=0.1", "until=40 steps", place)

    def answers() -> list[dict[str, object]]:
        return [line for line in run.lines(1) if line.get("event") == "override_applied"]

    wait_for("the trainer's answer", answers)
    wait_for("the verdict", lambda: "lapse proven" in run.log or run.has_ended)
    said("stop", place)
    run.wait()
    shrunk, back = [int(str(line["step"])) for line in answers()][:2]
    assert [line["effective"][NAME] for line in (run.lines(1)[0], *answers()[:2])] == [1.0, 0.1, 1.0]
    before, under = range(shrunk - 20, shrunk), range(shrunk, shrunk + 20)
    assert embed_norm(run, under) < 0.2 * embed_norm(run, before)
    assert embed_norm(run, range(back, back + 20)) > 5 * embed_norm(run, range(back - 20, back))

    assert run.incidents() == []
    assert run.status()["schedule"]["steps_under"] == {NAME: back - shrunk}
    assert f"{back - shrunk} steps under another {NAME}" in said("lineage", place)
    assert f"{back - shrunk} steps under another {NAME}" in said("status", place)
    story = (run.run_dir / "chronicle.md").read_text()
    assert "embedding gradient scale as configured → 0.1" in story
    assert f"The lapse of {NAME} proven" in story
