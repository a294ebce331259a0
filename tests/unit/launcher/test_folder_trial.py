"""Two processes that write into one folder, and what each sees of the other."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from sentinel.client.folder_trial import Stillness, beat_name, lines_name, number_bytes, read_number, take_part
from sentinel.launcher.folder_trial import FolderTrial, count_whole_lines
from sentinel.plan.shared_folder import judge_shared, read_folder_facts

PART = """
import json, sys
from pathlib import Path
from sentinel.client.folder_trial import take_part
print(json.dumps(take_part(Path(sys.argv[1]), "n2", 0.5)))
"""


def test_two_processes_of_one_machine_share_a_folder_well(tmp_path: Path) -> None:
    with FolderTrial(tmp_path / "runs" / "to-come") as trial:
        assert trial.folder.parent == tmp_path, "the nearest folder that is there"
        words = [sys.executable, "-c", PART, str(trial.folder)]
        done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=True)
        facts = read_folder_facts(json.loads(done.stdout))
        seen = trial.seen("n2", facts.numbers)
    assert facts.locks == {"held.flock": "held", "held.posix": "held"}
    assert (seen.number, seen.lines) == (facts.numbers, facts.numbers)
    assert judge_shared("n1", str(tmp_path), {"n2": facts}, {"n2": seen}).verdict == "good"
    assert not [*tmp_path.iterdir()], "nothing is left of it"


def test_a_folder_that_is_not_there_is_waited_for_and_then_not_seen(tmp_path: Path) -> None:
    found = take_part(tmp_path / "elsewhere", "n2", 0.05)
    assert (found["error"], found["still_s"], found["numbers"]) == ("", None, 0)


def test_nobody_writes_there_and_nothing_is_locked(tmp_path: Path) -> None:
    found = take_part(tmp_path, "n2", 0.05)
    assert found["still_s"] is None
    assert found["locks"] == dict.fromkeys(("held.flock", "held.posix"), "No such file or directory")
    for name in ("held.flock", "held.posix"):
        (tmp_path / name).touch()
    assert take_part(tmp_path, "n2", 0.05)["locks"] == {"held.flock": "free", "held.posix": "free"}


def test_a_beat_that_is_a_fifo_holds_nobody_up(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / beat_name("n2"))
    assert read_number(tmp_path / beat_name("n2")) is None


def test_of_a_node_that_was_never_seen_nothing_is_said(tmp_path: Path) -> None:
    with FolderTrial(tmp_path) as trial:
        assert trial.seen("n9", 0).still_s is None


def test_where_no_folder_can_be_made_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(**_: object) -> str:
        raise OSError(30, "Read-only file system", str(tmp_path))

    monkeypatch.setattr("tempfile.mkdtemp", refuse)
    with pytest.raises(OSError, match="Read-only"), FolderTrial(tmp_path):
        pass


def test_lines_count_until_one_is_torn_missing_or_out_of_order(tmp_path: Path) -> None:
    path = tmp_path / lines_name("n2")
    whole = b"".join(map(number_bytes, range(1, 6)))
    for text, count in ((whole, 5), (whole[:-3], 4), (whole.replace(number_bytes(3), b""), 2), (b"\0" * 13 + whole, 0), (b"", 0)):
        path.write_bytes(text)
        assert count_whole_lines(path) == count
    assert count_whole_lines(tmp_path / "none") == 0


def test_how_long_a_number_stood_still() -> None:
    still = Stillness()
    assert still.until_s(9.0) is None
    for number, now_s in ((None, 1.0), (1, 2.0), (1, 4.5), (None, 4.6), (2, 5.0), (3, 5.1)):
        still.see(number, now_s)
    assert (still.longest_s, still.until_s(5.2), still.until_s(9.1)) == (3.0, 3.0, 4.0)
