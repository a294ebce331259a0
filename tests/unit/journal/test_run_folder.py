"""Who may read a run: its owner, or a group that was named; an existing directory is not changed behind its owner's back."""

from __future__ import annotations

import grp
import os
import stat
from pathlib import Path

import pytest

from sentinel.client.run_layout import JOURNAL_NAME
from sentinel.errors import UsageError
from sentinel.journal.run_folder import ReadingGroup, ensure_run_dir, find_group, who_else_reads
from sentinel.journal.session import take_run
from sentinel.journal.store import Journal
from sentinel.model.facts import Noted
from tests.unit.told_run import write_run

OWN = ReadingGroup(grp.getgrgid(os.getegid()).gr_name, os.getegid())


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
@pytest.mark.parametrize(("group", "folder", "file"), [(None, 0o700, 0o600), (OWN, 0o2750, 0o640)])
def test_a_new_run_directory_and_all_in_it(
    tmp_path: Path, umask: int, group: ReadingGroup | None, folder: int, file: int
) -> None:
    before = os.umask(umask)
    try:
        run_dir = ensure_run_dir(tmp_path / "runs" / "gpt", group)
        write_run(run_dir)
        with take_run(run_dir) as session:
            session.journal.append(1e9, [Noted("x", "y")], session.epoch)
            modes = {path.name: mode(path) for path in run_dir.iterdir()}
    finally:
        os.umask(before)
    assert mode(run_dir) == folder
    assert mode(run_dir.parent) == 0o777 & ~umask, "what lies above it is no business of ours"
    assert {JOURNAL_NAME, f"{JOURNAL_NAME}-wal", f"{JOURNAL_NAME}-shm", "run.json", "lease.json", "sentinel.lock"} <= set(modes)
    assert set(modes.values()) == {file}, modes
    assert run_dir.stat().st_gid == os.getegid()
    assert who_else_reads(run_dir) == ""


def test_one_that_is_there_stays_as_it_is_and_is_told(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run").chmod(0o755)
    run_dir = ensure_run_dir(tmp_path / "run")
    assert mode(run_dir) == 0o755
    assert "others than you can look into it (mode 755)" in who_else_reads(run_dir)
    assert who_else_reads(run_dir).endswith(f"close it: chmod 700 {run_dir}")
    run_dir.chmod(0o2770)
    assert "mode 2770" in who_else_reads(run_dir)


def test_an_empty_one_is_shared_as_asked_and_one_that_holds_something_is_refused_with_the_remedy(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir(0o755)
    run_dir = ensure_run_dir(tmp_path / "run", OWN)
    assert mode(run_dir) == 0o2750
    (run_dir / "file").touch()
    assert ensure_run_dir(run_dir, OWN) == run_dir, "it is shared already"
    run_dir.chmod(0o700)
    with pytest.raises(UsageError, match=rf"--share-with {OWN.name}: .* chgrp -R {OWN.name} .*find .* chmod g\+s"):
        ensure_run_dir(run_dir, OWN)
    assert mode(run_dir) == 0o700


def test_a_group_that_is_not_there_or_not_ours_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    assert find_group(None) is None
    assert find_group(OWN.name) == OWN
    with pytest.raises(UsageError, match="--share-with nobody-has-it: there is no such group"):
        find_group("nobody-has-it")
    other = next(found for found in grp.getgrall() if found.gr_gid not in (os.getegid(), *os.getgroups()))
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(UsageError, match=f"--share-with {other.gr_name}: this user is no member of it"):
        find_group(other.gr_name)


def test_a_reader_of_the_group_needs_no_right_to_write(tmp_path: Path) -> None:
    """As another user of the group would: in a process that is one."""
    if os.geteuid() != 0:
        pytest.skip("only root can become somebody else")
    tmp_path.chmod(0o755)
    for above in tmp_path.parents[:3]:
        above.chmod(above.stat().st_mode | 0o011)
    group = ReadingGroup("team", 54321)
    run_dir = write_run(ensure_run_dir(tmp_path / "run", group))
    with take_run(run_dir) as session:  # a living supervisor
        session.journal.append(1e9, [Noted("x", "y")], session.epoch)
        assert read_as(run_dir, uid=54322, gid=54321) == "read"
        assert read_as(run_dir, uid=54322, gid=54323) == "refused"


def read_as(run_dir: Path, uid: int, gid: int) -> str:
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.setgroups([])
            os.setgid(gid)
            os.setuid(uid)
            with Journal.open(run_dir / JOURNAL_NAME, read_only=True) as journal:
                code = 0 if list(journal.read_entries()) and (run_dir / "run.json").read_text() else 2
        finally:
            os._exit(code)
    return {0: "read", 1: "refused"}[os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])]
