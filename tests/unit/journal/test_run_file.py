"""run.json says what the run is; what others wrote into it stays; what is wrong with it is said in a sentence."""

from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path

import pytest

from sentinel.errors import UsageError
from sentinel.journal.run_file import (
    CAPABILITIES,
    PolicyReference,
    RunFile,
    declared_capabilities,
    find_run_file,
    read_run_file,
    write_run_file,
)
from sentinel.journal.run_folder import ensure_run_dir

RUN = RunFile(
    id="gpt-7",
    command=("torchrun", "train.py"),
    cwd="/work",
    policy=PolicyReference("policies/default.yaml", "sha256:ab", "default"),
    launcher="local",
    created="2026-01-02T03:04:05Z",
    capabilities=("skip", "overrides"),
    track=("wandb:project=gpt",),
)


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    assert find_run_file(tmp_path) is None
    write_run_file(tmp_path, RUN)
    assert find_run_file(tmp_path) == read_run_file(tmp_path) == RUN
    keys = ["id", "command", "cwd", "policy", "launcher", "created", "capabilities", "code", "pages", "launcher_options"]
    assert list(json.loads((tmp_path / "run.json").read_text())) == [*keys, "trainer", "track", "mirror", "digest_key"]


def test_keys_that_others_wrote_are_kept(tmp_path: Path) -> None:
    write_run_file(tmp_path, RUN)
    plain = json.loads((tmp_path / "run.json").read_text())
    plain["ticket"] = "ML-12"
    plain["policy"]["reviewed_by"] = "ada"
    (tmp_path / "run.json").write_text(json.dumps(plain))
    write_run_file(tmp_path, dataclasses.replace(RUN, launcher="slurm"))
    plain = json.loads((tmp_path / "run.json").read_text())
    assert (plain["ticket"], plain["policy"]["reviewed_by"], plain["launcher"]) == ("ML-12", "ada", "slurm")


def test_capabilities_may_be_left_out(tmp_path: Path) -> None:
    write_run_file(tmp_path, RUN)
    plain = json.loads((tmp_path / "run.json").read_text())
    del plain["capabilities"]
    (tmp_path / "run.json").write_text(json.dumps(plain))
    assert read_run_file(tmp_path).capabilities is None


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"id": None}, "id: None must be text"),
        ({"command": "python train.py"}, "command: 'python train.py' must be a list of texts"),
        ({"policy": {"path": "p", "name": "n"}}, r"policy\.digest: is missing"),
        ({"policy": "default"}, "policy: 'default' must be an object"),
        ({"capabilities": [1]}, "capabilities: .* must be a list of texts"),
    ],
)
def test_a_wrong_value_is_named_with_its_key(tmp_path: Path, change: dict[str, object], sentence: str) -> None:
    write_run_file(tmp_path, RUN)
    plain = json.loads((tmp_path / "run.json").read_text())
    (tmp_path / "run.json").write_text(json.dumps({**plain, **change}))
    with pytest.raises(UsageError, match=rf"run\.json: {sentence}"):
        read_run_file(tmp_path)


@pytest.mark.parametrize(("text", "sentence"), [("{", "is not valid JSON"), ("[]", "must hold a JSON object, not list")])
def test_a_file_that_is_no_run_json_is_refused_and_not_overwritten(tmp_path: Path, text: str, sentence: str) -> None:
    (tmp_path / "run.json").write_text(text)
    with pytest.raises(UsageError, match=sentence):
        read_run_file(tmp_path)
    with pytest.raises(UsageError, match=sentence):
        write_run_file(tmp_path, RUN)
    assert (tmp_path / "run.json").read_text() == text


def test_a_directory_without_a_run_says_so(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"holds no run\.json"):
        read_run_file(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="is a file; the directory of a run is wanted"):
        read_run_file(tmp_path / "file")


def test_a_run_directory_is_made_with_its_parents_and_made_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert ensure_run_dir(Path("runs/7")) == tmp_path / "runs" / "7"
    assert ensure_run_dir(Path("runs/7")).is_dir()


def test_a_run_directory_that_cannot_be_is_refused_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="file: is a file; a run needs a directory"):
        ensure_run_dir(tmp_path / "file")
    with pytest.raises(UsageError, match="cannot be created: Not a directory"):
        ensure_run_dir(tmp_path / "file" / "run")
    with pytest.raises(UsageError, match=r"run\.json: cannot be written"):
        write_run_file(Path("/proc/self"), RUN)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_run_directory_without_rights_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o555)
    with pytest.raises(UsageError, match="cannot be written by this user"):
        ensure_run_dir(tmp_path)


def test_what_the_command_can_besides_is_there_only_where_somebody_says_so() -> None:
    assert declared_capabilities(None, ()) == CAPABILITIES
    assert declared_capabilities(None, (), ("exclude",)) == (*CAPABILITIES, "exclude")
    known = dataclasses.replace(RUN, capabilities=("skip", "exclude"))
    assert declared_capabilities(known, ()) == ("skip", "exclude")
    assert declared_capabilities(known, ("exclude",)) == ("skip",)
    with pytest.raises(UsageError, match="--with levitation: no such capability"):
        declared_capabilities(None, (), ("levitation",))
