"""deploy/slurm/login.sh beside commands that lie and die, and under signals: the job is given back, no chain goes on that was
asked to end, and nothing that trains is ended for the supervisor's sake."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.docs.test_deploy_files import ALLOCATED, login_call, run_login


@contextmanager
def started(folder: Path, sentinel: str, **more: str) -> Iterator[subprocess.Popen[str]]:
    """login.sh in a process group of its own, which is at the place of the stand-in that writes into `ready`."""
    os.mkfifo(folder / "ready")
    words, variables = login_call(folder, sentinel, **more)
    with subprocess.Popen(
        words, env=variables, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, process_group=0
    ) as script:
        try:
            (folder / "ready").read_text(encoding="utf-8")
            yield script
        finally:
            script.kill()


def ends(script: subprocess.Popen[str], folder: Path) -> tuple[int, list[str]]:
    """Its status, and what it asked of Slurm."""
    script.communicate(timeout=20)
    return script.returncode, (folder / "noted").read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("word", ["Pending", "Granted"])
def test_a_signal_ends_the_wait_for_a_job_and_what_it_may_have_got_is_given_back(tmp_path: Path, number: int, word: str) -> None:
    waits = f"trap 'kill $!; exit 1' TERM; sleep 60 & echo 'salloc: {word} job allocation 17'; echo >{tmp_path}/ready; wait\n"
    with started(tmp_path, "exit 0\n", salloc=waits) as script:
        script.send_signal(number)
        assert ends(script, tmp_path) == (130, ["scancel 17"])


def test_another_job_is_waited_for_already_when_one_is_asked_for_by_hand(tmp_path: Path) -> None:
    granted = f"echo >{tmp_path}/ready; read -r _ <{tmp_path}/go; echo 'salloc: Granted job allocation 17'\n"
    os.mkfifo(tmp_path / "go")
    with started(tmp_path, "exit 3\n", salloc=granted) as script:
        script.send_signal(signal.SIGUSR1)
        (tmp_path / "go").write_text("\n", encoding="utf-8")
        assert ends(script, tmp_path) == (3, ["scancel 17"])


def test_a_job_that_salloc_got_and_died_with_is_given_back(tmp_path: Path) -> None:
    dies = 'echo "salloc: Granted job allocation 17" >&2; kill -9 $$\n'
    status, _, noted = run_login(tmp_path, f"touch {tmp_path}/begun\n", salloc=dies)
    assert (status, noted) == (1, ["scancel 17"])
    assert not (tmp_path / "begun").exists()


@pytest.mark.parametrize("leaves", [75, 138])
def test_no_other_job_is_asked_for_where_an_end_was_asked_for_as_sentinel_left(tmp_path: Path, leaves: int) -> None:
    status, _, noted = run_login(tmp_path, f"trap '' TERM; kill -TERM $PPID; exit {leaves}\n")
    assert (status, noted) == (130, [ALLOCATED, "scancel 17"])


def test_control_c_reaches_sentinel_once(tmp_path: Path) -> None:
    """The second asks it not to wait for a checkpoint. A terminal sends it to the whole group."""
    program = (
        "import os, signal, sys, time\n"
        "came = []\n"
        "signal.signal(signal.SIGINT, lambda *_: came.append(1))\n"
        "open(sys.argv[1], 'w').close()\n"
        "while not came: time.sleep(0.01)\n"
        "time.sleep(0.2); os._exit(len(came))\n"
    )
    (tmp_path / "counts.py").write_text(program, encoding="utf-8")
    with started(tmp_path, f"exec {sys.executable} {tmp_path}/counts.py {tmp_path}/ready\n") as script:
        os.killpg(script.pid, signal.SIGINT)
        assert ends(script, tmp_path) == (1, [ALLOCATED, "scancel 17"])


def test_a_terminal_that_goes_away_ends_nothing(tmp_path: Path) -> None:
    waits = f"echo >{tmp_path}/ready; read -r _ <{tmp_path}/go; exit 3\n"
    os.mkfifo(tmp_path / "go")
    with started(tmp_path, waits) as script:
        script.send_signal(signal.SIGHUP)
        (tmp_path / "go").write_text("\n", encoding="utf-8")
        assert ends(script, tmp_path) == (3, [ALLOCATED, "scancel 17"])


def test_what_trains_is_kept_when_sentinel_is_killed_and_it_is_started_again_in_the_same_job(tmp_path: Path) -> None:
    killed = f"echo $SLURM_JOB_ID >>{tmp_path}/jobs; [ $(wc -l <{tmp_path}/jobs) -lt 3 ] && kill -9 $$; exit 0\n"
    status, _, noted = run_login(tmp_path, killed)
    assert (status, noted) == (0, [ALLOCATED, "scancel 17"])
    assert (tmp_path / "jobs").read_text(encoding="utf-8").split() == ["17"] * 3


def test_a_sentinel_that_is_killed_again_and_again_is_started_six_times(tmp_path: Path) -> None:
    status, _, noted = run_login(tmp_path, f"echo x >>{tmp_path}/starts; kill -9 $$\n")
    assert (status, noted) == (137, [ALLOCATED, "scancel 17"])
    assert (tmp_path / "starts").read_text(encoding="utf-8").split() == ["x"] * 6


# Notes how long it was asked to sleep, and does not.
SLEEPS = 'case $1 in 0.0*) exec /bin/sleep $1;; esac; echo "$1" >>{folder}/slept\n'


def test_the_chain_goes_on_where_a_later_job_is_refused_for_a_while(tmp_path: Path) -> None:
    """A controller that is started anew is no end of a run of a month."""
    noted = tmp_path / "noted"
    refuses = (
        f'echo "salloc $*" >>{noted}; n=$(grep -c salloc {noted})\n'
        '[ $n = 2 ] && echo "salloc: error: Unable to contact" && exit 1\n'
        "echo salloc: Granted job allocation $((16 + n))\n"
    )
    leaves = "[ $SLURM_JOB_ID = 17 ] && exit 75; exit 0\n"
    sleeps = SLEEPS.format(folder=tmp_path)
    status, _, said = run_login(tmp_path, leaves, salloc=refuses, sleep=sleeps, srun="exec /bin/sleep 60\n")
    assert (status, said) == (0, [ALLOCATED, "scancel 17", ALLOCATED, ALLOCATED, "scancel 19"])


def test_jobs_that_come_to_nothing_are_asked_for_more_and_more_slowly(tmp_path: Path) -> None:
    """A time limit that leaves no time to train, for one: no allocation after the other without a pause."""
    sleeps = SLEEPS.format(folder=tmp_path)
    leaves = f"echo x >>{tmp_path}/starts; [ $(wc -l <{tmp_path}/starts) -lt 8 ] && exit 75; exit 0\n"
    status, printed, _ = run_login(tmp_path, leaves, sleep=sleeps, srun="exec /bin/sleep 60\n")
    assert status == 0
    assert (tmp_path / "slept").read_text(encoding="utf-8").split() == ["5", "30", "120", "600", "600", "600"]
    assert "the next job is asked for in 5 s: 2 in a row came to nothing" in printed


def test_a_controller_that_does_not_hear_of_the_return_is_told_again(tmp_path: Path) -> None:
    noted = tmp_path / "noted"
    deaf = f'echo "scancel $*" >>{noted}; [ $(grep -c scancel {noted}) -lt 3 ] && exit 1; exit 0\n'
    status, _, said = run_login(tmp_path, "exit 0\n", scancel=deaf)
    assert (status, said) == (0, [ALLOCATED, *["scancel 17"] * 3])


def test_a_job_that_cannot_be_given_back_is_told(tmp_path: Path) -> None:
    status, printed, _ = run_login(tmp_path, "exit 0\n", scancel="echo 'Unable to contact'; exit 1\n")
    assert status == 0
    assert "job 17 is NOT given back: Unable to contact; do it by hand: scancel 17" in printed
