"""What a trainer says once so that its imports may be made ahead; any Python trainer may. Unsupervised, nothing comes of it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from sentinel.client import warm

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Of the second attempt's folder, as rank 0 of no launcher finds it."""
    monkeypatch.setenv("SENTINEL_RUN_DIR", str(tmp_path))
    monkeypatch.setenv("SENTINEL_ATTEMPT", "2")
    monkeypatch.delenv("RANK", raising=False)
    return tmp_path / "attempts" / "0002" / "warm.json"


def test_what_is_offered_is_written_beside_the_attempt(place: Path) -> None:
    warm.offer("torch", "mytrainer.train")
    assert json.loads(place.read_text()) == {"v": 1, "modules": ["torch", "mytrainer.train"]}
    warm.offer("torch")
    assert json.loads(place.read_text())["modules"] == ["torch"], "the last word counts"


@pytest.mark.parametrize(
    ("name", "value"), [("RANK", "1"), ("SENTINEL_ATTEMPT", ""), ("SENTINEL_ATTEMPT", "x"), ("SENTINEL_RUN_DIR", "")]
)
def test_other_ranks_and_trainers_that_nobody_supervises_say_nothing(
    place: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    warm.offer("torch")
    assert not place.exists()


@pytest.mark.parametrize("name", ["", "my-trainer", "a..b", "train.py ", "import torch", json])
def test_what_is_no_modules_name_is_refused_at_once(place: Path, name: object) -> None:
    with pytest.raises(ValueError, match=r"warm.offer: .* is no module's name; write it as in `import`, such as mytrainer.train"):
        warm.offer("torch", name)  # type: ignore[arg-type]
    assert not place.exists()


def test_a_disk_that_takes_no_file_ends_no_training(place: Path) -> None:
    place.parent.parent.write_text("in the way")
    warm.offer("torch")


def test_the_documented_lines_run_as_they_stand_and_import_nothing_but_the_standard_library(tmp_path: Path) -> None:
    page = (ROOT / "docs/own-loop.md").read_text(encoding="utf-8")
    lines = re.findall(r"^    ((?:from sentinel\.client import warm|warm\.offer\().*)$", page, re.MULTILINE)
    assert len(lines) == 2, "docs/own-loop.md shows how to offer imports"
    code = "\n".join([*lines, "import sys", "print([name for name in ('torch', 'numpy', 'mytrainer') if name in sys.modules])"])
    environ = os.environ | {"SENTINEL_RUN_DIR": str(tmp_path), "SENTINEL_ATTEMPT": "1", "RANK": "0"}
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=environ, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
    offered = json.loads((tmp_path / "attempts/0001/warm.json").read_text())["modules"]
    assert offered == ["torch", "torch._dynamo", "mytrainer.model"]
