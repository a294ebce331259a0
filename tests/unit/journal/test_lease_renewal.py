"""A lease is shown to be alive while its supervisor is, and given up for good when another has the run."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path

import pytest

from sentinel.client.run_layout import JOURNAL_NAME, LEASE_NAME
from sentinel.errors import Fenced, RetryLater
from sentinel.journal import lease
from sentinel.journal.identity import read_own_identity
from sentinel.journal.lease import LeaseRecord, read_lease
from sentinel.journal.session import take_run
from sentinel.journal.store import Journal


def write_foreign_lease(run_dir: Path, epoch: int) -> None:
    plain = {"epoch": epoch, "host": "node-17", "pid": 4242, "create_time": 1000.0, "boot_id": "another-boot", "attempt": 3}
    (run_dir / LEASE_NAME).write_text(json.dumps(plain))


def age(path: Path) -> None:
    os.utime(path, (1000.0, 1000.0))


def test_the_lease_is_touched_every_ten_seconds_of_session_time(tmp_path: Path) -> None:
    path = tmp_path / LEASE_NAME
    with take_run(tmp_path) as session:
        session.lease.renew(100.0)
        for now_s, renewed in ((109.9, False), (110.0, True), (119.9, False), (120.0, True)):
            age(path)
            session.lease.renew(now_s)
            assert (path.stat().st_mtime > 1000.0) is renewed, now_s


def test_the_time_of_renewal_is_written_over_in_place_by_a_clock_that_nobody_sets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / LEASE_NAME
    with take_run(tmp_path) as session:
        file = path.stat()
        for now_s, boot_s in ((10.0, 99_999.5), (20.0, 100_000.25), (30.0, 1e9)):
            monkeypatch.setattr(lease, "boot_s", lambda boot_s=boot_s: boot_s)
            session.lease.renew(now_s)
            assert json.loads(path.read_text())["renewed_boot_s"] == boot_s
            assert read_lease(tmp_path) == LeaseRecord(1, read_own_identity(), 0)
        assert (path.stat().st_ino, path.stat().st_size) == (file.st_ino, file.st_size)


def test_where_nothing_can_be_written_in_place_the_files_time_alone_is_renewed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / LEASE_NAME

    def full(handle: int, data: bytes, offset: int) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    with take_run(tmp_path) as session:
        age(path)
        session.lease.renew(10.0)
        assert path.stat().st_mtime > 1000.0


def test_a_lease_that_somebody_deleted_or_spoiled_is_written_again(tmp_path: Path) -> None:
    with take_run(tmp_path) as session:
        for now_s, spoil in ((10.0, lambda p: p.unlink()), (20.0, lambda p: p.write_text("{"))):
            spoil(tmp_path / LEASE_NAME)
            assert not session.lease.is_lost()
            session.lease.renew(now_s)
            assert read_lease(tmp_path) == LeaseRecord(1, read_own_identity(), 0)


def test_a_supervisor_that_was_taken_over_touches_nothing_any_more(tmp_path: Path) -> None:
    session = take_run(tmp_path)
    write_foreign_lease(tmp_path, epoch=2)
    age(tmp_path / LEASE_NAME)
    before = (tmp_path / LEASE_NAME).read_bytes()
    assert session.lease.is_lost()
    with pytest.raises(Fenced, match="epoch 2 took this run over from epoch 1"):
        session.lease.renew(1e6)
    with pytest.raises(Fenced):
        session.lease.set_attempt(9)
    session.close()
    assert (tmp_path / LEASE_NAME).read_bytes() == before
    assert (tmp_path / LEASE_NAME).stat().st_mtime == 1000.0


def test_a_lower_epoch_in_the_file_loses_nothing(tmp_path: Path) -> None:
    with take_run(tmp_path) as first:
        write_foreign_lease(tmp_path, epoch=0)
        assert not first.lease.is_lost()
        first.lease.renew(1.0)
        assert read_lease(tmp_path) == LeaseRecord(1, read_own_identity(), 0)


def test_a_lease_that_cannot_be_written_is_to_be_tried_again(tmp_path: Path) -> None:
    run_dir = tmp_path / "run"
    run_dir.mkdir()
    session = take_run(run_dir)
    run_dir.rename(tmp_path / "moved")
    for write in (lambda: session.lease.renew(1.0), lambda: session.lease.set_attempt(2)):
        with pytest.raises(RetryLater, match=r"lease\.json: cannot be written"):
            write()
    assert session.lease.attempt == 0
    assert not run_dir.exists(), "half a run directory is worse than none"
    session.close()


def test_leaving_in_good_order_is_seen_in_the_file(tmp_path: Path) -> None:
    session = take_run(tmp_path)
    session.lease.set_attempt(4)
    session.close()
    assert read_lease(tmp_path) == LeaseRecord(1, read_own_identity(), 4, released=True)
    with Journal.open(tmp_path / JOURNAL_NAME, read_only=True) as journal:
        assert journal.epoch() == 1


def test_what_is_still_going_on_in_a_thread_after_release_takes_nothing_back(tmp_path: Path) -> None:
    session = take_run(tmp_path)
    session.close()
    with pytest.raises(Fenced, match="already let this run go"):
        session.lease.set_attempt(8)
    record = read_lease(tmp_path)
    assert record is not None
    assert (record.attempt, record.released) == (0, True)


def test_an_attempt_set_in_one_thread_is_not_undone_by_renewing_in_another(tmp_path: Path) -> None:
    with take_run(tmp_path) as session:
        done = threading.Event()

        def renew() -> None:
            now_s = 0.0
            while not done.is_set():
                now_s += 10.0
                session.lease.renew(now_s)

        thread = threading.Thread(target=renew)
        thread.start()
        try:
            for attempt in range(1, 30):
                session.lease.set_attempt(attempt)
                record = read_lease(tmp_path)
                assert record is not None
                assert record.attempt == attempt
        finally:
            done.set()
            thread.join(30)
        assert not thread.is_alive()
