"""A real supervisor over a trainer that goes on badly: the slow rank is named, missing saves are told, nothing is relaunched."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.integration.forked_ranks import supervised_ranks
from tests.integration.supervised import Supervised, double
from tests.integration.test_trainer_launch import SIZES

QUICK = """\
apiVersion: sentinel/v1
kind: RemediationPolicy
metadata: {name: quick}
extends: demo
spec:
  detectors:
    straggler: {at_least: 1s}
    stale_checkpoint: {at_least: 0.2s}
"""


@pytest.fixture
def quick_policy(tmp_path: Path) -> str:
    """The demo's policy, told within a second or two."""
    path = tmp_path / "quick.yaml"
    path.write_text(QUICK)
    return str(path)


def told(run: Supervised, words: str = "") -> list[tuple[str, str, int | None]]:
    """The incidents, one look; `words` stand somewhere in them."""
    incidents = run.incidents()
    assert words in json.dumps(incidents)
    return [(incident["kind"], incident["state"], incident["blamed_rank"]) for incident in incidents]


@pytest.mark.slow
def test_the_slow_rank_of_four_is_named_and_training_goes_on(tmp_path: Path, quick_policy: str) -> None:
    run = Supervised(tmp_path / "run", double(120, 0.02, ranks=4, slow=2), policy=quick_policy).start()
    assert run.wait() == 0, run.log
    assert told(run, "rank 2 is busy for") == [("straggler", "exhausted", 2)]
    assert (run.attempts(), run.last_step(1)) == ([1], 120)


def test_four_ranks_alike_are_nobody_s_business(tmp_path: Path, quick_policy: str) -> None:
    run = Supervised(tmp_path / "run", double(120, 0.02, ranks=4), policy=quick_policy).start()
    assert run.wait() == 0, run.log
    assert told(run) == []


def test_saves_that_stop_are_told_and_training_goes_on(tmp_path: Path, quick_policy: str) -> None:
    """Eight saves, of which a supervisor on a busy machine may see five too late to learn from; then 1.4 s in which one is
    late."""
    run = Supervised(tmp_path / "run", double(400, 0.01, unsaved=200), policy=quick_policy).start()
    assert run.wait() == 0, run.log
    assert told(run, "one every 25 steps is this run's rhythm") == [("stale_checkpoint", "exhausted", None)]
    assert (run.attempts(), run.last_step(1)) == ([1], 400)


@pytest.mark.slow
@pytest.mark.drill
def test_the_bundled_trainer_names_its_slow_rank(tmp_path: Path, quick_policy: str) -> None:
    fault = "slow@step=5:rank=1,for=0.1:always"
    command = supervised_ranks(2, *SIZES, "--set", "schedule.steps=60", "checkpoint.every=20", "--fault", fault)
    run = Supervised(tmp_path / "run", command, policy=quick_policy).start()
    assert run.wait() == 0, run.log
    assert told(run) == [("straggler", "exhausted", 1)]
    assert (run.attempts(), run.last_step(1)) == ([1], 60)
