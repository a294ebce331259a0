import ctypes
import errno
import struct
import threading
from collections.abc import Iterator

import pytest

from sentinel.client.atomic_file import write_atomically
from sentinel.client.strict_json import dumps
from sentinel.telemetry import inotify
from sentinel.telemetry.wake import STEPS_WAIT_MAX, Wake

DEADLINE_S = 10.0  # a wake takes a millisecond; this is only how long a failing test waits


@pytest.fixture
def wake(world):
    world.attempt(1).joinpath("heartbeats").mkdir()
    (world.run_dir / "checkpoints").mkdir()
    wake = Wake(world.run_dir)
    wake.follow(1)
    wake.rearm()
    assert wake.trouble is None
    yield wake
    wake.close()


def test_a_line_of_the_stream_wakes(world, wake) -> None:
    world.write(1, {"step": 1})
    assert wake.event.wait(DEADLINE_S)


def test_an_exit_report_wakes(world, wake) -> None:
    write_atomically(world.attempt(1) / "exit.json", b"{}")
    assert wake.event.wait(DEADLINE_S)


def test_a_committed_checkpoint_wakes(world, wake) -> None:
    aside = world.run_dir / "checkpoints" / ".step-00000005.tmp"
    aside.mkdir()
    aside.rename(world.run_dir / "checkpoints" / "step-00000005")
    assert wake.event.wait(DEADLINE_S)


def test_changed_overrides_wake(world, wake) -> None:
    write_atomically(world.run_dir / "overrides.json", b"{}")
    assert wake.event.wait(DEADLINE_S)


def count_rings(wake, act) -> int:
    """How often the act rings. Its last write must ring; writes into one directory are heard in their order."""
    rings: list[str] = []
    heard = threading.Event()

    def ring(name: str) -> None:
        rings.append(name)
        heard.set()

    watch = inotify.DirectoryWatch(ring)
    watch.ensure(wake._wanted)
    act()
    assert heard.wait(DEADLINE_S)
    watch.close()
    return len(rings)


def test_the_supervisors_own_files_do_not_wake(world, wake) -> None:
    def act() -> None:
        for name in ("sentinel.db", "sentinel.db-wal", "lease.json", "sentinel.lock", "run.json"):
            (world.run_dir / name).write_text("x")
        write_atomically(world.run_dir / "lease.json", b"{}")
        write_atomically(world.run_dir / "overrides.json", b"{}")

    assert count_rings(wake, act) == 1


def test_logs_do_not_wake(world, wake) -> None:
    def act() -> None:
        (world.attempt(1) / "logs").mkdir()
        (world.attempt(1) / "logs" / "rank-00000.out").write_text("hello")
        (world.attempt(1) / "spec.json").write_text("{}")
        write_atomically(world.attempt(1) / "exit.json", b"{}")

    assert count_rings(wake, act) == 1


def test_a_checkpoint_in_the_making_does_not_wake(world, wake) -> None:
    def act() -> None:
        aside = world.run_dir / "checkpoints" / ".step-00000005.tmp"
        aside.mkdir()
        (aside / "shard").write_bytes(b"x" * 100_000)
        aside.rename(world.run_dir / "checkpoints" / "step-00000005")

    assert count_rings(wake, act) == 1


def test_any_number_of_writes_are_one_wake_and_the_next_is_another(world, wake) -> None:
    world.steps(1, 1, 50)
    assert wake.event.wait(DEADLINE_S)
    wake.rearm()
    world.write(1, {"kind": "event", "step": 51})
    assert wake.event.wait(DEADLINE_S)


class Rings:
    """A wake whose words of the stream are passed by hand."""

    def __init__(self, world) -> None:
        self.world = world
        world.attempt(1)
        self.wake = Wake(world.run_dir)
        self.wake.follow(1)
        self.wake.take()

    def rings(self, *lines: dict[str, object], name: str = "metrics.jsonl") -> bool:
        """Whether the loop is woken by them; if so it takes a turn."""
        for line in lines:
            self.world.write(1, dumps(line).encode() + b"\n")
        self.wake._ring(name)
        is_rung = self.wake.event.is_set()
        if is_rung:
            self.wake.take()
        return is_rung


STEP = {"kind": "step", "step": 1, "time_s": 1.0, "loss": 2.0}


@pytest.fixture
def rung(world) -> Iterator[Rings]:
    rung = Rings(world)
    assert rung.rings({"kind": "start", "v": 1})
    yield rung
    rung.wake.close()


def test_steps_with_finite_numbers_wait_for_one_another(rung) -> None:
    most = STEPS_WAIT_MAX - 1
    assert [rung.rings(STEP) for _ in range(2 * STEPS_WAIT_MAX)] == 2 * ([False] * most + [True])
    assert not rung.rings(*[STEP] * most)
    assert rung.rings(STEP)


def test_a_turn_for_another_reason_reads_those_that_wait(rung) -> None:
    assert not rung.rings(*[STEP] * (STEPS_WAIT_MAX - 1))
    rung.wake.take()
    assert not rung.rings(STEP)


def test_what_is_no_number_and_every_other_word_wakes_at_once(rung) -> None:
    for value in (float("nan"), float("inf"), float("-inf")):
        assert rung.rings(STEP, STEP | {"grad_norm": value}, STEP), value
        assert rung.rings(STEP), "begun anew behind it"
        assert not rung.rings(STEP)
    for kind in ("event", "end", "start"):
        assert rung.rings(STEP, {"kind": kind, "step": 1}), kind
    assert rung.rings({"step": 1, "kind": "step"}), "not as our client writes it: nothing is known of it"
    assert rung.rings(name="exit.json")


def test_half_a_line_a_file_cut_off_and_one_that_is_not_there_wake_at_once(world) -> None:
    rung = Rings(world)
    assert rung.rings(), "no stream yet"
    assert rung.rings(STEP), "the first glance"
    assert not rung.rings(STEP)
    stream = world.attempt(1) / "metrics.jsonl"
    with stream.open("ab") as file:
        file.write(b'{"kind":"step","st')
    assert rung.rings()
    with stream.open("ab") as file:
        file.write(b'ep":2,"time_s":1.0,"loss":2.0}\n')
    assert rung.rings(), "the rest of a line is no step"
    assert not rung.rings(STEP)
    stream.write_bytes(b"")
    assert rung.rings()
    rung.wake.follow(2)
    assert rung.rings(STEP), "another attempt"
    rung.wake.close()


def test_directories_that_appear_later_are_watched_from_the_next_look_on(world) -> None:
    wake = Wake(world.run_dir)
    wake.follow(3)
    wake.rearm()
    world.attempt(3)
    assert wake.event.wait(DEADLINE_S)  # attempts/ came to be
    wake.rearm()
    world.write(3, {"step": 1})
    assert wake.event.wait(DEADLINE_S)
    wake.close()


def test_after_following_another_attempt_the_old_one_wakes_nobody(world, wake) -> None:
    world.attempt(2)
    wake.follow(2)
    wake.rearm()
    assert {path.name for path in wake._watch._watches} == {world.run_dir.name, "attempts", "0002", "checkpoints"}
    world.write(2, {"step": 1})
    assert wake.event.wait(DEADLINE_S)


def test_a_directory_that_was_replaced_is_watched_again(world, wake) -> None:
    (world.run_dir / "checkpoints").rename(world.run_dir / "old")
    (world.run_dir / "checkpoints").mkdir()
    wake.rearm()
    (world.run_dir / "checkpoints" / "step-00000009").mkdir()
    assert wake.event.wait(DEADLINE_S)


def test_heartbeats_do_not_wake(world, wake) -> None:
    def act() -> None:
        world.beat(1, 0, {"step": 1})
        write_atomically(world.attempt(1) / "exit.json", b"{}")

    assert count_rings(wake, act) == 1


def test_step_lines_are_told_from_everything_else(world, wake) -> None:
    world.write(1, {"step": 1})
    assert wake.event.wait(DEADLINE_S)
    assert not wake.take()
    write_atomically(world.run_dir / "overrides.json", b"{}")
    assert wake.event.wait(DEADLINE_S)
    while not wake.take():  # the kernel has several words for one write of the stream, and they may come one by one
        assert wake.event.wait(DEADLINE_S)
    assert not wake.take(), "it is said once"


def test_events_that_the_kernel_left_out_may_have_been_anything(wake) -> None:
    wake._watch._hear(struct.pack("iIII", -1, inotify.InotifyConstants.IN_Q_OVERFLOW, 0, 0))
    assert wake.event.is_set()
    assert wake.take()
    assert not wake.event.is_set()


def test_without_inotify_the_poll_goes_on_and_the_reason_is_known(world, monkeypatch) -> None:
    def refuse(*_: object) -> int:
        ctypes.set_errno(errno.ENOSPC)
        return -1

    monkeypatch.setattr(inotify, "inotify_add_watch", refuse)
    wake = Wake(world.run_dir)
    wake.follow(1)
    wake.rearm()
    assert wake.trouble == "inotify: inotify watch limit reached"
    wake.rearm()
    assert not wake.event.is_set()
    wake.close()


def test_a_network_filesystem_is_not_watched(world, tmp_path) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text(f"/dev/sda1 / ext4 rw 0 0\nserver:/x {world.run_dir} nfs4 rw 0 0\n")
    wake = Wake(world.run_dir, mounts)
    wake.follow(1)
    wake.rearm()
    assert wake.trouble is not None
    assert "nfs4" in wake.trouble


def test_a_directory_that_was_deleted_and_made_anew_is_heard_whatever_its_inode(world, wake, monkeypatch) -> None:
    """ext4 gives the inode back."""
    monkeypatch.setattr(inotify, "_inode", lambda path: 7 if path.is_dir() else None)
    wake._watch._watches = {path: (7, *watch[1:]) for path, watch in wake._watch._watches.items()}
    descriptor = wake._watch._watches[world.run_dir / "checkpoints"][1]
    (world.run_dir / "checkpoints").rmdir()
    (world.run_dir / "checkpoints").mkdir()
    assert wake._watch._gone.get(timeout=DEADLINE_S) == descriptor
    wake._watch._gone.put(descriptor)
    wake.rearm()
    (world.run_dir / "checkpoints" / "step-00000009").mkdir()
    assert wake.event.wait(DEADLINE_S)


def test_that_nothing_wakes_is_remarked_once(world, tmp_path) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text(f"server:/x {world.run_dir} nfs4 rw 0 0\n")
    wake = Wake(world.run_dir, mounts)
    wake.rearm()
    (said,) = wake.poll(0.0)
    assert said.remark
    assert "looks twice a second" in said.reason
    assert "nfs4" in said.reason
    assert wake.poll(1.0) == []
