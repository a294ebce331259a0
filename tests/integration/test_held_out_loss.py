"""The proof of a repair: held-out loss. Repaired, the run is as good as one that was never hurt; unrepaired, it is not.

The bundled trainer at its smallest (`micro`), two ranks, under a real supervisor. Per-step loss is too noisy to judge by
(~5 %), the held-out evaluation at the end is not.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.integration.supervised import Supervised

STEPS = 200
POISON = "bad_data@sample=1840-2240"
CLOSE_RATIO = 0.01


def trainer(*options: str) -> list[str]:
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "--max-restarts", "0"]
    return [*torchrun, "-m", "trainer", "--preset", "micro", "--steps", str(STEPS), "--checkpoint-every", "20", *options]


def held_out(run: Supervised) -> float:
    return float(run.surviving()[STEPS]["val_loss"])


def test_repaired_it_ends_where_an_unhurt_run_ends_and_unrepaired_it_does_not(tmp_path: Path) -> None:
    unhurt = Supervised(tmp_path / "unhurt", trainer()).start()
    repaired = Supervised(tmp_path / "repaired", trainer("--fault", POISON)).start()
    assert (unhurt.wait(200), repaired.wait(200)) == (0, 0), repaired.log
    unrepaired = Supervised(tmp_path / "unrepaired", trainer("--fault", POISON), options=["--observe-only"]).start()
    assert unrepaired.wait(200) == 0, unrepaired.log
    (incident,) = repaired.incidents()
    assert incident["state"] == "recovered"
    worked = incident["remedies"][-1]
    assert any(a <= 1840 and b >= 2240 for a, b in worked["skip"])
    assert worked["rollback_to_step"] < incident["onset_step"]
    clean = held_out(unhurt)
    print(f"held-out loss: unhurt {clean:.4f}, repaired {held_out(repaired):.4f}, unrepaired {held_out(unrepaired):.4f}")
    assert abs(held_out(repaired) / clean - 1) < CLOSE_RATIO
    assert held_out(unrepaired) / clean - 1 > CLOSE_RATIO
