"""When a rank writes its stacks by itself, and that it does: no signal reaches it from another machine."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from sentinel.client.run_layout import stack_path
from sentinel.client.stacks import LOOKS_KEPT, STACKS_AFTER_S, StackWatch, has_peers
from sentinel.launcher.rank_processes import judge_stack, read_stack


def written(watch: StackWatch, beat: tuple[str, float], until_s: float) -> list[float]:
    """When it writes, looked at once a second from the beat on."""
    return [now_s for now_s in range(int(beat[1]), int(until_s) + 1) if watch.is_due(float(now_s), beat)]


def test_a_silent_rank_writes_once_in_a_silence() -> None:
    watch = StackWatch()
    assert written(watch, ("", 0.0), 60.0) == []  # no heartbeat yet
    assert written(watch, ("forward", 100.0), 160.0) == [100.0 + STACKS_AFTER_S]
    assert written(watch, ("backward", 160.0), 190.0) == [160.0 + STACKS_AFTER_S]


def test_a_phase_that_takes_long_by_itself_is_written_of_when_it_takes_twice_as_long() -> None:
    watch = StackWatch()
    for at_s in (0.0, 40.0, 80.0):
        written(watch, ("forward", at_s), at_s + 29.0)
        written(watch, ("optimizer", at_s + 30.0), at_s + 32.0)
    assert watch.after_s("forward") == 58.0
    assert watch.after_s("optimizer") == STACKS_AFTER_S
    assert written(watch, ("forward", 120.0), 300.0) == [178.0]


def test_one_long_pause_counts_for_the_next_twenty_alone() -> None:
    watch = StackWatch()
    written(watch, ("data", 0.0), 60.0)
    for step in range(LOOKS_KEPT):
        at_s = 100.0 + 2.0 * step
        watch.is_due(at_s, ("data", at_s))
        assert watch.after_s("data") == 120.0
    watch.is_due(200.0, ("data", 200.0))
    assert watch.after_s("data") == STACKS_AFTER_S


@pytest.mark.parametrize(("size", "wanted"), [("2", True), ("1", False), ("", False), ("two", False), (None, False)])
def test_a_rank_without_peers_writes_nothing_by_itself(size: str | None, wanted: bool) -> None:
    assert has_peers({} if size is None else {"WORLD_SIZE": size}) is wanted


TRAINER = """
    import sys, threading
    from pathlib import Path
    from sentinel.client import stacks
    from sentinel.client.spec import Spec

    stacks.STACKS_AFTER_S, stacks.LOOK_EVERY_S = 0.05, 0.02
    own = stacks.OwnStacks(Path(sys.argv[1]), 1, 3, lambda: ("forward", 1.0))

    def hangs():
        print(sorted(own.fields("forward")), flush=True)
        threading.Event().wait()

    own.offer()
    hangs()
"""


def test_a_rank_that_hangs_writes_where_it_stands(tmp_path: Path) -> None:
    program = tmp_path / "train.py"
    program.write_text(textwrap.dedent(TRAINER))
    environment = {"WORLD_SIZE": "8", "PYTHONPATH": str(Path(__file__).resolve().parents[3]), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, str(program), str(tmp_path)]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as rank:
        try:
            assert rank.stdout is not None
            assert rank.stdout.readline().strip() == "['stack_after_s', 'stack_signal']"
            stack: tuple[object, ...] = ()
            while not any("hangs" in str(frame) for frame in stack):
                assert rank.poll() is None
                stack = frames = read_stack(stack_path(tmp_path, 1, 3))
            assert judge_stack(frames)[0] == "works"
        finally:
            rank.kill()
