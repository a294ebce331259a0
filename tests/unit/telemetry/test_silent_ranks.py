"""When silent ranks are looked at, and what is reported of them. The processes are real, the clock is an argument."""

from __future__ import annotations

import dataclasses
import os
import pickle
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from sentinel.client.run_layout import flight_recorder_prefix, stack_path
from sentinel.launcher.process_tree import is_marked
from sentinel.launcher.py_spy import DEADLINE_S
from sentinel.model.readings import FlightRecords, Reading, SilentRank
from sentinel.run_files.attempt_files import AttemptFiles
from sentinel.telemetry.heartbeats import RankLife
from sentinel.telemetry.rank_look import MUTE_AFTER_S
from sentinel.telemetry.silence import SILENT_UNKNOWN_S
from sentinel.telemetry.silent_ranks import SilentRanks
from tests.file_limit import no_file_left

HOST = socket.gethostname()
Child = Callable[[Path], int]


@pytest.fixture
def child() -> object:
    """Starts marked children that sleep until they are killed."""
    pids: list[int] = []

    def start(run_dir: Path) -> int:
        environment = os.environ | AttemptFiles.of(run_dir, 1).environment
        pids.append(os.posix_spawn("/bin/sleep", ["sleep", "600"], environment))
        while not is_marked(pids[-1], AttemptFiles.of(run_dir, 1).environment):  # in the middle of exec it shows none
            os.sched_yield()
        return pids[-1]

    yield start
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def lives(pids: list[int | None], step: int, at_s: float, host: str = HOST) -> dict[int, RankLife]:
    return {rank: RankLife(step, pid, host, None, at_s) for rank, pid in enumerate(pids)}


def stepped(run_dir: Path, pids: list[int | None], host: str = HOST) -> tuple[SilentRanks, dict[int, RankLife]]:
    """Ten steps of one second each."""
    ranks = SilentRanks(run_dir, 1)
    for step in range(1, 11):
        seen = lives(pids, step, float(step), host)
        assert ranks.poll(float(step), seen) == []
    return ranks, seen


def with_one_stopped(run_dir: Path, child: Child) -> tuple[SilentRanks, dict[int, RankLife]]:
    """Of two ranks the second is stopped after ten steps."""
    pids: list[int | None] = [child(run_dir), child(run_dir)]
    ranks, seen = stepped(run_dir, pids)
    assert pids[1] is not None
    os.kill(pids[1], signal.SIGSTOP)
    os.waitid(os.P_PID, pids[1], os.WSTOPPED | os.WNOWAIT)
    return ranks, seen


def test_a_silent_rank_that_is_stopped_is_reported_once(tmp_path: Path, child: Child) -> None:
    ranks, seen = with_one_stopped(tmp_path, child)
    assert ranks.poll(11.9, seen) == []  # within two step times
    found = ranks.poll(12.1, seen)
    assert [(one.rank, one.doing) for one in found if isinstance(one, SilentRank)] == [(0, "runs"), (1, "stopped")]
    assert [one for one in ranks.poll(13.2, seen) if getattr(one, "rank", None) == 1] == []  # known


def test_where_no_file_is_left_to_open_nothing_is_said_until_there_is(tmp_path: Path, child: Child) -> None:
    ranks, seen = with_one_stopped(tmp_path, child)
    with no_file_left():
        assert ranks.poll(12.1, seen) == []
    found = ranks.poll(13.2, seen)
    assert [(one.rank, one.doing) for one in found if isinstance(one, SilentRank)] == [(0, "runs"), (1, "stopped")]


def test_a_rank_that_was_heard_between_two_looks_is_told_again(tmp_path: Path, child: Child) -> None:
    """The detector forgets what it was told when the rank is heard, and the next look may come when it is silent again."""
    ranks, seen = with_one_stopped(tmp_path, child)
    assert SilentRank(1, 1, "stopped") in [_placeless(one) for one in ranks.poll(12.1, seen)]
    heard = dict(seen) | {1: seen[1]._replace(changed_s=12.5)}  # read late; so is the next look
    assert SilentRank(1, 1, "stopped") in [_placeless(one) for one in ranks.poll(14.6, heard)]


def _placeless(one: object) -> object:
    return dataclasses.replace(one, where="") if isinstance(one, SilentRank) else one


def test_two_heartbeats_that_are_many_steps_apart_give_a_step_time(tmp_path: Path, child: Child) -> None:
    """As those of a trainer that writes none itself: they come each second, whatever a step takes."""
    pids: list[int | None] = [child(tmp_path), child(tmp_path)]
    ranks = SilentRanks(tmp_path, 1)
    for step, at_s in ((0, 1.0), (50, 2.0)):
        assert ranks.poll(at_s, lives(pids, step, at_s)) == []
    seen = lives(pids, 50, 2.0)
    assert ranks.poll(3.4, seen) == []
    assert {one.rank for one in ranks.poll(3.6, seen) if isinstance(one, SilentRank)} == {0, 1}


def test_nothing_is_looked_at_while_steps_are_made_or_while_no_step_time_is_known(tmp_path: Path, child: Child) -> None:
    pids: list[int | None] = [child(tmp_path), child(tmp_path)]
    ranks, seen = stepped(tmp_path, pids)
    seen[0] = RankLife(11, pids[0], HOST, None, 13.0)  # rank 1's heartbeat is broken, rank 0 goes on
    assert ranks.poll(13.1, seen) == []
    fresh = SilentRanks(tmp_path, 1)
    assert fresh.poll(0.0, lives(pids, 1, 0.0)) == []
    assert fresh.poll(SILENT_UNKNOWN_S - 1.0, lives(pids, 1, 0.0)) == []
    assert fresh.poll(SILENT_UNKNOWN_S + 1.0, lives(pids, 1, 0.0)) != []


def test_of_ranks_elsewhere_of_other_runs_and_without_a_pid_nothing_is_said(tmp_path: Path, child: Child) -> None:
    other = tmp_path / "other"
    other.mkdir()
    for pids, host in (([child(tmp_path)], "elsewhere"), ([child(other)], HOST), ([None], HOST)):
        ranks, seen = stepped(tmp_path, list(pids), host)
        assert ranks.poll(20.0, seen) == []


def test_dumps_of_this_silence_are_read_when_every_rank_is_silent(tmp_path: Path, child: Child) -> None:
    pids: list[int | None] = [child(tmp_path), child(tmp_path)]
    beat = AttemptFiles.of(tmp_path, 1).heartbeats / "rank-00000.json"
    beat.parent.mkdir(parents=True)
    beat.write_text("{}")
    os.utime(beat, (1000.0, 1000.0))
    prefix = flight_recorder_prefix(tmp_path, 1)
    prefix.parent.mkdir(parents=True)

    def dump(rank: int, at_s: float) -> None:
        path = Path(f"{prefix}{rank}")
        path.write_bytes(pickle.dumps({"pg_config": {}, "entries": []}))
        os.utime(path, (at_s, at_s))

    ranks, seen = stepped(tmp_path, pids)
    dump(0, 900.0)  # of an earlier silence
    dump(1, 1001.0)
    records = [one for one in ranks.poll(12.5, seen) if isinstance(one, FlightRecords)]
    assert [sorted(one.dumps) for one in records] == [[1]]
    assert not [one for one in ranks.poll(13.6, seen) if isinstance(one, FlightRecords)]
    dump(0, 1002.0)
    records = [one for one in ranks.poll(14.7, seen) if isinstance(one, FlightRecords)]
    assert [sorted(one.dumps) for one in records] == [[0, 1]]
    some = dict(seen) | {1: RankLife(10, pids[1], HOST, None, 15.0)}  # one rank is heard from
    assert not [one for one in ranks.poll(15.8, some) if isinstance(one, FlightRecords)]


PY_SPY = """#!/bin/sh
test -z "$SENTINEL_TOKEN" || exit 1
cat <<'END'
[{"pid": 1, "thread_name": "pump", "frames": [{"name": "wait", "filename": "/lib/threading.py", "line": 3}]},
 {"pid": 1, "thread_name": "MainThread", "frames": [{"name": "read", "filename": "/code/loader.py", "line": 88},
  {"name": "<module>", "filename": "/code/train.py", "line": 5}]}]
END
"""


def with_py_spy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    program = tmp_path / "bin" / "py-spy"
    program.parent.mkdir()
    program.write_text(script)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")


def test_py_spy_is_asked_for_the_stack_of_a_rank_that_offers_none(
    tmp_path: Path, child: Child, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SENTINEL_TOKEN", "secret")
    with_py_spy(tmp_path, monkeypatch, PY_SPY)
    ranks, seen = stepped(tmp_path, [child(tmp_path)])
    assert [one.doing for one in ranks.poll(12.1, seen) if isinstance(one, SilentRank)] == ["runs"]
    dump = ranks._looks[0].dump
    assert dump is not None
    assert dump.process.wait(30) == 0
    (found,) = [one for one in ranks.poll(13.2, seen) if isinstance(one, SilentRank)]
    assert (found.doing, found.where) == ("works", "loader.py:88 in read")
    assert (AttemptFiles.of(tmp_path, 1).folder / "stacks" / "rank-00000.py-spy.json").exists(), "evidence for a person"


def doing(readings: list[Reading]) -> set[str]:
    """What is said; where in the kernel a process is may change between two looks."""
    return {one.doing for one in readings if isinstance(one, SilentRank)}


def test_a_py_spy_that_takes_too_long_is_ended_and_one_that_fails_says_nothing(
    tmp_path: Path, child: Child, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_py_spy(tmp_path, monkeypatch, "#!/bin/sh\nexec sleep 600\n")
    ranks, seen = stepped(tmp_path, [child(tmp_path)])
    ranks.poll(12.1, seen)
    dump = ranks._looks[0].dump
    assert dump is not None
    assert doing(ranks.poll(13.2, seen)) <= {"runs"}
    assert doing(ranks.poll(12.1 + DEADLINE_S, seen)) <= {"runs"}
    assert dump.process.wait(30) == -signal.SIGKILL
    (tmp_path / "bin" / "py-spy").write_text("#!/bin/sh\necho '[{]'; exit 1\n")
    ranks, seen = stepped(tmp_path, [child(tmp_path)])
    ranks.poll(12.1, seen)
    dump = ranks._looks[0].dump
    assert dump is not None
    dump.process.wait(30)
    assert doing(ranks.poll(13.2, seen)) <= {"runs"}
    ranks.close()


def test_one_under_way_ends_when_nobody_looks_any_more(tmp_path: Path, child: Child, monkeypatch: pytest.MonkeyPatch) -> None:
    with_py_spy(tmp_path, monkeypatch, "#!/bin/sh\nexec sleep 600\n")
    pids: list[int | None] = [child(tmp_path)]
    ranks, seen = stepped(tmp_path, pids)
    ranks.poll(12.1, seen)
    dump = ranks._looks[0].dump
    assert dump is not None
    ranks.poll(13.2, lives(pids, 11, 13.0))
    assert dump.process.wait(30) == -signal.SIGKILL


def test_a_stacks_folder_that_cannot_be_looked_into_ends_nothing(
    tmp_path: Path, child: Child, monkeypatch: pytest.MonkeyPatch
) -> None:
    ranks, seen = stepped(tmp_path, [child(tmp_path)])
    stacks = AttemptFiles.of(tmp_path, 1).folder / "stacks"
    stacks.parent.mkdir(parents=True, exist_ok=True)
    stacks.symlink_to(stacks)  # every look at it is an error, as a stale handle is
    real = Path.exists
    monkeypatch.setattr(Path, "exists", lambda path: path.stat() is not None if "stacks" in path.parts else real(path))
    assert [one.doing for one in ranks.poll(12.1, seen) if isinstance(one, SilentRank)] == ["runs"]


DUMP = """Thread 0x00007f0000000001 (most recent call first):
  File "/code/loader.py", line 88 in read
  File "/code/train.py", line 5 in <module>
"""


def elsewhere(run_dir: Path, *, beaten_s: float = 1000.0) -> tuple[SilentRanks, dict[int, RankLife], Path]:
    """A rank on another machine that writes its stack after five seconds of silence; it fell silent at 10 s."""
    beat, stack = AttemptFiles.of(run_dir, 1).heartbeats / "rank-00000.json", stack_path(run_dir, 1, 0)
    for path in (beat, stack):
        path.parent.mkdir(parents=True)
        path.write_text(DUMP if path == stack else "{}")
        os.utime(path, (beaten_s, beaten_s))
    ranks, seen = stepped(run_dir, [4321], "elsewhere")
    return ranks, {rank: life._replace(stack_after_s=5.0) for rank, life in seen.items()}, stack


def test_what_a_rank_elsewhere_wrote_by_itself_in_this_silence_is_told(tmp_path: Path) -> None:
    ranks, seen, stack = elsewhere(tmp_path)
    os.utime(stack, (900.0, 900.0))  # of an earlier silence
    assert ranks.poll(14.0, seen) == []
    assert ranks.poll(16.0, seen) == []
    os.utime(stack, (1005.0, 1005.0))
    (found,) = ranks.poll(17.1, seen)
    assert found == SilentRank(1, 0, "works", "loader.py:88 in read")
    assert ranks.poll(30.0, seen) == []  # known


def test_a_rank_elsewhere_whose_stack_is_overdue_is_mute_until_it_comes(tmp_path: Path) -> None:
    ranks, seen, stack = elsewhere(tmp_path)
    os.utime(stack, (900.0, 900.0))
    assert ranks.poll(10.0 + 5.0 + MUTE_AFTER_S - 0.1, seen) == []
    assert doing(ranks.poll(10.0 + 5.0 + MUTE_AFTER_S + 1.0, seen)) == {"mute"}
    os.utime(stack, (1030.0, 1030.0))
    assert doing(ranks.poll(40.0, seen)) == {"works"}


def test_of_a_rank_elsewhere_that_promises_no_stack_nothing_is_said(tmp_path: Path) -> None:
    ranks, seen, _ = elsewhere(tmp_path)
    assert ranks.poll(60.0, {0: seen[0]._replace(stack_after_s=None)}) == []


CATCHES = "import signal; signal.signal(signal.SIGRTMIN + 5, lambda *_: None); print(flush=True)\nwhile True: signal.pause()"


def test_a_rank_that_was_asked_for_its_stack_and_gives_none_is_mute(tmp_path: Path) -> None:
    environment = os.environ | AttemptFiles.of(tmp_path, 1).environment
    with subprocess.Popen([sys.executable, "-I", "-S", "-c", CATCHES], env=environment, stdout=subprocess.PIPE) as rank:
        try:
            assert rank.stdout is not None
            rank.stdout.readline()
            ranks, seen = stepped(tmp_path, [rank.pid])
            seen[0] = seen[0]._replace(stack_signal=signal.SIGRTMIN + 5)
            assert doing(ranks.poll(12.1, seen)) == {"runs"}
            assert doing(ranks.poll(12.0 + MUTE_AFTER_S, seen)) <= {"runs"}
            assert doing(ranks.poll(14.0 + MUTE_AFTER_S, seen)) == {"mute"}
        finally:
            rank.kill()
