"""Exit records have a second place: what cannot be written into the run directory is found there, and comes home when it can."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pytest

from sentinel.client import Session, Spec, spare_place
from sentinel.client.spare_place import SparePlace, attempts_with_spares, is_in_use
from sentinel.launcher import exit_report, keeper
from sentinel.launcher.attempt_view import read_view
from sentinel.launcher.exit_report import read_records, read_report, read_start_failure, write_report
from sentinel.launcher.local import LocalLauncher
from sentinel.launcher.rank_watch import RankWatch
from sentinel.launcher.spare_records import bring_home, read_spare_records
from sentinel.model.attempts import Exited, ExitReport, NotStarted, RankExit
from sentinel.run_files.attempt_files import AttemptFiles

ENDED = ExitReport(0, (RankExit(0, 0, None, "record", None),), None, "the command ended with code 0")
NUMBERS = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.ESTALE, errno.ENODEV)


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path / "spare"))
    monkeypatch.setattr(spare_place, "PLACES", ())
    (tmp_path / "spare").mkdir()
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "run.json").write_text('{"id": "run", "created": "2026-11-24T00:00:00Z", "digest_key": "k1"}')
    files = AttemptFiles.of(tmp_path / "run", 3)
    files.make_folders()
    return files


@pytest.fixture
def disk(files, monkeypatch):
    """`disk(number)`: the run directory refuses every write with it from now on; None: it takes them again."""
    refuses: list[int] = []

    def set_to(number):
        refuses[:] = [] if number is None else [number]

    for module in (spare_place, exit_report):
        really = module.write_atomically

        def write(path, data, really=really, **more):
            if refuses and path.is_relative_to(files.run_dir):
                raise OSError(refuses[0], os.strerror(refuses[0]), str(path))
            really(path, data, **more)

        monkeypatch.setattr(module, "write_atomically", write)
    monkeypatch.setattr("sentinel.launcher.spare_records.write_atomically", exit_report.write_atomically)
    monkeypatch.setattr(keeper, "REPORT_RETRY_S", 0.0)
    return set_to


def own_folder(files: AttemptFiles) -> Path:
    (folder,) = SparePlace(files.run_dir, files.attempt)._folders()
    return folder


@pytest.mark.parametrize("number", NUMBERS)
def test_a_ranks_record_is_found_in_the_second_place_and_comes_home(files, disk, capsys, number):
    session = Session(files.run_dir, Spec(attempt=3), rank=2)
    disk(number)
    session.record_exit(6, step=40)
    assert not session.exit_path.exists()
    assert "the exit record cannot be written" in capsys.readouterr().err
    assert read_records(files)[2]["code"] == 6
    watch = RankWatch(files, lambda pid: False, lambda handle: None)
    watch.poll()
    assert watch.records[2]["step"] == 40
    bring_home(files.run_dir)
    assert read_records(files)[2]["code"] == 6, "what cannot be moved stays"
    disk(None)
    bring_home(files.run_dir)
    assert json.loads(session.exit_path.read_text())["code"] == 6
    assert attempts_with_spares(files.run_dir) == []
    assert read_spare_records(files) == {}


def test_a_keeper_whose_disk_stays_full_leaves_its_report_where_it_is_found(files, disk):
    spare = SparePlace(files.run_dir, 3)
    disk(errno.ENOSPC)
    assert keeper._write_surely(files, spare, ENDED)
    assert not files.exit.exists()
    assert read_report(files) == ENDED
    view = read_view(files)
    assert isinstance(view, Exited)
    assert view.report == ENDED
    disk(None)
    LocalLauncher(files.run_dir).ensure_stopped(3)
    assert files.exit.exists()
    assert attempts_with_spares(files.run_dir) == []
    assert read_report(files) == ENDED


def test_a_report_that_comes_home_within_the_minute_leaves_nothing_aside(files, disk, monkeypatch):
    spare, disk_full = SparePlace(files.run_dir, 3), [True, True]
    disk(errno.EIO)
    monkeypatch.setattr(keeper.time, "sleep", lambda _: disk(None) if not disk_full or not disk_full.pop() else None)
    session = Session(files.run_dir, Spec(attempt=3))
    session.record_exit(0)
    assert keeper._write_surely(files, spare, ENDED)
    assert files.exit.exists()
    assert session.exit_path.exists(), "the ranks' records come home with it"
    assert attempts_with_spares(files.run_dir) == []


def test_why_a_command_never_ran_is_known_from_there_too(files, disk):
    disk(errno.ENOSPC)
    assert keeper._write_surely(files, SparePlace(files.run_dir, 3), ExitReport(None, (), None, "no such program"), "certain")
    assert read_start_failure(files) == "certain"


def test_without_any_place_for_it_the_end_is_unknown_and_nothing_is_raised(files, disk, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("TMPDIR", str(tmp_path / "nowhere"))
    disk(errno.ENOSPC)
    Session(files.run_dir, Spec(attempt=3)).record_exit(0)
    assert "no second place took it" in capsys.readouterr().err
    assert not keeper._write_surely(files, SparePlace(files.run_dir, 3), ENDED)
    assert read_report(files) is None
    assert read_records(files) == {}
    assert isinstance(read_view(files), NotStarted), "as without the record"


def test_the_first_place_that_takes_it_is_used_and_all_are_looked_at(files, disk, tmp_path, monkeypatch):
    monkeypatch.setattr(spare_place, "PLACES", (str(tmp_path / "second"),))
    (tmp_path / "second").mkdir()
    (tmp_path / "spare").rmdir()
    disk(errno.ENOSPC)
    Session(files.run_dir, Spec(attempt=3)).record_exit(3)
    (tmp_path / "spare").mkdir()
    assert own_folder(files).is_relative_to(tmp_path / "second")
    assert read_records(files)[0]["code"] == 3


def test_it_is_closed_to_all_others_under_every_umask(files, disk):
    disk(errno.ENOSPC)
    before = os.umask(0)
    try:
        Session(files.run_dir, Spec(attempt=3)).record_exit(0)
    finally:
        os.umask(before)
    folder = own_folder(files)
    assert [path.stat().st_mode & 0o7777 for path in (folder.parent, folder, folder / "rank-00000.json")] == [0o700, 0o700, 0o600]


def planted(files: AttemptFiles) -> Path:
    """A record that says 0, in the right place."""
    SparePlace(files.run_dir, 3).write("rank-00000.json", b'{"rank": 0, "code": 0}')
    assert read_records(files) == {0: {"rank": 0, "code": 0}}
    return own_folder(files)


@pytest.mark.parametrize("which", ["top", "folder"])
def test_a_folder_that_others_may_write_is_not_believed_and_nothing_is_put_there(files, disk, which):
    folder = planted(files)
    (folder if which == "folder" else folder.parent).chmod(0o770)
    assert read_records(files) == {}
    with pytest.raises(PermissionError, match="not this user's own folder"):
        SparePlace(files.run_dir, 3).write("rank-00001.json", b"{}")


@pytest.mark.parametrize("which", ["top", "folder"])
def test_a_link_in_its_place_is_not_followed(files, tmp_path, which):
    folder = planted(files)
    part = folder if which == "folder" else folder.parent
    part.rename(tmp_path / "elsewhere")
    part.symlink_to(tmp_path / "elsewhere")
    assert read_records(files) == {}


def test_a_link_or_a_fifo_for_a_record_is_none(files, tmp_path):
    folder = planted(files)
    (folder / "rank-00000.json").rename(tmp_path / "record")
    (folder / "rank-00000.json").symlink_to(tmp_path / "record")
    os.mkfifo(folder / "rank-00001.json")
    (folder / "rank-00002.json").write_text("[1]")
    (folder / "rank-00003.json").write_text("{")
    (folder / "other.txt").write_text("{}")
    assert read_records(files) == {}
    bring_home(files.run_dir)
    assert not {"rank-00000.json", "rank-00001.json", "other.txt"} & {path.name for path in files.exits.iterdir()}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a file another user's")
@pytest.mark.parametrize("which", ["top", "folder", "record"])
def test_what_belongs_to_another_user_is_not_believed(files, which):
    folder = planted(files)
    os.chown({"top": folder.parent, "folder": folder, "record": folder / "rank-00000.json"}[which], 12345, 12345)
    assert read_records(files) == {}


def test_a_run_that_takes_the_place_of_another_does_not_find_its_records(files):
    planted(files)
    (files.run_dir / "run.json").write_text('{"id": "run", "created": "2026-11-25T00:00:00Z", "digest_key": "k2"}')
    assert read_records(files) == {}
    assert attempts_with_spares(files.run_dir) == []


def test_a_record_at_home_is_believed_first_and_not_replaced(files):
    planted(files)
    (files.exits / "rank-00000.json").write_text('{"rank": 0, "code": 5}')
    assert read_records(files)[0]["code"] == 5
    bring_home(files.run_dir)
    assert read_records(files)[0]["code"] == 5
    assert attempts_with_spares(files.run_dir) == []


def test_a_machine_where_nothing_was_ever_put_aside_is_asked_cheaply(files, monkeypatch):
    assert not is_in_use()
    monkeypatch.setattr(spare_place, "loads", lambda _: pytest.fail("run.json was read"))
    assert read_records(files) == {}
    assert read_report(files) is None
    bring_home(files.run_dir)


def test_write_report_itself_still_says_what_it_cannot_do(files, disk):
    disk(errno.ENOSPC)
    with pytest.raises(OSError, match="No space left"):
        write_report(files, ENDED)
