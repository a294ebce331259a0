"""MLflow: an attempt is a run nested in one parent run, and a rollback is a tag that names run and step it goes on from.

MLflow has no forks: the tags `sentinel.forked_from` and `sentinel.survives_to` say which steps of which run the newest one stands
on. Works with every store that MLflow has, by its own client.
"""

from __future__ import annotations

import hashlib
import importlib
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sentinel.client.strict_json import dumps
from sentinel.model.readings import StepReading
from sentinel.trackers.contract import AttemptRun, End, TrackerError

KEY_TAG, PARENT_TAG = "sentinel.key", "mlflow.parentRunId"
METRICS_PER_CALL = 1000  # MLflow's own limit for a batch
PARAMS_PER_CALL = 100  # as well
NAME_CHARS_MAX = 250  # of a metric
VALUE_CHARS_MAX = 5000  # of a tag; MLflow allows 6,000 for a parameter and 8,000 for a tag
_NOT_IN_NAMES = re.compile(r"[^\w\-. :]")
QUIETLY = {  # defaults of this process alone; MLflow's own would retry a server that is away for four minutes without a word
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
}
STATUS: Mapping[End, str] = {"finished": "FINISHED", "failed": "FAILED", "stopped": "KILLED"}


@dataclass(frozen=True, slots=True)
class MlflowSettings:
    """uri: of the tracking server or store; empty leaves it to MLFLOW_TRACKING_URI. experiment: is made where it is not there."""

    uri: str = ""
    experiment: str = "sentinel"

    def __post_init__(self) -> None:
        if not self.experiment:
            raise ValueError("experiment=: is empty; name an experiment, or leave the option out")


class MlflowRuns:
    """The store is asked which runs are there already, so any process may go on with them."""

    def __init__(self, settings: MlflowSettings, folder: Path) -> None:
        del folder  # MLflow keeps nothing beside its store
        self._settings = settings
        self._client: Any = None
        self._experiment = ""
        self._ids: dict[str, str] = {}  # by key
        self._open = ""

    def open(self, run: AttemptRun) -> None:
        with _Sentences():
            self._connect()
            parent = self._ensure(run.group, run.group_name, {"sentinel.run": run.group_name})
            tags = {PARENT_TAG: parent, "sentinel.attempt": str(run.attempt)}
            if run.fork is not None:
                tags["sentinel.forked_from"] = f"{self._ids.get(run.fork.key) or run.fork.key}?step={run.fork.step}"
            self._open = self._ensure(run.key, run.name, tags)
            self._client.update_run(self._open, status="RUNNING")
            known = self._client.get_run(
                self._open
            ).data.params  # MLflow refuses to change one: a command or policy may be another now
            config = {f"sentinel.{name}": value for name, value in run.config.items() if value not in (None, "", [], {})}
            params = [_param(name, value) for name, value in config.items() if name not in known]
            for first in range(0, len(params), PARAMS_PER_CALL):
                self._client.log_batch(self._open, params=params[first : first + PARAMS_PER_CALL])

    def log(self, rows: Sequence[StepReading]) -> None:
        entities: Any = importlib.import_module("mlflow.entities")
        found = [
            entities.Metric(_metric_name(name), value, max(0, round(row.time_s * 1000)), row.step)
            for row in rows
            for name, value in row.metrics.items()
        ]
        with _Sentences():
            for first in range(0, len(found), METRICS_PER_CALL):
                self._client.log_batch(self._open, metrics=found[first : first + METRICS_PER_CALL])

    def tell(self, run: AttemptRun, facts: Mapping[str, Any]) -> None:
        entities: Any = importlib.import_module("mlflow.entities")
        with _Sentences():
            self._connect()
            found = self._ids.get(run.key) or self._find(run.key)
            if found is not None:
                self._client.log_batch(
                    found, tags=[entities.RunTag(f"sentinel.{name}", _text(value)) for name, value in facts.items()]
                )

    def close(self, end: End) -> None:
        if self._open and end != "going on":
            with _Sentences():
                self._client.set_terminated(self._open, STATUS[end])
        self._open = ""

    def end(self, group: str, end: End) -> None:
        with _Sentences():
            self._connect()
            found = self._ids.get(group) or self._find(group)
            if found is not None:
                self._client.set_terminated(found, STATUS[end])

    def where(self) -> str:
        mlflow: Any = importlib.import_module("mlflow")
        return (
            f"look at it in MLflow: experiment {self._settings.experiment!r} of {self._settings.uri or mlflow.get_tracking_uri()}"
        )

    def _connect(self) -> None:
        if self._client is not None:
            return
        chosen = QUIETLY | ({"MLFLOW_ALLOW_FILE_STORE": "true"} if self._settings.uri.startswith("file:") else {})
        for name, value in chosen.items():
            os.environ.setdefault(name, value)
        mlflow: Any = importlib.import_module("mlflow")
        client = mlflow.MlflowClient(self._settings.uri or None)
        experiment = client.get_experiment_by_name(self._settings.experiment)
        self._experiment = (
            experiment.experiment_id if experiment is not None else client.create_experiment(self._settings.experiment)
        )
        self._client = client

    def _ensure(self, key: str, name: str, tags: Mapping[str, str]) -> str:
        """The id of the run with this key; made where there is none."""
        found = self._ids.get(key) or self._find(key)
        if found is None:
            made = self._client.create_run(self._experiment, run_name=name, tags={**tags, KEY_TAG: key})
            found = str(made.info.run_id)
        self._ids[key] = found
        return found

    def _find(self, key: str) -> str | None:
        found = self._client.search_runs([self._experiment], f"tags.`{KEY_TAG}` = '{key}'", max_results=1)
        return str(found[0].info.run_id) if found else None


class _Sentences:
    """What MLflow raises, as TrackerError: its own exceptions, and those of the stores beneath it, which have no common root."""

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, Exception) and not isinstance(error, TrackerError):
            words = str(error).strip().splitlines()
            raise TrackerError(f"mlflow: {words[0] if words else type(error).__name__}") from error


def _metric_name(name: str) -> str:
    """MLflow's store of files has a file for each metric, so `grad_norm` and `grad_norm/embed` cannot both be in it. A name that
    is none there, or too long for it, would be refused with its whole batch, for ever.

    >>> _metric_name("grad_norm/block-03"), _metric_name(""), _metric_name(".."), len(_metric_name("x" * 300))
    ('grad_norm.block-03', '_', '__', 250)
    """
    known = _NOT_IN_NAMES.sub("_", name.replace("/", ".")) or "_"
    if not known.strip("."):
        known = "_" * len(known)
    if len(known) <= NAME_CHARS_MAX:
        return known
    digest = hashlib.sha256(name.encode()).hexdigest()[:8]
    return f"{known[: NAME_CHARS_MAX - 9]}-{digest}"


def _param(name: str, value: Any) -> Any:
    return importlib.import_module("mlflow.entities").Param(name, _text(value))


def _text(value: Any) -> str:
    return (value if isinstance(value, str) else dumps(value))[:VALUE_CHARS_MAX]
