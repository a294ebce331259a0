"""Which commands can be started ahead, and as what; the rest is refused with its reason."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from sentinel.launcher.checks import remark_on_warm
from sentinel.launcher.warm_command import NotWarm, agent_variables, read_command

AGENT = (sys.executable, "-m", "torch.distributed.run")


def test_a_module_under_torchrun_on_one_node(tmp_path: Path) -> None:
    words = ("env", "A=1", "B=", *AGENT, "--standalone", "--local-addr", "127.0.0.1", "--nproc_per_node=2", "--max-restarts", "0")
    found = read_command((*words, "-m", "trainer", "--preset", "micro"), str(tmp_path))
    assert (found.ranks, found.kind, found.name, found.arguments) == (2, "module", "trainer", ("--preset", "micro"))
    assert (found.python, found.flags, found.variables) == (sys.executable, ("-u",), (("A", "1"), ("B", "")))


def test_a_whole_command_under_torchrun(tmp_path: Path) -> None:
    found = read_command((*AGENT, "--nproc-per-node", "1", "--no-python", sys.executable, "-P", "-m", "t"), str(tmp_path))
    assert (found.ranks, found.flags, found.kind, found.name) == (1, ("-P",), "module", "t")


def test_torchrun_by_its_own_first_line(tmp_path: Path) -> None:
    script = tmp_path / "torchrun"
    script.write_text(f"#!{sys.executable}\n")
    script.chmod(0o755)
    found = read_command((str(script), "--nproc-per-node", "4", "train.py", "-x"), str(tmp_path))
    assert (found.python, found.ranks, found.kind) == (sys.executable, 4, "script")
    assert (found.name, found.arguments) == ("train.py", ("-x",))


def test_a_python_alone_is_told_no_rank(tmp_path: Path) -> None:
    found = read_command((sys.executable, "-u", "-O", "train.py", "--nproc-per-node", "3"), str(tmp_path))
    assert (found.ranks, found.flags, found.arguments) == (None, ("-u", "-O"), ("--nproc-per-node", "3"))


def test_arguments_are_no_part_of_the_shape(tmp_path: Path) -> None:
    one, other, else_ = (read_command((sys.executable, *words), str(tmp_path)) for words in (["a.py", "1"], ["a.py"], ["b.py"]))
    assert one.shape == other.shape != else_.shape


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ((*AGENT, "--nnodes", "2", "t.py"), "several nodes"),
        ((*AGENT, "--max-restarts", "3", "t.py"), "restart its ranks"),
        ((*AGENT, "--nproc-per-node", "gpu", "t.py"), "gpu: is no number of ranks"),
        ((*AGENT, "--tee", "3", "t.py"), "option --tee"),
        ((*AGENT, "--nproc-per-node", "2"), "nothing stands where"),
        ((*AGENT, "--no-python"), "no program"),
        ((sys.executable, "-c", "pass"), "-c stands where"),
        ((sys.executable, "-X", "dev", "t.py"), "-X stands where"),
        (("sh", "train.sh"), "sh is neither"),
        (("env", "-i", "t"), "-i is neither"),
        (("env", "A=1"), "no program"),
        (("torchrun-that-is-not-there", "t.py"), "is neither"),
    ],
)  # fmt: skip
def test_what_it_does_not_know_for_certain_is_refused(words: tuple[str, ...], why: str) -> None:
    with pytest.raises(NotWarm, match=why):
        read_command(words, os.getcwd())


def test_threads_are_set_as_torchrun_sets_them() -> None:
    assert agent_variables(2, {})["OMP_NUM_THREADS"] == "1"
    assert "OMP_NUM_THREADS" not in agent_variables(2, {"OMP_NUM_THREADS": "5"}) | agent_variables(1, {})


@pytest.mark.parametrize(
    ("options", "command", "is_under_profile", "why"),
    [
        ({}, ("sh", "-c", "true"), False, ""),
        ({"warm": "off"}, ("sh", "-c", "true"), True, ""),
        ({"warm": "on"}, (sys.executable, "train.py"), False, ""),
        ({"warm": "on"}, ("sh", "-c", "true"), False, "sh is neither a Python nor torchrun"),
        ({"warm": "on"}, (*AGENT, "--nnodes", "2", "train.py"), False, "it runs on several nodes"),
        ({"warm": "on"}, (*AGENT, "--max-restarts", "3", "train.py"), False, "torchrun is to restart its ranks itself"),
        ({"warm": "on"}, (sys.executable, "train.py"), True, "a trainer under --trainer is started by its profile"),
    ],
)
def test_a_reserve_that_can_never_be_is_told_before_the_first_launch(
    options: dict[str, str], command: tuple[str, ...], is_under_profile: bool, why: str
) -> None:
    told = remark_on_warm(options, command, "/", is_under_profile=is_under_profile)
    assert told.startswith("--warm: every launch of this run will be a cold one: ") == bool(why)
    assert why in told
