"""Who stands by is seen by everybody who looks at the run, and by nobody any more when it has gone."""

from __future__ import annotations

import json
import os
import time
from dataclasses import asdict, replace
from pathlib import Path

from sentinel.client.run_layout import STANDBYS
from sentinel.journal.identity import read_own_identity
from sentinel.journal.standbys import SILENT_S, StandbyFile, StandbySeen, read_standbys


def write_other(run_dir: Path, age_s: float = 0.0, **changed: object) -> Path:
    path = run_dir / STANDBYS / f"other-{len(list((run_dir / STANDBYS).iterdir()))}.json"
    path.write_text(json.dumps({"v": 1, **asdict(replace(read_own_identity(), **changed)), "turn": 1, "lacks": ""}))
    then_s = time.time() - age_s
    os.utime(path, (then_s, then_s))
    return path


def test_it_is_seen_from_its_first_word_until_it_leaves(tmp_path: Path) -> None:
    assert read_standbys(tmp_path, time.time()) == ()
    with StandbyFile(tmp_path) as file:
        file.write("it reaches no ranks")
        (seen,) = read_standbys(tmp_path, time.time())
        assert (seen.pid, seen.lacks, seen.silent_s) == (os.getpid(), "it reaches no ranks", None)
    assert read_standbys(tmp_path, time.time()) == ()


def test_one_that_was_killed_is_no_standby_and_is_swept_by_the_next(tmp_path: Path) -> None:
    with StandbyFile(tmp_path) as file:
        file.write("")
        killed = write_other(tmp_path, since_boot_s=1.5)
        assert len(read_standbys(tmp_path, time.time())) == 1
    assert not killed.exists()


def test_one_on_another_machine_is_known_by_its_file_alone(tmp_path: Path) -> None:
    with StandbyFile(tmp_path) as file:
        file.write("")
        for host, age_s in (("n2", 5.0), ("n3", 10 * SILENT_S)):
            write_other(tmp_path, age_s, host=host, boot_id="another", pid=7)
        mine, waits, silent = read_standbys(tmp_path, time.time())
        assert {mine.host, waits.host} == {read_own_identity().host, "n2"}
        assert "pid 7 on n3, not heard of for 10 min" in silent.words


def test_what_makes_no_sense_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / STANDBYS).mkdir()
    for number, text in enumerate(("", "[]", "{}", '{"host":1}', "\x00")):
        (tmp_path / STANDBYS / f"{number}.json").write_text(text)
    os.mkfifo(tmp_path / STANDBYS / "pipe.json")
    assert read_standbys(tmp_path, time.time()) == ()


def test_its_words() -> None:
    assert StandbySeen("n2", 7).words == "pid 7 on n2"
    assert StandbySeen("n2", 7, "no ranks").words == "pid 7 on n2: no ranks"
