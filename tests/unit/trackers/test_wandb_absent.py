"""A library of W&B's that cannot be imported, and a folder that is none, are sentences, not bugs of Sentinel's."""

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


@pytest.mark.parametrize("folder", ["a-file", "a-file/below"])
def test_a_folder_that_cannot_be_made_is_named_with_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str
) -> None:
    (tmp_path / "wandb.py").write_text("")
    (tmp_path / "a-file").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "wandb", raising=False)
    place = tmp_path / folder
    with pytest.raises(TrackerError, match=rf"wandb: {place} cannot be its folder: .*; name another: dir=FOLDER"):
        WandbRuns(WandbSettings(dir=str(place)), tmp_path).open(AttemptRun("key", "group", "name", 1))
