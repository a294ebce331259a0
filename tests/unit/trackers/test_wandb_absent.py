"""A library of W&B's that is there and cannot be imported is a sentence, not a bug of Sentinel's."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from sentinel.trackers.contract import AttemptRun, TrackerError
from sentinel.trackers.wandb_runs import WandbRuns, WandbSettings


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("import a_dependency_that_is_missing", "No module named 'a_dependency_that_is_missing'"),
        ("from json import no_such_name", "cannot import name 'no_such_name'"),
        ("import json; json.of_another_version", "module 'json' has no attribute 'of_another_version'"),
    ],
)
def test_it_is_named_with_the_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, words: str) -> None:
    (tmp_path / "wandb.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "wandb", raising=False)
    with pytest.raises(TrackerError, match=r"wandb: the library cannot be imported: .*; install it again: pip install") as raised:
        WandbRuns(WandbSettings(), tmp_path).open(AttemptRun("key", "group", "name", 1))
    assert words in str(raised.value)
