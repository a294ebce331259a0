"""`make gpu` where there is no GPU: its stages name what is there, a failure hides nothing, and it refuses in a sentence."""

from __future__ import annotations

import importlib.util
import json
import sys
import time
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch

from cuda_ext.bench import record, table
from cuda_ext.gpu import __main__ as command
from cuda_ext.gpu import stages
from cuda_ext.gpu.stages import STAGES, Command, run_commands, run_stage

ROOT = Path(__file__).resolve().parents[2]


def python(code: str, limit_s: float = 60.0) -> Command:
    return Command((sys.executable, "-c", code), limit_s)


def test_every_command_of_a_stage_runs_whatever_became_of_the_one_before() -> None:
    failing = python("import sys; print('first'); sys.exit(3)")
    outcome = run_commands([failing, Command(("no-such-tool",), 5.0), python("print('last')")])
    assert not outcome["ok"]
    assert [line for line in outcome["said"].splitlines() if not line.startswith("$")] == [
        "first", "[exit code 3]", "no-such-tool is not on PATH", "[exit code 127]", "last",
    ]  # fmt: skip
    assert run_commands([python("print('well')")])["ok"]


def test_a_command_that_meets_its_deadline_says_so_and_what_it_had_said() -> None:
    outcome = run_commands([Command(("sh", "-c", "echo begun; sleep 60 & wait"), 1.0)])
    assert not outcome["ok"]
    assert outcome["said"].splitlines()[1:] == ["begun", "[ended at its deadline of 1 s]"]


def test_where_time_is_short_a_command_has_what_is_left_and_the_next_is_not_begun() -> None:
    slow = Command(("sh", "-c", "echo begun; sleep 60"), 60.0)
    outcome = run_commands([slow, python("print('never')")], until_s=time.monotonic() + 1.0)
    assert not outcome["ok"]
    kept = [line for line in outcome["said"].splitlines() if line and not line.startswith("$")]
    assert kept == ["begun", "[ended at its deadline of 1 s]", "[not begun: no time is left]"]


@pytest.mark.parametrize("word", ["0", "-1", "nan"])
def test_a_time_that_is_none_ends_with_2(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        command.main(["--minutes", word])
    assert left.value.code == 2
    assert f"--minutes {word}: must be above 0" in capsys.readouterr().err


def test_what_a_record_says_names_no_place_of_the_machine() -> None:
    outcome = run_commands([python("import os; print(os.getcwd() + '/x', os.path.expanduser('~/y'))")])
    assert outcome["said"].splitlines()[1] == "./x ~/y"


def test_a_command_that_keeps_figures_is_told_where(tmp_path: Path) -> None:
    printing = Command((sys.executable, "-c", "import sys; print(sys.argv[1])", stages.RECORD), 60.0)
    outcome = run_commands([printing], tmp_path / "x.json")
    assert outcome["said"].splitlines()[1] == str(tmp_path / "x.json")
    (kernels,) = STAGES["kernels"]
    assert kernels.argv[-2:] == ("--record", stages.RECORD), "the record of this run, and not of the day on which it ends"


def test_what_the_stages_name_is_there() -> None:
    words = [word for commands in STAGES.values() for command in commands for word in command.argv]
    assert {word for word in words if word.startswith("tests/")} == {"tests/gpu", "tests/cuda_ext"}
    for word in words:
        if word.startswith("tests"):
            path = ROOT / word.replace(".", "/")
            assert path.is_dir() or path.with_suffix(".py").is_file(), word
    page = table.README.read_text(encoding="utf-8")
    assert f"some of it: {' '.join(STAGES)}" in page


def test_without_a_gpu_it_says_so(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert command.main([]) == 1
    assert capsys.readouterr().err.startswith(
        f"cuda_ext.gpu: no GPU is visible to torch {torch.__version__}; `python -m cuda_ext --check`"
    )
    with pytest.raises(SystemExit) as left:
        command.main(["levitation"])
    assert left.value.code == 2
    assert "'levitation' is no stage; there are build, tests" in capsys.readouterr().err


def test_each_stage_is_kept_when_it_ends(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    machine = {"device": "NVIDIA Test", "kind": "cuda", "torch": "2.11", "python": "3.12"}
    results, page, copies = tmp_path / "results", tmp_path / "README.md", tmp_path / "copies"
    page.write_text(f"{table.BEGIN}\n{table.END}")
    stages_before: list[list[str]] = []

    def run(stage: str, *_: object) -> dict[str, Any]:
        (place,) = list(results.glob("*.json")) or [None]
        stages_before.append(sorted(json.loads(place.read_text())["stages"]) if place else [])
        return {"ok": stage != "tests", "seconds": 1.0, "said": "said\n"}

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(record, "describe_machine", lambda _: machine)
    place_of = record.place_of
    monkeypatch.setattr(record, "place_of", lambda machine: place_of(machine, results))
    monkeypatch.setattr(command, "run_stage", run)
    monkeypatch.setattr(table, "README", page)
    monkeypatch.setattr(table, "write_readme", lambda: None)
    assert command.main(["build", "tests", "kernels", "--copy-to", str(copies)]) == 1
    assert stages_before == [[], ["build"], ["build", "tests"]]
    assert "tests      FAILED" in capsys.readouterr().out
    assert sorted(path.suffix for path in copies.iterdir()) == [".json", ".md"]


def test_what_cannot_be_kept_is_said_and_the_next_stage_is_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(30, "Read-only file system", "results")

    monkeypatch.setattr(record, "write", refuse)
    monkeypatch.setattr(command, "run_stage", lambda *_: {"ok": True, "seconds": 1.0, "said": "said\n"})
    assert command.run_all(["build", "tests"], {}, tmp_path / "x.json", None) == 1
    outcome = capsys.readouterr()
    assert outcome.err.count("cuda_ext.gpu: not kept: [Errno 30] Read-only file system: 'results'") == 2
    assert [line.split()[:2] for line in outcome.out.splitlines()[-2:]] == [["build", "ok"], ["tests", "ok"]]


def test_a_stage_whose_modules_are_absent_is_not_run_and_says_what_helps(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(stages.NEEDS, "trainer", ("sys", "no_such_module"))
    outcome = run_stage("trainer", tmp_path)
    assert outcome["ok"] is False
    assert outcome["said"].startswith("not run: this Python has no no_such_module; wheels of them can be given with --wheels")


def test_a_machine_without_the_sanitizer_has_not_failed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(stages.shutil, "which", lambda *_, **__: None)
    outcome = run_stage("sanitizer", tmp_path)
    assert (outcome["ok"], outcome["said"]) == (None, "not run: compute-sanitizer is neither on PATH nor beside nvcc\n")
    monkeypatch.setattr(table, "write_readme", lambda: None)
    assert command.run_all(["sanitizer"], {}, tmp_path / "x.json", None) == 0
    assert "sanitizer  not run" in capsys.readouterr().out


def test_a_tool_of_the_toolkit_is_found_beside_nvcc(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("nvcc", "compute-sanitizer"):
        (tmp_path / "bin" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "bin" / name).touch(mode=0o755)
    monkeypatch.setenv("CUDACXX", str(tmp_path / "bin" / "nvcc"))
    monkeypatch.setenv("NVCC_CCBIN", "g++")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert stages.tool("compute-sanitizer") == str(tmp_path / "bin" / "compute-sanitizer")
    assert stages.tool("no-such-tool") is None


def test_a_folder_without_wheels_ends_with_2(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        command.main(["--wheels", "no_such_folder"])
    assert left.value.code == 2
    assert "--wheels no_such_folder: no *.whl file is there" in capsys.readouterr().err


def test_wheels_are_taken_along_and_not_installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "wheels").mkdir()
    for name, module in (("taken-1.0", "taken_along"), ("pytest-1.0", "pytest")):
        with zipfile.ZipFile(tmp_path / "wheels" / f"{name}-py3-none-any.whl", "w") as archive:
            archive.writestr(f"{module}.py", "word = 'here'\n")
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv("PYTHONPATH", "/before")
    command.unpack(tmp_path / "wheels", tmp_path / "unpacked")
    assert importlib.util.find_spec("taken_along") is not None
    assert run_commands([python("import taken_along; print(taken_along.word)")])["said"].endswith("\nhere\n")
    assert not (tmp_path / "unpacked" / "pytest.py").exists(), "what is installed stays in use"
