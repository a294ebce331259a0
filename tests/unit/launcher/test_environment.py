"""What an attempt runs, read at its launch: found, bounded, never secret, and told the same when asked again."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from sentinel.errors import UsageError
from sentinel.launcher import program_code
from sentinel.launcher.checks import check_code
from sentinel.launcher.environment import digest_of, environment_to_json, read_environment, read_recorded, start_recorded
from sentinel.launcher.interpreter import ask_interpreter, find_interpreter
from sentinel.launcher.program_code import Reading, read_program
from sentinel.launcher.spec_file import write_spec
from sentinel.model.attempts import AttemptSpec, AttemptView, Exited, ExitReport, SettingsInForce
from sentinel.run_files.attempt_files import AttemptFiles


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A script with a helper beside it, a package with a relative import, a configuration, and files nobody imports."""
    files = {
        "train.py": "import helper\nfrom mine import model\nimport os, torch\n",
        "helper.py": "x = 1\n",
        "mine/__init__.py": "",
        "mine/model.py": "from . import layers\nfrom .layers import norm\n",
        "mine/layers.py": "norm = None\n",
        "mine/unused.py": "",
        "conf/base.yaml": "lr: 1\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def code_of(*argv: str, cwd: Path, **more: object) -> list[str] | None:
    found = read_environment(argv, str(cwd), {}, **more).code  # type: ignore[arg-type]
    return None if found is None else [name for name, _ in found]


def test_a_script_is_followed_through_its_imports(project: Path) -> None:
    assert code_of(sys.executable, "train.py", cwd=project) == [
        "helper.py", "mine/__init__.py", "mine/layers.py", "mine/model.py", "train.py",
    ]  # fmt: skip


def test_a_module_is_its_whole_package_and_what_that_imports(project: Path) -> None:
    (project / "mine/__main__.py").write_text("import helper\n")
    found = code_of(sys.executable, "-m", "mine", "--set", "schedule.steps=3", cwd=project)
    assert found == ["helper.py", *(f"mine/{name}.py" for name in ("__init__", "__main__", "layers", "model", "unused"))]


def test_code_named_by_a_person_takes_the_place_of_what_is_found(project: Path) -> None:
    assert code_of(sys.executable, "train.py", cwd=project, code=("mine",)) == [
        f"mine/{name}.py" for name in ("__init__", "layers", "model", "unused")
    ]
    with pytest.raises(UsageError, match="--code nothing: is not there"):
        check_code(("nothing",), str(project))


def test_a_checkpoint_that_the_command_names_is_no_configuration(project: Path) -> None:
    """It changes with every save, and nobody has changed what is run."""
    (project / "out/iter_20").mkdir(parents=True)
    for name in ("out/ckpt.json", "out/iter_20/state.json", "out/settings.json"):
        (project / name).write_text("{}")
    argv = (sys.executable, "train.py", "--resume=out/ckpt.json", "out/iter_20/state.json", "out/settings.json")
    written = (project / "out/ckpt.json", project / "out/iter_20")
    found = read_environment(argv, str(project), {}, (), written)
    assert [name for name, _ in found.configs or ()] == ["out/settings.json"]


def test_a_changed_byte_is_another_digest_and_nothing_else_is(project: Path) -> None:
    argv = (sys.executable, "train.py", "--config=conf/base.yaml")
    before, again = (read_environment(argv, str(project), {}) for _ in range(2))
    assert before == again
    (project / "mine/layers.py").write_text("norm = 1\n")
    (project / "conf/base.yaml").write_text("lr: 2\n")
    after = read_environment(argv, str(project), {})
    assert before.code is not None
    assert after.code is not None
    assert {name for name, _ in set(before.code) ^ set(after.code)} == {"mine/layers.py"}
    assert before.configs != after.configs
    assert [name for name, _ in after.configs or ()] == ["conf/base.yaml"]
    assert (before.distributions, before.interpreter) == (after.distributions, after.interpreter)


def test_the_commands_own_interpreter_says_what_is_installed(project: Path) -> None:
    found = read_environment((sys.executable, "train.py"), str(project), {})
    assert {"pytest", "pydantic"} <= {name for name, _ in found.distributions or ()}
    assert (found.interpreter or "").endswith(f"({sys.executable})")
    assert found.unknown == ()


def test_what_is_installed_is_what_importlib_reads_however_it_is_written(tmp_path: Path) -> None:
    """Two lines are read by hand; what has them otherwise is left to importlib."""
    texts = {
        "plain": "Metadata-Version: 2.1\nName: plain\nVersion: 1.0\n\nName: not-this\n",
        "windows": "Metadata-Version: 2.1\r\nName:  windows-lines \r\nVersion: 2.0+local.1\r\n\r\nVersion: 9\r\n",
        "small": "metadata-version: 2.1\nname: small-letters\nversion: 3\n\n",
        "nameless": "Metadata-Version: 2.1\nVersion: 4\n\nName: in-the-description\n",
    }
    for name, text in texts.items():
        (tmp_path / f"{name}-1.dist-info").mkdir()
        (tmp_path / f"{name}-1.dist-info" / "METADATA").write_bytes(text.encode())
    found = ask_interpreter(sys.executable, str(tmp_path), {"PYTHONPATH": str(tmp_path)})
    assert not isinstance(found, str), found
    ours = [one for one in found.distributions if one[0] in ("plain", "windows-lines", "small-letters", "in-the-description")]
    assert ours == [("plain", "1.0"), ("small-letters", "3"), ("windows-lines", "2.0+local.1")]
    # Of a fresh interpreter: setuptools adds folders of its own to the path of these tests.
    asked = [sys.executable, "-c", "import json, sys; print(json.dumps(sys.path))"]
    folders = json.loads(subprocess.run(asked, capture_output=True, check=True, cwd=tmp_path).stdout)
    installed = reversed([one for one in metadata.distributions(path=folders) if one.metadata["Name"]])
    there = {str(one.metadata["Name"]): str(one.version) for one in installed}
    assert {name: version for name, version in found.distributions if (name, version) not in ours} == there


def test_a_source_is_parsed_once_for_its_bytes_and_read_at_every_launch(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[bytes] = []
    parse = program_code.ast.parse
    monkeypatch.setattr(program_code.ast, "parse", lambda data: parsed.append(data) or parse(data))
    (project / "helper.py").write_text("import of_no_other_test\n")
    for _ in range(2):
        assert code_of(sys.executable, "train.py", cwd=project)
    assert parsed.count(b"import of_no_other_test\n") == 1
    (project / "helper.py").write_text("import mine.unused\n")
    assert "mine/unused.py" in (code_of(sys.executable, "train.py", cwd=project) or [])


def test_a_module_of_the_project_that_is_called_json_does_not_blind_the_question(project: Path) -> None:
    (project / "json.py").write_text("raise SystemExit('not this one')\n")
    assert not isinstance(ask_interpreter(sys.executable, str(project), {}), str)


def test_the_first_line_of_a_script_names_the_interpreter(tmp_path: Path) -> None:
    launcher = tmp_path / "torchrun"
    launcher.write_text(f"#!{sys.executable}\n")
    launcher.chmod(0o755)
    assert find_interpreter((str(launcher), "train.py"), str(tmp_path)) == sys.executable
    launcher.write_text("#!/bin/sh\n")
    assert find_interpreter((str(launcher), "train.py"), str(tmp_path)) is None


def test_what_cannot_be_read_is_unknown_and_says_why(tmp_path: Path) -> None:
    shell = tmp_path / "go.sh"
    shell.write_text("#!/bin/sh\nexec python train.py\n")
    shell.chmod(0o755)
    found = read_environment((str(shell),), str(tmp_path), {})
    assert (found.code, found.interpreter, found.distributions) == (None, None, None)
    assert [sentence.partition(":")[0] for sentence in found.unknown] == ["interpreter and distributions", "code"]
    assert "--code PATH" in found.unknown[1]


def test_an_interpreter_that_does_not_answer_is_left_after_its_deadline(tmp_path: Path) -> None:
    sleeper = tmp_path / "python3"
    sleeper.write_text("#!/bin/sh\nexec sleep 60\n")
    sleeper.chmod(0o755)
    said = ask_interpreter(str(sleeper), str(tmp_path), {"PATH": "/bin:/usr/bin"}, deadline_s=0.2)
    assert said == f"{sleeper} did not say within 0.2 s what is installed"
    assert "left with" in str(ask_interpreter("/bin/false", str(tmp_path), {}))
    assert "cannot be asked" in str(ask_interpreter(str(tmp_path / "none"), str(tmp_path), {}))


def test_what_an_interpreter_started_ends_with_it(tmp_path: Path) -> None:
    wrapper, pipe = tmp_path / "python3", tmp_path / "pipe"
    wrapper.write_text(f"#!/bin/sh\nsleep 60 > {pipe} &\nwait\n")
    wrapper.chmod(0o755)
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        ask_interpreter(str(wrapper), str(tmp_path), {"PATH": "/bin:/usr/bin"}, deadline_s=0.5)
        os.set_blocking(reader, True)
        assert select.select([reader], [], [], 5.0)[0], "its child still holds the pipe"
        assert os.read(reader, 1) == b""
    finally:
        os.close(reader)


def test_an_interpreter_that_floods_is_cut_off(tmp_path: Path) -> None:
    flood = tmp_path / "python3"
    flood.write_text("#!/bin/sh\nexec yes\n")
    flood.chmod(0o755)
    said = ask_interpreter(str(flood), str(tmp_path), {"PATH": "/bin:/usr/bin"}, deadline_s=30.0)
    assert "could not say what is installed" in str(said), "before its deadline, which says something else"


def test_a_pipe_named_as_source_is_no_source_and_holds_nothing_up(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "x.py")
    found = read_environment(("true",), str(tmp_path), {}, (".", "x.py"))
    assert found.code is None


def test_a_package_that_cannot_be_listed_fails_no_launch(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (project / "mine/__main__.py").write_text("import helper\n")

    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(program_code.os, "listdir", refuse)
    monkeypatch.setattr(program_code.os, "scandir", refuse)
    assert code_of(sys.executable, "-m", "mine", cwd=project) == ["helper.py", "mine/__main__.py"]


def test_too_many_files_too_large_a_file_and_too_little_time_are_said(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program_code, "FILES_MAX", 2)
    found = read_environment((sys.executable, "train.py"), str(project), {})
    assert len(found.code or ()) == 2
    assert [sentence for sentence in found.capped if "not every file of the program was read" in sentence]
    monkeypatch.setattr(program_code, "FILES_MAX", 100)
    monkeypatch.setattr(program_code, "FILE_BYTES_MAX", 10)
    assert any("larger than" in sentence for sentence in read_environment(("x", "train.py"), str(project), {}).capped)
    late = Reading(lambda: True)
    assert read_program(("train.py",), str(project), (), late)
    assert (late.found, len(late.capped)) == ({}, 1)


def test_only_variables_that_matter_and_never_a_secret(tmp_path: Path) -> None:
    environ = {
        "NCCL_DEBUG": "INFO", "CUDA_VISIBLE_DEVICES": "0,1", "OMP_NUM_THREADS": "4", "PYTHONHASHSEED": "0",
        "TORCH_NCCL_TRACE": "1",
        "NCCL_AUTH_TOKEN": "s3cret", "CUDA_API_KEY": "s3cret", "HOME": "/root", "PYTHONPATH": "https://me:s3cret@host/x",
        "TORCH_HOME": "https://me:a/s3cret@host/x",
        "TORCH_LONG": "x" * 500, "SENTINEL_ATTEMPT": "3",
    }  # fmt: skip
    found = dict(read_environment(("true",), str(tmp_path), environ).variables or ())
    names = "CUDA_VISIBLE_DEVICES NCCL_DEBUG OMP_NUM_THREADS PYTHONHASHSEED PYTHONPATH TORCH_HOME TORCH_LONG TORCH_NCCL_TRACE"
    assert sorted(found) == names.split()
    assert "s3cret" not in json.dumps(found)
    assert found["TORCH_LONG"].startswith("sha256:")


def test_nothing_that_a_terminal_cannot_take_reaches_the_record(tmp_path: Path) -> None:
    named = os.fsdecode(b"caf\xe9.py")
    for name in (named, "\x1b[31m.py"):
        (tmp_path / name).touch()
    environ = {"NCCL_DEBUG": "\x1b[31mINFO\n", "CUDA_X": os.fsdecode(b"caf\xe9")}
    found = read_environment(("true",), str(tmp_path), environ, (".", named + "/x"))
    said = [*(word for part in (found.code, found.variables) for pair in part or () for word in pair), *found.unknown]
    assert all(word.isprintable() for word in said), said
    assert dict(found.variables or ()) == {"NCCL_DEBUG": "\\x1b[31mINFO\\n", "CUDA_X": "caf\\udce9"}
    assert len(found.code or ()) == 2


class Recorder:
    """A launcher that writes the spec as the real one does: once."""

    def __init__(self, run_dir: Path) -> None:
        self.run_dir = run_dir

    def ensure_started(self, spec: AttemptSpec) -> AttemptView:
        files = AttemptFiles.of(self.run_dir, spec.attempt)
        if not files.spec.exists():
            write_spec(files, spec)
        return Exited(spec.attempt, ExitReport(0, (), None))


def test_asked_again_what_stands_in_the_spec_is_told_and_not_what_lies_there_now(project: Path, tmp_path: Path) -> None:
    run_dir = tmp_path / "run"
    spec = AttemptSpec(1, (sys.executable, "train.py"), str(project), None, SettingsInForce())
    launcher: object = Recorder(run_dir)
    first = start_recorded(launcher, run_dir, spec, ())  # type: ignore[arg-type]
    (project / "helper.py").write_text("x = 2\n")
    assert start_recorded(launcher, run_dir, spec, ()) == first  # type: ignore[arg-type]
    said = json.loads(AttemptFiles.of(run_dir, 1).spec.read_text())["environment"]
    assert said == json.loads(json.dumps(environment_to_json(first[1])))
    assert said["digests"]["code"] == digest_of(first[1].code or ())
    assert read_recorded(AttemptFiles.of(run_dir, 2)) is None


def test_the_interpreter_is_asked_without_what_only_the_supervisor_should_know(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It runs the training's own start-up code: a sitecustomize of the project's."""
    (project / "sitecustomize.py").write_text(f"import os\nopen({str(tmp_path / 'seen')!r}, 'w').write(' '.join(os.environ))\n")
    monkeypatch.setenv("PYTHONPATH", str(project))
    monkeypatch.setenv("SENTINEL_PAGERDUTY_KEY", "k" * 32)
    spec = AttemptSpec(1, (sys.executable, "train.py"), str(project), None, SettingsInForce())
    launcher: object = Recorder(tmp_path / "run")
    start_recorded(launcher, tmp_path / "run", spec, (), frozenset({"SENTINEL_PAGERDUTY_KEY"}))  # type: ignore[arg-type]
    seen = (tmp_path / "seen").read_text().split()
    assert "PYTHONPATH" in seen
    assert "SENTINEL_PAGERDUTY_KEY" not in seen


def test_importlib_is_asked_only_where_it_knows_more_than_the_directories_hold(tmp_path: Path) -> None:
    """`importlib.metadata` takes longer to import than everything else that the question does."""
    (tmp_path / "plain-1.dist-info").mkdir()
    (tmp_path / "plain-1.dist-info" / "METADATA").write_text("Name: plain\nVersion: 1.0\n\n" + "words " * 4000)
    tells = "import atexit, sys\natexit.register(lambda: open('asked', 'w').write(str('importlib.metadata' in sys.modules)))\n"
    finder = (
        "from importlib.metadata import Distribution\n"
        "class Finder(Distribution):\n"
        "    def find_spec(*_): return None\n"
        "    def read_text(self, name): return 'Name: from-a-finder\\nVersion: 2\\n\\n' if name == 'METADATA' else None\n"
        "    def locate_file(self, path): return path\n"
        "    def find_distributions(*_): return [Finder()]\n"
        "sys.meta_path.append(Finder)\n"
    )
    (tmp_path / "sitecustomize.py").write_text(tells)
    found = ask_interpreter(sys.executable, str(tmp_path), {"PYTHONPATH": str(tmp_path)})
    assert ("plain", "1.0") in getattr(found, "distributions", ())
    assert (tmp_path / "asked").read_text() == "False"
    (tmp_path / "sitecustomize.py").write_text(tells + finder)
    found = ask_interpreter(sys.executable, str(tmp_path), {"PYTHONPATH": str(tmp_path)})
    assert {("plain", "1.0"), ("from-a-finder", "2")} <= set(getattr(found, "distributions", ()))


def test_a_name_that_many_sources_import_is_looked_for_once(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[tuple[str, str]] = []
    plain = program_code._look_for
    monkeypatch.setattr(program_code, "_look_for", lambda folder, word: looked.append((folder, word)) or plain(folder, word))
    for name in ("one", "two", "three"):
        (project / f"{name}.py").write_text("import os, nowhere_to_be_found\n")
    (project / "train.py").write_text("import one, two, three\n")
    assert {"one.py", "two.py", "three.py"} <= set(code_of(sys.executable, "train.py", cwd=project) or [])
    assert len(looked) == len(set(looked))
