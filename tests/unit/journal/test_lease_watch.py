"""The silence of a lease is counted by whoever waits for it, and by nothing that a clock of somebody else says."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sentinel.client.run_layout import LEASE_NAME
from sentinel.journal.lease import STALE_AFTER_S, Lease
from sentinel.journal.lease_watch import GAP_S, LeaseWatch
from sentinel.journal.run_lock import RunLock


class Time:
    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s

    def watch(self, watch: LeaseWatch, seconds: float, every_s: float = 2.0) -> None:
        for _ in range(round(seconds / every_s)):
            self.now_s += every_s
            watch.look()


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def lease(tmp_path: Path, time: Time) -> Lease:
    with RunLock.acquire(tmp_path) as lock:
        return Lease.publish(lock, 1, now=time)


@pytest.fixture
def watch(tmp_path: Path, time: Time, lease: Lease) -> LeaseWatch:
    found = LeaseWatch(tmp_path, time)
    found.look()
    return found


def test_it_has_run_out_when_it_was_seen_unchanged_for_its_whole_length(watch: LeaseWatch, time: Time) -> None:
    time.watch(watch, STALE_AFTER_S - 2.0)
    assert not watch.has_run_out
    time.watch(watch, 2.0)
    assert watch.has_run_out
    assert watch.covers_now()


def test_each_renewal_begins_the_count_anew(watch: LeaseWatch, lease: Lease, time: Time) -> None:
    for number in range(1, 20):
        time.watch(watch, 10.0)
        lease.renew(number * 10.0)
        time.watch(watch, 2.0)
        assert watch.silent_s == 0.0
    time.watch(watch, STALE_AFTER_S)
    assert watch.has_run_out


def test_a_renewal_that_moves_the_time_of_the_file_alone_is_one(watch: LeaseWatch, time: Time, tmp_path: Path) -> None:
    """A disk that takes no write in place."""
    time.watch(watch, 50.0)
    os.utime(tmp_path / LEASE_NAME)
    time.watch(watch, 2.0)
    assert watch.silent_s == 0.0


@pytest.mark.parametrize("stepped_s", [-86400.0, 86400.0])
def test_what_time_the_file_names_counts_for_nothing(watch: LeaseWatch, time: Time, tmp_path: Path, stepped_s: float) -> None:
    """The clock of whoever renews, or of the file server, was set."""
    then_s = (tmp_path / LEASE_NAME).stat().st_mtime + stepped_s
    os.utime(tmp_path / LEASE_NAME, (then_s, then_s))
    time.watch(watch, STALE_AFTER_S)
    assert not watch.has_run_out, "its change was seen at the first of these looks"
    time.watch(watch, 2.0)
    assert watch.has_run_out


def test_a_stretch_in_which_it_did_not_look_is_left_out(watch: LeaseWatch, time: Time) -> None:
    """It was stopped itself, and may be the one whose way to the file is cut."""
    time.watch(watch, 20.0)
    time.now_s += GAP_S + 1000.0
    watch.look()
    assert watch.silent_s == 20.0
    time.watch(watch, STALE_AFTER_S - 20.0)
    assert watch.has_run_out


def test_a_clock_that_ran_backwards_adds_nothing(watch: LeaseWatch, time: Time) -> None:
    time.now_s -= 5.0
    watch.look()
    assert watch.silent_s == 0.0


def test_a_lease_that_cannot_be_read_proves_nothing(watch: LeaseWatch, time: Time, tmp_path: Path) -> None:
    time.watch(watch, 50.0)
    path = tmp_path / LEASE_NAME
    text = path.read_bytes()
    path.unlink()
    time.watch(watch, 2.0 * STALE_AFTER_S)
    assert not watch.has_run_out
    assert watch.record is None
    path.write_bytes(text)
    time.watch(watch, STALE_AFTER_S)
    assert not watch.has_run_out, "the first of these looks was the first that read it again"


def test_one_that_is_renewed_between_the_last_look_and_the_lock_is_not_run_out(
    watch: LeaseWatch, lease: Lease, time: Time
) -> None:
    time.watch(watch, 40.0)
    time.watch(watch, 20.0)
    assert watch.covers_now()
    time.now_s -= 60.0  # its holder's clock: by that it is in time
    lease.renew(1.0)
    assert watch.has_run_out
    assert not watch.covers_now()


def test_the_length_stands_in_the_lease(tmp_path: Path, time: Time) -> None:
    with RunLock.acquire(tmp_path) as lock:
        Lease.publish(lock, 1, lasts_s=6.0, now=time)
    watch = LeaseWatch(tmp_path, time)
    watch.look()
    time.watch(watch, 5.0, every_s=0.5)
    assert not watch.has_run_out
    time.watch(watch, 1.0, every_s=0.5)
    assert watch.has_run_out
