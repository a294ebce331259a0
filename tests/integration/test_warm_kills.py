"""`kill -9` in the middle of a hand-over, at the places of docs/design/warm.md that a ready reserve alone does not show."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import psutil
import pytest

from sentinel.client.strict_json import dumps
from sentinel.errors import SentinelError
from sentinel.launcher.attempt_view import read_keeper
from sentinel.launcher.local import LocalLauncher
from sentinel.launcher.process_tree import is_marked
from sentinel.launcher.reserve import Reserve
from sentinel.launcher.spec_file import write_spec
from sentinel.launcher.strangers import find_strangers
from sentinel.model.attempts import Alive, Exited
from sentinel.run_files.attempt_files import AttemptFiles
from tests.integration.supervised import wait_for
from tests.integration.test_warm_reserve import AGENT, PLAIN, World, world

__all__ = ["world"]
pytestmark = pytest.mark.slow
# A keeper that lets the first of its two ranks go, says who they are, and gets no further.
HALF_A_KEEPER = """
import json, socket, sys, time
from pathlib import Path
from sentinel.launcher.warm_command import read_command
from sentinel.launcher.warm_ranks import WarmRanks
from sentinel.run_files.attempt_files import AttemptFiles
argv, cwd, run_dir = json.loads(sys.argv[1])
warm = WarmRanks(read_command(argv, cwd), cwd, ("helper",), Path(run_dir) / "warm.err")
while not warm.are_ready:
    warm.start_next()
    for rank in warm.ranks:
        if not rank.is_ready:
            warm.listen(rank)
class Stuck(socket.socket):
    def sendall(self, data):
        print(json.dumps([rank.process.pid for rank in warm.ranks]), flush=True)
        time.sleep(600)
warm.ranks[1].line = Stuck(fileno=warm.ranks[1].line.detach())
warm.hand_over(AttemptFiles.of(run_dir, 2))
"""


def die(world: World) -> None:
    """Of the supervisor nothing is left but what the kernel does: it closes its socket."""
    held, world.reserve._held = world.reserve._held, None
    assert held is not None
    held.line.close()


def another_supervisor(world: World) -> LocalLauncher:
    return LocalLauncher(world.run_dir, reserve=Reserve(world.run_dir, free=lambda: world.free))


def test_the_supervisor_between_spec_and_number_the_next_one_starts_the_attempt_once(world: World) -> None:
    world.offer(PLAIN).until("ready")
    files = AttemptFiles.of(world.run_dir, 2)
    files.make_folders()
    write_spec(files, world.spec(2, PLAIN))
    die(world)
    wait_for("the end of the reserve", lambda: not world.processes())
    assert isinstance(another_supervisor(world).ensure_started(world.spec(2, PLAIN)), Alive)
    assert len(world.all_said(1)) == 1


def test_the_supervisor_after_the_number_the_next_one_adopts_the_attempt(world: World) -> None:
    world.offer(PLAIN).until("ready")
    files = AttemptFiles.of(world.run_dir, 2)
    files.make_folders()
    write_spec(files, world.spec(2, PLAIN))
    held = world.reserve._held
    assert held is not None
    order = {"run_dir": str(world.run_dir), "attempt": 2, "grace_s": 2.0, "direct": False}
    held.line.sendall(dumps({"keep": order}).encode() + b"\n")
    die(world)
    (warm,) = world.processes("warm_rank.py")
    view = wait_for("the attempt", lambda: isinstance(v := another_supervisor(world).observe(2), Alive) and v)
    assert warm in view.pids
    assert isinstance(another_supervisor(world).ensure_started(world.spec(2, PLAIN)), Alive)
    assert len(world.all_said(1)) == 1, "one start, though asked for twice"


def test_the_keeper_before_go_nothing_of_the_trainer_has_run_and_nothing_lives(world: World) -> None:
    world.offer(AGENT).until("ready")
    os.kill(world.processes("warm_rank.py")[1], signal.SIGSTOP)  # the hand-over waits for it
    ends: list[object] = []

    def launch() -> None:
        try:
            ends.append(world.launcher.ensure_started(world.spec(2, AGENT)))
        except SentinelError as error:
            ends.append(error)

    launching = threading.Thread(target=launch, daemon=True)
    launching.start()
    files = AttemptFiles.of(world.run_dir, 2)
    keeper = wait_for("the keeper", lambda: files.keeper.exists() and read_keeper(files))
    os.kill(keeper.pid, signal.SIGKILL)
    wait_for("the end of its ranks", lambda: not world.processes())
    launching.join(60.0)
    assert len(ends) == 1
    assert isinstance(world.launcher.ensure_stopped(2), Exited)
    assert world.said() == []


def test_the_keeper_after_go_to_some_these_are_found_by_their_mark_and_the_others_die(world: World) -> None:
    files = AttemptFiles.of(world.run_dir, 2)
    files.make_folders()
    write_spec(files, world.spec(2, AGENT))
    asked = json.dumps([AGENT, str(world.cwd), str(world.run_dir)])
    root = Path(__file__).resolve().parents[2]
    with subprocess.Popen([sys.executable, "-c", HALF_A_KEEPER, asked], cwd=root, stdout=subprocess.PIPE, text=True) as keeper:
        assert keeper.stdout is not None
        gone, waits = json.loads(keeper.stdout.readline())
        keeper.kill()
    wait_for("the end of the one that waited", lambda: not psutil.pid_exists(waits) or psutil.Process(waits).status() == "zombie")
    wait_for("the word of the other", lambda: len(world.said()) == 1)
    assert is_marked(gone, files.environment)
    assert [one.pid for one in find_strangers(world.run_dir)] == [gone]
    os.kill(gone, signal.SIGKILL)
