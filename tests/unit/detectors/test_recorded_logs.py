"""The bank on other people's labelled runs (SENTINEL_LOGS, or beside the checkout); skipped, with a sentence, without them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.labelled_logs import ABSENT, NoLabels, labelled_logs
from tests.unit.detectors.bank_kit import SpikeConfig
from tests.unit.detectors.score_logs import score


def test_a_named_directory_without_labels_is_no_reason_to_skip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SENTINEL_LOGS", str(tmp_path))
    with pytest.raises(NoLabels, match=f"{tmp_path} holds no labels.csv; name the directory"):
        labelled_logs()
    (tmp_path / "labels.csv").touch()
    assert labelled_logs() == tmp_path


def test_no_group_of_healthy_runs_alarms_and_strong_spikes_are_found() -> None:
    logs = labelled_logs()
    if logs is None:
        pytest.skip(ABSENT)
    result = score(logs, SpikeConfig())
    for name, group in result.groups.items():
        assert group.episodes <= 1e-5 * group.rows, f"{name}: {group.episodes} false episodes in {group.rows} healthy rows"
    strong = [delay for name, group in result.groups.items() if not name.startswith("C2") for delay in group.events["strong"]]
    assert sum(delay is not None for delay in strong) >= 0.95 * len(strong)
    assert result.recall("nan") == (1, 1)
