"""An unchanged loop whose numbers go to Weights & Biases or MLflow alone, written by the real libraries, or to a file of its own;
killed once."""

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
  metrics: {metrics}
  checkpoints: {{root: [--out], pattern: "save-{{step}}", complete: [DONE]}}
  resume: {{arguments: [--resume, "{{checkpoint}}"]}}
"""


@pytest.mark.parametrize("logger", ["wandb", "mlflow"])
def test_a_run_is_followed_by_what_its_logger_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, logger: str) -> None:
    pytest.importorskip(logger)
    monkeypatch.chdir(tmp_path)
    for name in ("MLFLOW_ALLOW_FILE_STORE", "MLFLOW_DISABLE_TELEMETRY", "DO_NOT_TRACK"):
        monkeypatch.setenv(name, "true")
    watch(tmp_path, f"{{from: {logger}}}", logger)


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
@pytest.mark.parametrize("how", [[], ["--anew"]])
def test_a_run_is_followed_by_a_file_that_goes_on_or_is_begun_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, how: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    watch(tmp_path, f'{{from: file, path: "{{root}}/metrics.{kind}"}}', kind, *how)


def watch(tmp_path: Path, metrics: str, *words: str) -> None:
    (tmp_path / "own.yaml").write_text(PROFILE.format(metrics=metrics))
    run = supervise(tmp_path / "run", "own.yaml", hurt("logged_loop.py", *words, "--out", tmp_path / "out", kill=950))
    (incident,) = run.incidents()
    assert (incident["kind"], incident["state"]) == ("crash", "recovered")
    assert incident["remedies"][-1]["rollback_to_step"] == 900
    assert sorted(run.surviving())[-1] >= 1199
    assert run.surviving()[1000]["loss"] == pytest.approx(2.001)
