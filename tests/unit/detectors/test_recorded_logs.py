"""The senses on other people's labelled runs, where those lie beside the checkout; skipped where they do not."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.detectors.score_logs import score
from tests.unit.detectors.senses_kit import SpikeConfig

LOGS = Path(__file__).resolve().parents[4] / "shared" / "data" / "logs"


@pytest.mark.skipif(not (LOGS / "labels.csv").exists(), reason="labelled logs are test data beside the project, not part of it")
def test_no_group_of_healthy_runs_alarms_and_strong_spikes_are_found() -> None:
    result = score(LOGS, SpikeConfig())
    for name, group in result.groups.items():
        assert group.episodes <= 1e-5 * group.rows, f"{name}: {group.episodes} false episodes in {group.rows} healthy rows"
    strong = [delay for name, group in result.groups.items() if not name.startswith("C2") for delay in group.events["strong"]]
    assert sum(delay is not None for delay in strong) >= 0.95 * len(strong)
    assert result.recall("nan") == (1, 1)
