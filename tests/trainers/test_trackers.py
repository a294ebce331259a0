"""A living run under `sentinel run --track`, killed once, as W&B's and MLflow's own readers see it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sentinel.model.readings import StepReading
from sentinel.report.reading import read_lineage
from sentinel.telemetry.wandb_log import FIRST, LAST, WHOLE, WandbLog
from sentinel.trackers.contract import AttemptRun
from sentinel.trackers.mlflow_runs import MlflowRuns, MlflowSettings
from tests.integration.supervised import Supervised
from tests.trainers.kit import hurt

pytestmark = [pytest.mark.slow, pytest.mark.libraries]


class RawRecords(WandbLog):
    """The frames of the file, as our reader finds them; wandb, which has no reader for Python any more, says what is in them."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.whole: list[bytes] = []
        self._begun = b""

    def _take(self, kind: int, data: bytes, out: list[StepReading]) -> None:
        self._begun = data if kind in (WHOLE, FIRST) else self._begun + data
        if kind in (WHOLE, LAST):
            self.whole.append(self._begun)


def wandb_records(path: Path) -> list[Any]:
    """Every record of an offline run, by wandb's own protocol."""
    from wandb.proto.wandb_internal_pb2 import Record

    log = RawRecords(path)
    log.poll(0.0)
    while log.has_more:
        log.poll(0.0)
    return [Record.FromString(data) for data in log.whole]


def history(records: list[Any]) -> dict[int, float]:
    """Step → loss."""
    rows = [{item.key or "/".join(item.nested_key): item.value_json for item in one.history.item} for one in records]
    return {int(row["_step"]): float(row["loss"]) for row in rows if "loss" in row}


def test_attempts_are_runs_of_one_group_and_a_rollback_is_a_fork(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("wandb")
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.chdir(tmp_path)
    for name in ("MLFLOW_ALLOW_FILE_STORE", "MLFLOW_DISABLE_TELEMETRY", "DO_NOT_TRACK"):
        monkeypatch.setenv(name, "true")
    monkeypatch.setenv("WANDB_MODE", "offline")
    store = f"file://{tmp_path}/mlruns"
    command = hurt("nanogpt_like.py", f"--out_dir={tmp_path / 'out'}", "--step_s=0.02", kill=150)
    options = ["--trainer", "nanogpt", "--track", "wandb:project=gpt", "--track", f"mlflow:uri={store},experiment=gpt"]
    run = Supervised(tmp_path / "run", command, "demo", options).start()
    assert run.wait(240) == 0, run.log
    lineage = read_lineage(run.run_dir)
    assert len(lineage) == 2

    files = sorted((tmp_path / "run" / "trackers" / "wandb").glob("offline-run-*/*.wandb"))
    assert len(files) == 2
    runs = [wandb_records(path) for path in files]
    heads = [next(one.run for one in records if one.HasField("run")) for records in runs]
    assert len({head.run_group for head in heads}) == 1
    assert [head.project for head in heads] == ["gpt", "gpt"]
    resumed = lineage[1]["resumed_step"]
    assert (heads[1].branch_point.run, heads[1].branch_point.value) == (heads[0].run_id, resumed)
    first, second = history(runs[0]), history(runs[1])
    assert min(second) > resumed
    surviving = {step: row["loss"] for step, row in run.surviving().items()}
    assert {**{step: loss for step, loss in first.items() if step <= resumed}, **second} == pytest.approx(surviving)
    assert [next(one.exit.exit_code for one in reversed(records) if one.HasField("exit")) for records in runs] == [1, 0]

    client = mlflow.MlflowClient(store)
    found = client.search_runs([client.get_experiment_by_name("gpt").experiment_id], order_by=["start_time ASC"])
    parent, *children = sorted(found, key=lambda one: int(one.data.tags.get("sentinel.attempt", 0)))
    assert [one.info.status for one in (parent, *children)] == ["FINISHED", "FAILED", "FINISHED"]
    assert {one.data.tags["mlflow.parentRunId"] for one in children} == {parent.info.run_id}
    assert children[1].data.tags["sentinel.forked_from"] == f"{children[0].info.run_id}?step={resumed}"
    assert children[0].data.tags["sentinel.survives_to"] == str(resumed)
    told = {one.step: one.value for one in client.get_metric_history(children[1].info.run_id, "loss")}
    assert told == pytest.approx(second)


def test_mlflow_takes_what_it_would_refuse_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names that are none of its, a clock before 1970, and a configuration that is another when a later process goes on."""
    mlflow = pytest.importorskip("mlflow")
    for name in ("MLFLOW_ALLOW_FILE_STORE", "MLFLOW_DISABLE_TELEMETRY"):
        monkeypatch.setenv(name, "true")
    store = f"file://{tmp_path}/mlruns"
    metrics = {"": 1.0, ".": 2.0, "..": 3.0, "x" * 300: 4.0, "x" * 299 + "y": 5.0, "loss": float("nan")}
    for policy, step in (("demo", 1), ("other", 2)):
        runs = MlflowRuns(MlflowSettings(uri=store), tmp_path)
        runs.open(AttemptRun("key-1", "key", "a run", 1, {"policy": policy, f"from_step_{step}": "x"}, is_known=step > 1))
        runs.log([StepReading(1, step, -5.0, (), metrics)])
        runs.close("going on")
    client = mlflow.MlflowClient(store)
    (run,) = client.search_runs([client.get_experiment_by_name("sentinel").experiment_id], "tags.`sentinel.key` = 'key-1'")
    assert run.data.params == {"sentinel.policy": "demo", "sentinel.from_step_1": "x", "sentinel.from_step_2": "x"}
    assert len(run.data.metrics) == 5, "one dot and none are the same name"
    assert [one.step for one in client.get_metric_history(run.info.run_id, "__")] == [1, 2]
