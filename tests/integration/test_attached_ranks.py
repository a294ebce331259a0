"""Two real ranks of an attached loop: one batch between them, the same change and stop at the same step, one checkpoint."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from sentinel.checkpoints.verification import verify_checkpoint
from tests.integration.forked_ranks import Forked
from tests.unit.client.attached_kit import events, stream, supervise

ROOT = Path(__file__).resolve().parents[2]
FIRST = "from tests.integration.attached_ranks import main; main()"


def launch(run_dir: Path) -> list[dict[str, Any]]:
    attempt = os.environ["SENTINEL_ATTEMPT"]
    says = run_dir / "said"
    ranks = Forked([], 2, {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}, str(ROOT), str(says), FIRST)
    assert ranks.wait(90.0) == 0, says.read_text()
    return [json.loads((run_dir / f"told-{attempt}-{rank}.json").read_text()) for rank in range(2)]


def test_two_ranks_share_a_batch_a_change_a_stop_and_a_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    supervise(tmp_path, monkeypatch)
    first, second = launch(tmp_path)
    assert first["samples"][:2] == [[0, 1], [4, 5]]
    assert second["samples"][:2] == [[2, 3], [6, 7]]
    assert first["rates"] == second["rates"] == [0.1] * 4 + [0.05] * 4, "heard at 3, told to all at 4; the stop at 7 and 8"
    assert [line["samples"] for line in stream(tmp_path, "step")][4:7] == [[[16, 20]], [[20, 24]], [[32, 36]]]
    applied = events(tmp_path, "override_applied")[0]
    assert (applied["step"], applied["effective"]["lr_scale"], applied["effective"]["skip"]) == (5, 0.5, [[24, 32]])
    assert stream(tmp_path, "start")[0]["world_size"] == 2
    assert stream(tmp_path, "step")[0]["loss"] == 3.0, "put together from both ranks"
    assert stream(tmp_path, "end")[0]["reason"] == "stopped_on_request"
    codes = [json.loads(path.read_text())["code"] for path in sorted((tmp_path / "attempts/0001/exits").iterdir())]
    assert codes == [6, 6]
    newest = tmp_path / "checkpoints/step-00000008"
    assert verify_checkpoint(newest).ok
    manifest = json.loads((newest / "manifest.json").read_text())
    assert list(manifest["files"]) == ["rank-0.pt", "rank-1.pt"]
    assert manifest["metrics"]["param_norm"] == pytest.approx(first["norms"][-1]), "each rank measures its part"
    assert manifest["metrics"]["nonfinite"] == 0

    supervise(tmp_path, monkeypatch, 2, {"step": 8, "path": "checkpoints/step-00000008", "digest": None}, skip=[[24, 32]])
    again, other = launch(tmp_path)
    assert again["loaded"] == other["loaded"] == [str(newest)]
    assert (again["samples"][0], other["samples"][-1]) == ([40, 41], [54, 55])
    assert stream(tmp_path, "end", 2)[0]["reason"] == "finished"
