"""`make gpu` where there is no GPU: its stages name what is there, a failure hides nothing, and it refuses in a sentence."""

from __future__ import annotations

import importlib.util
import json
import math
import os
import signal
import sys
import time
import zipfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch

from cuda_ext.bench import __main__ as bench_command
from cuda_ext.bench import record, table
from cuda_ext.gpu import __main__ as command
from cuda_ext.gpu import needs, stages, values
from cuda_ext.gpu.stages import EMULATED, STAGES, Command, run_commands, run_stage
from cuda_ext.sources import BuildError

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
    benches = [one for name in ("values", "kernels", "trainer", "peers") for one in STAGES[name]]
    for one in benches:
        assert one.argv[one.argv.index("--record") + 1] == stages.RECORD, "of this run, not of the day on which it ends"


def test_what_the_stages_name_is_there() -> None:
    words = [word for commands in STAGES.values() for command in commands for word in command.argv]
    live = {str(path.relative_to(ROOT)) for path in (ROOT / "tests/gpu/live").glob("test_*.py")}
    files = live | {EMULATED}
    assert {word for word in words if word.startswith("tests/")} == {"tests/gpu", "tests/gpu/live", "tests/cuda_ext"} | files
    for word in words:
        if word in files:
            assert (ROOT / word).is_file()
        elif word.startswith("tests") or (word.startswith("cuda_ext.") and word != "cuda_ext.bench"):
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
    assert "'levitation' is no stage; there are build, values, kernels" in capsys.readouterr().err


def test_each_stage_is_kept_when_it_ends(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    machine = {"device": "NVIDIA Test", "kind": "cuda", "torch": "2.11", "python": "3.12"}
    results, page, copies = tmp_path / "results", tmp_path / "README.md", tmp_path / "copies"
    page.write_text(f"{table.BEGIN}\n{table.END}")
    stages_before: list[dict[str, str]] = []

    def run(stage: str, *_: object) -> dict[str, Any]:
        (place,) = results.glob("*.json")
        stages_before.append({name: one["said"] for name, one in json.loads(place.read_text())["stages"].items()})
        return {"ok": stage != "tests", "seconds": 1.0, "said": "said\n"}

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(record, "describe_machine", lambda _: machine)
    place_of = record.place_of
    monkeypatch.setattr(record, "place_of", lambda machine: place_of(machine, results))
    monkeypatch.setattr(command, "run_stage", run)
    monkeypatch.setattr(command, "missing", lambda: {"nvcc": "no build"})
    monkeypatch.setattr(table, "README", page)
    monkeypatch.setattr(table, "write_readme", lambda: None)
    assert command.main(["build", "tests", "kernels", "--copy-to", str(copies)]) == 1
    begun, said = "[begun]\n", "said\n"
    first, second, third = stages_before
    assert first == {"build": begun}
    assert second == {"build": said} or second == {"build": said, "tests": begun}
    assert third["build"] == third["tests"] == said
    assert json.loads(next(copies.glob("*.json")).read_text())["missing"] == {"nvcc": "no build"}
    printed = capsys.readouterr().out
    assert "tests      FAILED" in printed
    assert printed.index("missing: nvcc: no build") < printed.index("== build"), "before the first minute is spent"
    assert sorted(path.suffix for path in copies.iterdir()) == [".json", ".md"]


def test_what_cannot_be_kept_is_said_and_the_next_stage_is_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(30, "Read-only file system", "results")

    monkeypatch.setattr(record, "write", refuse)
    monkeypatch.setattr(command, "run_stage", lambda *_: {"ok": True, "seconds": 1.0, "said": "said\n"})
    assert command.Sitting({}, tmp_path / "x.json").run(["build", "tests"]) == 1
    outcome = capsys.readouterr()
    assert "cuda_ext.gpu: not kept: [Errno 30] Read-only file system: 'results'" in outcome.err
    assert [line.split()[:2] for line in outcome.out.splitlines()[-2:]] == [["build", "ok"], ["tests", "ok"]]


def test_a_stage_whose_modules_are_absent_is_not_run_and_says_what_helps(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(needs.MODULES, "trainer", ("sys", "no_such_module"))
    outcome = run_stage("trainer", tmp_path, math.inf, 1.0)
    assert outcome["ok"] is False
    assert outcome["said"].startswith("not run: this Python has no no_such_module; wheels of them can be given with --wheels")


def test_a_machine_without_the_sanitizer_has_not_failed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(needs.shutil, "which", lambda *_, **__: None)
    outcome = run_stage("sanitizer", tmp_path, math.inf, 1.0)
    assert (outcome["ok"], outcome["said"]) == (None, "not run: compute-sanitizer is neither on PATH nor beside nvcc\n")
    monkeypatch.setattr(table, "write_readme", lambda: None)
    assert command.Sitting({}, tmp_path / "x.json").run(["sanitizer"]) == 0
    assert "sanitizer  not run" in capsys.readouterr().out


def test_a_tool_of_the_toolkit_is_found_beside_nvcc(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("nvcc", "compute-sanitizer"):
        (tmp_path / "bin" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "bin" / name).touch(mode=0o755)
    monkeypatch.setenv("CUDACXX", str(tmp_path / "bin" / "nvcc"))
    monkeypatch.setenv("NVCC_CCBIN", "g++")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert needs.tool("compute-sanitizer") == str(tmp_path / "bin" / "compute-sanitizer")
    assert needs.tool("no-such-tool") is None


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


def test_the_order_is_that_of_worth() -> None:
    """A stop at any minute leaves the most valuable numbers."""
    assert list(STAGES) == ["build", "values", "kernels", "trainer", "tests", "parity", "runs", "peers", "sanitizer"]
    alone, peers = STAGES["kernels"][0].argv, STAGES["peers"][0].argv
    assert "--alone" in alone
    assert "--alone" not in peers
    assert {op for op, word in zip(alone[1:], alone, strict=False) if word == "--op"} == set(bench_command.benched())


def test_parity_runs_the_emulated_kernels_alone_and_tells_what_fails_first() -> None:
    """One that ended the process took the verdicts of all behind it along, and the reasons of those before (H200, 2026-11-27)."""
    others, emulated = (one.argv for one in STAGES["parity"] if "pytest" in one.argv)
    assert others[others.index("--ignore") + 1] == EMULATED
    assert emulated[-1] == EMULATED
    assert emulated[emulated.index("--maxfail") + 1] == "1"


def test_the_trainer_takes_the_words_of_its_stage() -> None:
    """A setting that is none would cost a minute of a borrowed machine."""
    for module in ("pydantic", "yamlcore"):  # where these tests run with torch alone, as a stage
        pytest.importorskip(module)
    from trainer.command_line import parse_arguments

    programs = [one.argv for one in STAGES["trainer"] if "--preset" in one.argv]
    assert len(programs) >= 5
    for argv in programs:
        config = parse_arguments([str(word) for word in argv[argv.index("--preset") :]]).config
        assert (config.data.batch_size, config.parallel.micro_batch, config.parallel.compile) == (64, 64, True)


def test_nine_minutes_are_enough_for_what_comes_first() -> None:
    """Each stuck to its deadline: our kernels' figures and the trainer's first ones are there all the same."""
    first = [one.limit_s for name in ("build", "values", "kernels") for one in STAGES[name]]
    assert sum(first) + STAGES["trainer"][0].limit_s <= 9 * 60


def test_a_long_sitting_has_patience_with_what_is_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[float] = []
    monkeypatch.setattr(stages, "run", lambda command, place, limit_s, on_output: asked.append(limit_s) or (0, ""))
    for patience, until_s in ((1.0, math.inf), (5.0, math.inf), (5.0, time.monotonic() + 30.0)):
        run_commands([Command(("x",), 10.0)], None, until_s, patience)
    assert asked == [10.0, 50.0, pytest.approx(30.0, abs=1.0)]


def test_what_a_command_says_is_told_while_it_runs() -> None:
    """And what became of the commands before it."""
    heard: list[dict[str, Any]] = []
    slow = python("import sys; print('one', flush=True); print('two'); sys.exit(4)")
    outcome = run_commands([python("print('first')"), slow], tell=heard.append)
    running = "[it was still running when this was written]"
    assert all(not one["ok"] and one["said"].rstrip().endswith(running) for one in heard)
    assert "first" in heard[0]["said"]
    assert "first" in heard[-1]["said"]
    assert "one" in heard[-1]["said"]
    assert outcome["said"].rstrip().endswith("[exit code 4]")
    assert running not in outcome["said"]


def test_a_character_that_comes_in_two_pieces_is_one() -> None:
    half = "import os, sys; os.write(1, b'\\xc3'); os.write(1, b'\\xa4'); os.write(1, b'\\xff')"
    assert run_commands([python(half)])["said"].splitlines()[1] == "ä\N{REPLACEMENT CHARACTER}"


@pytest.mark.parametrize("stage", list(STAGES))
def test_killed_in_any_stage_it_leaves_what_it_had(stage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """kill -9, with a faked GPU: every stage speaks, and this one then waits for ever. Record and copy are whole; the stages
    before have their outcome, and the one that ran what it had said."""
    place, copies, page = tmp_path / "2026-11-30-nvidia-test.json", tmp_path / "copies", tmp_path / "README.md"
    page.write_text(f"{table.BEGIN}\n{table.END}\n", encoding="utf-8")
    machine = {"device": "NVIDIA Test", "kind": "cuda", "torch": "2.11", "python": "3.12", "compiler": "nvcc"}
    for where, name, value in (
        (torch.cuda, "is_available", lambda: True),
        (record, "describe_machine", lambda _: machine),
        (record, "place_of", lambda _: place),
        (table, "README", page),
        (table, "write_readme", lambda: None),
        (stages, "absent_modules", lambda _: []),
        (stages, "tool", lambda name: name),
        (command, "missing", dict),
    ):
        monkeypatch.setattr(where, name, value)
    for name in STAGES:
        speaks = "echo half a result, of $$" + ("; exec sleep 300" if name == stage else "")
        monkeypatch.setitem(STAGES, name, (Command(("/bin/sh", "-c", speaks), 300.0),))
    of_stage = forked_until_it_is_kept(lambda: command.main(["--copy-to", str(copies)]), copies / place.name, stage)
    os.kill(of_stage, signal.SIGKILL)
    stages_before = list(STAGES)[: list(STAGES).index(stage)]
    for path in (place, copies / place.name):
        kept = json.loads(path.read_text(encoding="utf-8"))
        assert list(kept["stages"]) == [*stages_before, stage]
        assert [one["ok"] for one in kept["stages"].values()] == [*(True for _ in stages_before), False]
        assert all("half a result" in one["said"] for one in kept["stages"].values())
        assert kept["stages"][stage]["said"].rstrip().endswith("[it was still running when this was written]")
    assert [path.name for path in copies.iterdir() if path.suffix == ".json"] == [place.name]


def forked_until_it_is_kept(sitting: Callable[[], int], place: Path, stage: str) -> int:
    """Runs it in a process of its own, and kills that with SIGKILL when the copy of the record holds what the stage has said. The
    id of the stage's own process."""
    sitting_pid = os.fork()
    if sitting_pid == 0:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sitting()
        os._exit(0)
    try:
        until_s = time.monotonic() + 60.0
        while time.monotonic() < until_s:
            kept = json.loads(place.read_text(encoding="utf-8")) if place.exists() else {"stages": {}}
            _, _, rest = kept["stages"].get(stage, {"said": ""})["said"].rpartition("half a result, of ")
            if rest[:1].isdigit():
                return int(rest.split()[0])
            time.sleep(0.02)
        raise AssertionError(f"{stage}: nothing was kept")
    finally:
        os.kill(sitting_pid, signal.SIGKILL)
        os.waitpid(sitting_pid, 0)


def test_a_stage_and_its_command_keep_both_what_they_write(tmp_path: Path) -> None:
    """Two processes would otherwise each write back what the other had not written yet."""
    file = tmp_path / "2026-11-30-x.json"

    def keep(part: str) -> None:
        for number in range(60):
            record.write(file, {}, {part: {str(number): number}})

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(keep, ("figures", "stages")))
    kept = json.loads(file.read_text())
    assert len(kept["figures"]) == len(kept["stages"]) == 60


def test_what_is_missing_is_found_before_anything_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_compiler(kind: str) -> None:
        raise BuildError(f"no compiler for {kind}\nlast lines")

    monkeypatch.setattr(needs, "find_compiler", no_compiler)
    monkeypatch.setattr(needs.shutil, "which", lambda *_, **__: None)
    monkeypatch.setitem(needs.MODULES, "tests", ("no_such_module",))
    monkeypatch.setitem(needs.MODULES, "runs", ("no_such_module", "sys"))
    found = needs.missing()
    assert found["a compiler for cuda"].endswith("(no compiler for cuda)")
    assert found["no_such_module"] == "not run: tests, runs"
    assert found[needs.SANITIZER] == "not run: sanitizer"
    assert "sys" not in found


def test_the_values_of_our_kernels_are_compared_and_kept(tmp_path: Path, cpu_library: object) -> None:
    file = tmp_path / "2026-11-30-cpu.json"
    assert values.main(["--device", "cpu", "--record", str(file)]) == 0
    kept = json.loads(file.read_text())["values"]
    assert set(kept) == set(values.cases(torch.device("cpu")))
    assert all(outcome["ok"] for outcome in kept.values())


@pytest.mark.parametrize("wrong", ["a value", "a NaN", "an error"])
def test_a_value_that_is_wrong_is_said_and_the_next_case_is_tried(
    wrong: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], cpu_library: object
) -> None:
    def spoilt(*_: Any, **__: Any) -> torch.Tensor:
        if wrong == "an error":
            raise RuntimeError("no kernel image is available")
        return torch.full((16, 3), math.nan if wrong == "a NaN" else 1.0, dtype=torch.float64)

    monkeypatch.setattr(values, "grad_stats", spoilt)
    names = list(values.cases(torch.device("cpu")))
    monkeypatch.setattr(values, "cases", lambda device, of=values.cases: {n: of(device)[n] for n in (names[-1], names[0])})
    assert values.main(["--device", "cpu"]) == 1
    first, second = capsys.readouterr().out.splitlines()[-2:]
    assert first.startswith(f"WRONG {names[-1]}: ")
    assert ("no kernel image" in first) == (wrong == "an error")
    assert second.startswith(f"ok    {names[0]}: ")
