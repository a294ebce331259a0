"""A setting is one row: in a copy of sentinel with one row more in its table, and nothing else changed, every place knows it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sentinel.client.settings import BY_WORD, SETTINGS
from sentinel.model.attempts import SettingsInForce
from sentinel.model.incidents import Remedy

ROOT = Path(__file__).parents[3]
BEFORE = "    skip: tuple[Any, ...] = ()"
ROW = '    dropout: float | None = setting(Number(at_least=0, below=1), "Share left out.", lapses=True, usual=0.1)\n'
RUNG = "      - lr: 0.5x\n"


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What `pretend_setting.py` prints inside the copy."""
    folder = tmp_path_factory.mktemp("one_row_more")
    shutil.copytree(ROOT / "sentinel", folder / "sentinel", ignore=shutil.ignore_patterns("__pycache__"))
    table = folder / "sentinel" / "client" / "settings.py"
    text = table.read_text()
    assert text.count(BEFORE) == 1
    table.write_text(text.replace(BEFORE, ROW + BEFORE))
    policy, run_dir = folder / "live.yaml", folder / "run"
    policy.write_text((ROOT / "tests/sim/live.yaml").read_text().replace(RUNG, f"{RUNG}        dropout: 0.3\n", 1))
    run_dir.mkdir()
    command = [sys.executable, str(Path(__file__).with_name("pretend_setting.py")), str(run_dir), str(policy)]
    environment = os.environ | {"PYTHONPATH": f"{folder}{os.pathsep}{ROOT}", "COLUMNS": "200"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_policies_know_it(known: dict[str, Any]) -> None:
    schema = known["schema"]
    assert schema["anyOf"] == [{"exclusiveMaximum": 1, "minimum": 0, "type": "number"}, {"type": "null"}]
    assert schema["description"] == "Share left out."
    assert known["wrong rung"] == ["dropout", "1.5 is out of range", "write a number below 1"]


def test_the_operator_can_set_it(known: dict[str, Any]) -> None:
    assert known["set"] == [0.3, ["dropout"], 50]
    assert "dropout: 2 is out of range" in known["set refused"]
    assert "dropout" in known["help"]
    assert known["inbox"] == [0.3, ["dropout"]]


def test_it_reaches_the_trainer_and_is_held_against_its_receipt(known: dict[str, Any]) -> None:
    assert known["overrides.json"] == [0.3, 0.3, True]
    assert known["spec.json"] == 0.3
    assert known["receipt"] == [[], ["dropout is 0.1, asked for 0.3"]]
    assert known["answer"] == ["dropout is 0.1, asked for 0.3"]


def test_a_remedy_says_it_and_keeps_it(known: dict[str, Any]) -> None:
    reason, value = known["remedy"]
    assert "; dropout 0.3; until step" in reason
    assert value == known["incidents"] == 0.3
    assert known["journal"] == [True, None], "a journal from before the row decodes"


def test_the_simulated_trainer_obeys_it(known: dict[str, Any]) -> None:
    assert (known["broken"], known["answered"], known["mismatch"]) == ("", True, [])
    assert known["written"] == [True, 1]


def test_reports_show_it(known: dict[str, Any]) -> None:
    assert known["schedule"] == [{"dropout": 100}, "100 steps under another dropout"]
    assert known["chronicle"] == ["dropout as configured → 0.3"]
    assert known["report"] == [{"dropout": 0.3}, "0.3"]


def test_whoever_holds_settings_inherits_the_table() -> None:
    for holder in (SettingsInForce, Remedy):
        assert set(SETTINGS) <= set(holder.__dataclass_fields__)
    assert set(BY_WORD) == {row.word for row in SETTINGS.values()} - {None}
    for row in SETTINGS.values():
        if row.changes == "live" and not row.once:
            assert row.usual is not None, f"{row.key}: the simulated trainer needs a usual value"
