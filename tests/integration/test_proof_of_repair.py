"""The proof of a repair, with the bundled trainer at its smallest (`micro`), two ranks, under a real supervisor.

What changes no data ends bit for bit where an undisturbed run ends. What skips data is judged by held-out loss: repaired, the
run is as good as one that was never hurt; unrepaired, it is not. (Per-step loss is too noisy to judge by: ~5 %.)

Four runs: part of `make accept`. In `make test` stand for it the demonstration, which lets no poisoned sample survive, and
test_trainer_bitwise, which ends killed runs equal to the bit.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sentinel.client.file_digest import FileDigest, listed_digest
from tests.integration.forked_ranks import supervised_ranks
from tests.integration.supervised import Supervised

pytestmark = pytest.mark.slow

STEPS = 140
POISON = "bad_data@sample=1040-1440"  # from step 66 on
CLOSE_RATIO = 0.01


def trainer(*options: str) -> list[str]:
    sizes = f"schedule.steps={STEPS}", "data.seq_len=32", "checkpoint.every=20"
    return supervised_ranks(2, "--preset", "micro", "--set", *sizes, *options)


@pytest.fixture(scope="module")
def unhurt(tmp_path_factory: pytest.TempPathFactory) -> Supervised:
    run = Supervised(tmp_path_factory.mktemp("unhurt") / "run", trainer()).start()
    assert run.wait(200) == 0, run.log
    assert run.incidents() == []
    return run


def held_out(run: Supervised) -> float:
    return float(run.surviving()[STEPS]["val_loss"])


def weights(run: Supervised) -> dict[str, FileDigest | None]:
    """The digests of the last checkpoint's files (weights, moments, random streams) but `.metadata`, which names its folder."""
    manifest = json.loads((run.run_dir / "checkpoints" / f"step-{STEPS:08d}" / "manifest.json").read_text())
    return {name: listed_digest(entry) for name, entry in manifest["files"].items() if name != ".metadata"}


def test_killed_and_resumed_it_ends_bit_for_bit_as_undisturbed(unhurt: Supervised, tmp_path: Path) -> None:
    killed = Supervised(tmp_path / "run", trainer("--fault", "kill@step=50:rank=1")).start()
    assert killed.wait(200) == 0, killed.log
    assert [i["kind"] for i in killed.incidents()] == ["crash"]
    assert len(killed.attempts()) == 2
    ours, theirs = killed.surviving(), unhurt.surviving()
    for name in ("loss", "grad_norm", "samples", "val_loss"):
        assert {s: line.get(name) for s, line in ours.items()} == {s: line.get(name) for s, line in theirs.items()}, name
    assert weights(killed) == weights(unhurt)


def test_repaired_it_ends_where_an_unhurt_run_ends_and_unrepaired_it_does_not(unhurt: Supervised, tmp_path: Path) -> None:
    repaired = Supervised(tmp_path / "repaired", trainer("--fault", POISON)).start()
    unrepaired = Supervised(tmp_path / "unrepaired", trainer("--fault", POISON), options=["--observe-only"]).start()
    assert (repaired.wait(200), unrepaired.wait(200)) == (0, 0), repaired.log
    (incident,) = repaired.incidents()
    assert incident["state"] == "recovered"
    worked = incident["remedies"][-1]
    assert any(a <= 1040 and b >= 1440 for a, b in worked["skip"])
    assert worked["rollback_to_step"] < incident["onset_step"]
    clean = held_out(unhurt)
    print(f"held-out loss: unhurt {clean:.4f}, repaired {held_out(repaired):.4f}, unrepaired {held_out(unrepaired):.4f}")
    assert abs(held_out(repaired) / clean - 1) < CLOSE_RATIO
    assert held_out(unrepaired) / clean - 1 > CLOSE_RATIO
