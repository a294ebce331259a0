"""An unchanged loop whose numbers go to Weights & Biases or MLflow alone, written by the real libraries, killed once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.trainers.kit import hurt, supervise

pytestmark = [pytest.mark.slow, pytest.mark.libraries]

PROFILE = """
apiVersion: sentinel/v1
kind: TrainerProfile
metadata: {{name: logged}}
spec:
  metrics: {{from: {logger}}}
  checkpoints: {{root: [--out], pattern: "save-{{step}}", complete: [DONE]}}
  resume: {{arguments: [--resume, "{{checkpoint}}"]}}
"""


@pytest.mark.parametrize("logger", ["wandb", "mlflow"])
def test_a_run_is_followed_by_what_its_logger_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, logger: str) -> None:
    pytest.importorskip(logger)
    monkeypatch.chdir(tmp_path)
    for name in ("MLFLOW_ALLOW_FILE_STORE", "MLFLOW_DISABLE_TELEMETRY", "DO_NOT_TRACK"):
        monkeypatch.setenv(name, "true")
    (tmp_path / "own.yaml").write_text(PROFILE.format(logger=logger))
    run = supervise(tmp_path / "run", "own.yaml", hurt("logged_loop.py", logger, "--out", tmp_path / "out", kill=950))
    (incident,) = run.incidents()
    assert (incident["kind"], incident["state"]) == ("crash", "recovered")
    assert incident["remedies"][-1]["rollback_to_step"] == 900
    assert sorted(run.surviving())[-1] >= 1199
    assert run.surviving()[1000]["loss"] == pytest.approx(2.001)
