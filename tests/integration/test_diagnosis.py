"""A bit flips in one rank's weights: the real trainer repeats the stretch, the records differ, the rank is named."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.integration.forked_ranks import supervised_ranks
from tests.integration.supervised import Supervised

ROOT = Path(__file__).resolve().parents[2]


def write_policy(place: Path) -> Path:
    """The demo policy with a diagnosis as the first rung of `non_finite`."""
    head, playbooks = (ROOT / "policies" / "demo.yaml").read_text(encoding="utf-8").split("\n  playbooks:\n")
    rung = "      - {rollback: {before_onset: 4 steps}, diagnose: true}\n"
    changed = re.sub(r"(?m)^    non_finite:.*\n", lambda found: found[0] + rung, playbooks)
    path = place / "policy.yaml"
    path.write_text(f"{head}\n  playbooks:\n{changed}", encoding="utf-8")
    return path


@pytest.mark.slow
@pytest.mark.drill
def test_a_flipped_bit_is_hardware_and_the_rank_is_named(tmp_path: Path) -> None:
    sizes = "schedule.steps=60", "data.seq_len=32", "checkpoint.every=10", "evaluation.batches=1"
    options = ["--preset", "micro", "--set", *sizes, "--fault", "bit_flip@step=25:rank=1"]
    run = Supervised(tmp_path / "run", supervised_ranks(2, *options), policy=str(write_policy(tmp_path))).start()
    assert run.wait() == 0, run.log
    (incident,) = run.incidents()
    assert (incident["kind"], incident["state"]) == ("non_finite", "recovered")
    assert incident["onset_step"] in (25, 26), "a loss is certain at once, a gradient when it comes again; the weight decides"
    assert incident["diagnosis"]["cause"] == "hardware"
    assert incident["diagnosis"]["ranks"] == [1]
    assert incident["blamed_rank"] == 1
    assert incident["pages"], "a person is told of the hardware, though the run goes on"
    assert [remedy["outcome"] for remedy in incident["remedies"]] == ["worked"]
    assert sorted(run.surviving()) == list(range(1, 61))
