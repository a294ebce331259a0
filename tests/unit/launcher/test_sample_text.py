"""The text of a sample, asked of the trainer's own interpreter: what it says, or nothing, and never late."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from sentinel.launcher.sample_text import CHARS_MAX, show_sample

ARGV = (sys.executable, "-m", "trainer", "--preset", "micro")


def trainer_that(tmp_path: Path, does: str, name: str = "trainer") -> str:
    """A new directory in which `python -m trainer.show` is this program; one written over is told from its bytecode by nothing
    but its size and the second of its writing."""
    package = tmp_path / name
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "show.py").write_text(f"import os, sys, time\n{does}\n")
    return str(tmp_path)


def test_what_the_trainer_shows_is_handed_on(tmp_path: Path) -> None:
    cwd = trainer_that(tmp_path, "print(*sys.argv[1:])")
    said = show_sample(tmp_path / "run", ARGV, cwd, 4, 6001)
    assert said == f"{tmp_path / 'run'} --attempt 4 --sample 6001"
    long = show_sample(tmp_path, ARGV, trainer_that(tmp_path / "long", "print('x' * 100_000)"), 4, 1)
    assert len(long) == CHARS_MAX + 2


@pytest.mark.parametrize(
    "does",
    ["sys.exit(2)", "raise RuntimeError('a bug')", "os.kill(os.getpid(), 9)", "print('late', flush=True); time.sleep(600)"],
)
def test_a_trainer_that_cannot_show_it_is_no_trouble(tmp_path: Path, does: str) -> None:
    assert show_sample(tmp_path, ARGV, trainer_that(tmp_path, does), 4, 1, deadline_s=1.0) == ""


def test_an_installed_trainer_is_asked_by_its_own_name_and_not_in_the_working_directory(tmp_path: Path) -> None:
    argv = (sys.executable, "-P", "-u", "-m", "sentinel_trainer", "--preset", "micro")
    cwd = trainer_that(tmp_path, "print('a folder of the working directory')", "sentinel_trainer")
    assert show_sample(tmp_path, argv, cwd, 4, 1) == ""


def test_another_trainer_is_not_asked(tmp_path: Path) -> None:
    cwd = trainer_that(tmp_path, "print('asked')")
    for argv in ((sys.executable, "train.py"), ("/no/such/program", "-m", "trainer"), ()):
        assert show_sample(tmp_path, argv, cwd, 4, 1) == ""


def test_it_is_asked_without_what_only_the_supervisor_should_know(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUR_CHAT", "https://chat.example/services/secret")
    monkeypatch.setenv("SENTINEL_PAGERDUTY_KEY", "k" * 32)
    monkeypatch.setenv("PYTHONHASHSEED", "7")
    said = show_sample(tmp_path, ARGV, trainer_that(tmp_path, "print(*os.environ)"), 4, 1).split()
    assert {"PATH", "PYTHONHASHSEED"} <= set(said)
    assert not {"OUR_CHAT", "SENTINEL_PAGERDUTY_KEY"} & set(said)
