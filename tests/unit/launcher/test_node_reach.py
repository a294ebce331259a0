"""How a check reaches nodes: a command here, and a step of one task on each node of a Slurm job."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from sentinel.actions.node_check import check_nodes
from sentinel.client.machine import read_host
from sentinel.launcher import asking
from sentinel.launcher.asking import Reply
from sentinel.launcher.node_reach import LocalReach
from sentinel.launcher.registry import LAUNCHERS, LaunchPlace, open_reach
from sentinel.launcher.slurm.reach import SlurmReach, check_words, judge_group, read_check
from sentinel.launcher.slurm.settings import SlurmSettings
from sentinel.launcher.store_port import PORTS
from sentinel.model.actions import CheckNodes
from sentinel.model.node_checks import NodeReply
from sentinel.plan.node_check import judge_replies
from tests.unit.launcher.slurm_double import JOB, SlurmDouble

HERE = read_host()


def sh(script: str) -> tuple[str, ...]:
    return ("sh", "-c", script)


def asked(*command: str, timeout_s: float = 20.0, **more: object) -> CheckNodes:
    return CheckNodes("check/launch/1/1", "launch", command, timeout_s, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("command", "timeout_s", "verdict", "reason"),
    [
        (("true",), 20.0, "healthy", ""),
        (sh("echo ECC on GPU 3; exit 1"), 20.0, "sick", "ECC on GPU 3"),
        (sh("echo broken >&2; exit 1"), 20.0, "unknown", "broken"),
        (sh("exit 3"), 20.0, "unknown", "left with 3"),
        (("no-such-program-at-all",), 20.0, "unknown", "cannot be run"),
        (sh("exec sleep 100"), 0.05, "unknown", "did not end within 0.05 s"),
    ],
)
def test_here_the_command_itself_is_run(command: tuple[str, ...], timeout_s: float, verdict: str, reason: str) -> None:
    found = check_nodes(LocalReach(frozenset()), asked(*command, timeout_s=timeout_s))
    assert found.nodes == (HERE,)
    words = [("healthy", "") for _ in found.healthy]
    words += [("sick", word.reason) for word in found.sick] + [("unknown", word.reason) for word in found.unknown]
    assert [(called, reason in word) for called, word in words] == [(verdict, True)]


def test_the_command_learns_its_node_and_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PAGER_KEY", "hunter2")
    command = sh('test "$SENTINEL_NODE" = "$1" && test -z "$PAGER_KEY"')
    reach = LocalReach(frozenset({"PAGER_KEY"}))
    assert reach.run([HERE], [*command, "sh", HERE], 20.0)[HERE].code == 0


@pytest.mark.parametrize("where", ["", " >&2"])
def test_a_check_that_prints_without_an_end_is_ended_and_unknown(monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    """It would fill the disk for as long as it may take."""
    monkeypatch.setattr(asking, "FLOOD_BYTES", 1 << 16)
    reply = LocalReach(frozenset()).run([HERE], sh(f"exec yes{where}"), 60.0)[HERE]
    assert reply.code == -signal.SIGTERM
    assert judge_replies([HERE], {HERE: reply}).unknown


@pytest.mark.parametrize("end", ["exit 0", "exec sleep 300"])
def test_a_check_leaves_no_process_behind(tmp_path: Path, end: str) -> None:
    """Whether it ends by itself or is ended. A pipe that nobody holds open any more has an end."""
    os.mkfifo(tmp_path / "held")
    held = os.open(tmp_path / "held", os.O_RDONLY | os.O_NONBLOCK)
    LocalReach(frozenset()).run([HERE], sh(f"exec 3>{tmp_path}/held; (trap '' TERM; exec sleep 300) & {end}"), 0.3)
    assert select.select([held], [], [], 10.0)[0]
    assert os.read(held, 1) == b""
    os.close(held)


def test_another_machine_is_out_of_reach_here() -> None:
    found = check_nodes(LocalReach(frozenset()), CheckNodes("check/readmit/a", "readmit", ("true",), 5.0, ("elsewhere",)))
    (word,) = found.unknown
    assert "reaches no other machine" in word.reason


def test_a_node_that_was_checked_for_this_launch_is_not_checked_again() -> None:
    found = check_nodes(LocalReach(frozenset()), asked("false", known=(HERE,)))
    assert found.nodes == ()


@pytest.mark.parametrize("reach", [row.reach for row in LAUNCHERS if isinstance(row.reach, str)])
def test_a_launcher_that_reaches_no_node_says_what_to_do_instead(reach: str) -> None:
    found = check_nodes(reach, asked("true", nodes=("n1",)))
    assert ("docs/node-checks.md" in found.trouble, [word.node for word in found.unknown], found.healthy) == (True, ["n1"], ())


def test_the_launchers_that_reach_nodes() -> None:
    assert isinstance(open_reach("local", {}, LaunchPlace("run")), LocalReach)
    assert isinstance(open_reach("slurm", {}, LaunchPlace("run")), SlurmReach)


# Slurm.


class CheckedNodes(SlurmDouble):
    """Runs what the step runs, one after the other, as the task of each node that answers."""

    def check(self, job: str, nodes: Sequence[str], words: Sequence[str], timeout_s: float) -> Reply:
        assert (job, list(words[:2])) == (JOB, ["--time", "2"]), timeout_s
        lines = []
        for node in nodes:
            if node not in self.silent:
                environment = {**os.environ, "SLURMD_NODENAME": node, "SLURM_PROCID": "1", "SLURM_STEP_NUM_TASKS": "3"}
                done = subprocess.run(words[2:], env=environment, capture_output=True, text=True, check=False)
                lines.append(done.stdout)
        return Reply(None if self.silent else 0, "".join(lines))


def reach_of(double: SlurmDouble, nodes: int = 3, **settings: str) -> SlurmReach:
    environ = {"SLURM_JOB_ID": JOB, "SLURM_JOB_NUM_NODES": str(nodes)}
    return SlurmReach(SlurmSettings(**settings), calls=double, environ=environ)


def test_those_take_part_that_the_launcher_would_take() -> None:
    double = CheckedNodes()
    nodes = tuple(double.job_nodes)
    reach = reach_of(double, len(nodes), spares="1")
    assert reach.participants(()) == nodes[:-1]
    assert reach.participants((nodes[0],)) == nodes[1:]
    double.is_deaf = True
    assert isinstance(reach.participants(()), str)
    found = check_nodes(reach, asked("true"))
    assert found.trouble.startswith("which nodes will take part is not known: ")


def test_each_node_answers_for_itself_and_a_silent_one_is_unknown() -> None:
    double = CheckedNodes()
    first, second, third = double.job_nodes[:3]
    double.silent = {third}
    script = f'if [ "$SENTINEL_NODE" = {second} ]; then printf "two|\\nlines"; exit 1; fi'
    found = reach_of(double).run([first, second, third], sh(script), 60.0)
    assert found[first] == NodeReply(0, "")
    assert found[second] == NodeReply(1, "two  lines")
    assert (found[third].code, "did not answer within 60 s" in found[third].trouble) == (None, True)


def test_the_tasks_know_each_other_as_torch_distributed_does() -> None:
    double = CheckedNodes()
    script = 'echo "$RANK/$WORLD_SIZE/$LOCAL_RANK/$MASTER_ADDR/$MASTER_PORT"; exit 1'
    reply = reach_of(double).run(double.job_nodes[:1], sh(script), 60.0)[double.job_nodes[0]]
    *place, port = reply.output.split("/")
    assert place == ["1", "3", "0", double.job_nodes[0]]
    assert int(port) in PORTS


def test_a_long_reason_stays_a_line_that_srun_hands_on_whole() -> None:
    words = check_words("n1", [sys.executable, "-c", "print('x' * 5000); raise SystemExit(1)"], 30.0)
    done = subprocess.run(
        words[2:], env={**os.environ, "SLURMD_NODENAME": "n1"}, capture_output=True, text=True, check=False
    )
    assert len(done.stdout) < 1024
    assert read_check(done.stdout)["n1"].code == 1


ENDS = {"exit 0": 0, "exit 1": 1, "kill -9 $$": 137, "echo 0; exit 1": 1, "printf 'status=0\n'; exit 1": 1}


def on_a_node(script: str, limit: str = "unlimited") -> dict[str, NodeReply]:
    """What the task of a check prints there, whose shell has so many KiB."""
    words = ["sh", "-c", f'ulimit -v {limit}; exec "$@"', "sh", *check_words("n1", sh(script), 30.0)[2:]]
    done = subprocess.run(words, env={**os.environ, "SLURMD_NODENAME": "n1"}, capture_output=True, text=True, check=False)
    assert len(done.stdout) < 1024
    return read_check(done.stdout)


@pytest.mark.parametrize(("end", "code"), ENDS.items())
@pytest.mark.parametrize("printed", [0, 65_000])
def test_the_status_of_a_check_is_its_own_whatever_it_prints(end: str, code: int, printed: int) -> None:
    found = on_a_node(f"echo reason; head -c {printed} /dev/zero | tr '\\0' x; {end}")["n1"]
    assert (found.code, found.output[:6]) == (code, "reason")


def test_the_shell_on_a_node_does_not_hold_all_that_a_check_prints() -> None:
    """It has 40 MB: what it holds it holds beside the ranks."""
    found = on_a_node("echo reason; head -c 60000000 /dev/zero | tr '\\0' x; exit 1", limit="40000")["n1"]
    assert (found.code, found.output[:7]) == (1, "reason ")


@pytest.mark.parametrize("printed", range(65_522, 65_538, 3))
def test_a_status_that_is_cut_in_two_is_none(printed: int) -> None:
    """130 is not 0."""
    assert on_a_node(f"head -c {printed} /dev/zero | tr '\\0' x; exit 130").get("n1", NodeReply(130)).code == 130


@pytest.mark.parametrize(
    "output", ["", "sentinel-check|n1|", "sentinel-check|n1|x|words", "sentinel-check||0|", "srun: error: n1: task 0: Exited"]
)
def test_what_is_no_answer_is_none(output: str) -> None:
    assert read_check(output) == {}


def test_a_refused_step_leaves_every_node_unknown_in_the_words_of_srun() -> None:
    found = judge_group(["n1", "n2"], Reply(1, "", "srun: error: Requested nodes are busy"), 60.0)
    assert [reply.code for reply in found.values()] == [None, None]
    assert "Requested nodes are busy" in found["n1"].trouble
