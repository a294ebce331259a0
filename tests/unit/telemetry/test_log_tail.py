"""The ends of logs: bounded, in the order of who matters, and nothing in their place can hurt."""

from __future__ import annotations

import os
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from sentinel.model.attempts import Exited, ExitReport, RankExit
from sentinel.model.readings import LauncherReading, LogTail
from sentinel.telemetry import crash_log, log_tail
from sentinel.telemetry.log_tail import read_log_tails, read_oom_kills
from sentinel.telemetry.run_telemetry import RunTelemetry

NOTHING = ExitReport(1, (), None)


def logs_of(run_dir: Path) -> Path:
    folder = run_dir / "attempts" / "0001" / "logs"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def test_ranks_and_the_launcher_each_with_standard_error_last(tmp_path: Path) -> None:
    logs = logs_of(tmp_path)
    (logs / "rank-00003.err").write_text("Traceback\nboom\n")
    (logs / "rank-00003.out").write_text("step 1\n\n10%|#\r20%|##\r\n")
    (logs / "launcher.err").write_text("the launcher's word")
    assert read_log_tails(tmp_path, 1, NOTHING) == [
        LogTail(1, 3, ("step 1", "20%|##", "Traceback", "boom"), errors_from=2),
        LogTail(1, None, ("the launcher's word",), errors_from=0),
    ]


def test_an_attempt_without_logs_has_no_tails(tmp_path: Path) -> None:
    assert read_log_tails(tmp_path, 1, NOTHING) == []


def test_only_the_end_of_a_long_log_is_read_and_lines_are_cut(tmp_path: Path) -> None:
    logs = logs_of(tmp_path)
    (logs / "launcher.err").write_text("early\n" + "x" * 200_000 + "\n" + "short\n" * 5000 + "last\n")
    (tail,) = read_log_tails(tmp_path, 1, NOTHING)
    assert tail.lines[-1] == "last"
    assert "early" not in tail.lines
    assert len(tail.lines) <= crash_log.LINES_KEPT
    (logs / "launcher.err").write_text("x" * 200_000)
    (tail,) = read_log_tails(tmp_path, 1, NOTHING)
    assert [len(line) for line in tail.lines] == [crash_log.LINE_CHARS]


def test_a_log_that_was_searched_in_part_says_so(tmp_path: Path, monkeypatch) -> None:
    logs = logs_of(tmp_path)
    monkeypatch.setattr(log_tail, "SEARCH_BYTES", crash_log.TAIL_BYTES)
    (logs / "rank-00000.out").write_text("no step in it\n" * 10_000)
    (logs / "rank-00001.out").write_text("step 7 loss 2.5\n" * 10_000)
    (logs / "launcher.err").write_text("no step in it\n" * 10)
    assert {tail.rank: tail.is_cut for tail in read_log_tails(tmp_path, 1, NOTHING)} == {0: True, 1: False, None: False}


def test_of_a_log_that_was_just_cut_what_came_last_before_is_read_too(tmp_path: Path) -> None:
    logs = logs_of(tmp_path)
    (logs / "rank-00000.err.tail").write_text("ValueError: the cause\n")
    (logs / "rank-00000.err").write_text("[sentinel cut this log at 9 bytes]\nsaid since\n")
    (tail,) = read_log_tails(tmp_path, 1, NOTHING)
    assert tail.lines == ("ValueError: the cause", "[sentinel cut this log at 9 bytes]", "said since")
    (logs / "rank-00000.err").write_text("x\n" * crash_log.TAIL_BYTES)
    (tail,) = read_log_tails(tmp_path, 1, NOTHING)
    assert set(tail.lines) == {"x"}


def test_of_many_ranks_those_that_failed_are_read(tmp_path: Path) -> None:
    logs = logs_of(tmp_path)
    for rank in range(100):
        (logs / f"rank-{rank:05d}.err").write_text(f"I am {rank}")
    exits = tuple(RankExit(rank, 1 if rank in (70, 90) else 0, None, "record") for rank in range(100))
    ranks = [tail.rank for tail in read_log_tails(tmp_path, 1, ExitReport(1, exits, 90))]
    assert ranks[:2] == [90, 70]
    assert len(ranks) == log_tail.RANKS_READ


def test_what_is_no_file_is_passed_over(tmp_path: Path) -> None:
    logs = logs_of(tmp_path)
    os.mkfifo(logs / "rank-00000.err")
    (logs / "rank-00001.err").mkdir()
    (logs / "rank-00002.err").symlink_to(tmp_path / "nowhere")
    (logs / "rank-x.err").write_text("not a rank")
    (logs / "rank-00004.out").write_bytes(b"\xff\xfe\x00 bytes")
    assert [tail.rank for tail in read_log_tails(tmp_path, 1, NOTHING)] == [4]


@settings(max_examples=30, deadline=None)
@given(st.binary(max_size=500))
def test_no_bytes_raise(tmp_path_factory, data: bytes) -> None:
    run_dir = tmp_path_factory.mktemp("run")
    (logs_of(run_dir) / "launcher.out").write_bytes(data)
    for tail in read_log_tails(run_dir, 1, NOTHING):
        assert all(len(line) <= crash_log.LINE_CHARS and line for line in tail.lines)


def test_the_kernel_s_kills_are_counted_where_the_cgroup_tells_them(tmp_path: Path) -> None:
    membership, events = tmp_path / "cgroup", tmp_path / "job" / "memory.events"
    assert read_oom_kills(tmp_path, membership) is None
    membership.write_text("1:name=systemd:/x\n0::/job\n")
    assert read_oom_kills(tmp_path, membership) is None
    events.parent.mkdir()
    events.write_text("low 0\nhigh 0\nmax 12\noom 3\noom_kill 2\noom_group_kill 0\n")
    assert read_oom_kills(tmp_path, membership) == 2
    events.write_text("oom_kill many\n")
    assert read_oom_kills(tmp_path, membership) is None


def test_kills_that_happened_during_the_attempt_are_the_launcher_s_last_line(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(log_tail, "read_oom_kills", lambda: 3)
    assert read_log_tails(tmp_path, 1, NOTHING, 3) == []
    assert read_log_tails(tmp_path, 1, NOTHING, 2)[0].lines == ("cgroup memory.events: oom_kill rose from 2 to 3",)


def test_tails_come_just_before_the_exit_and_not_earlier(world, launcher) -> None:
    telemetry = RunTelemetry(world.run_dir, launcher)
    telemetry.follow(1)
    (logs_of(world.run_dir) / "launcher.err").write_text("a word")
    assert not any(isinstance(reading, LogTail) for reading in telemetry.poll(1.0))
    launcher.view = Exited(1, NOTHING)
    readings = telemetry.poll(2.0)
    assert readings[-2:] == [LogTail(1, None, ("a word",), errors_from=0), LauncherReading(launcher.view)]
    assert telemetry.poll(3.0) == []
    telemetry.close()
