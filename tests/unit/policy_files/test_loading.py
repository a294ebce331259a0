"""Policy files as files: sizes, encodings, names, digests, warnings; every shipped policy is sound."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from sentinel.errors import PolicyError
from sentinel.model.capabilities import CAPABILITIES, MORE
from sentinel.policy_files.loading import (
    SIZE_MAX_BYTES,
    load_policy,
    policy_digest,
    read_policy_file,
    shipped_policies,
    shipped_policy_path,
)
from tests.unit.policy.policies_in_words import GOOD


def test_the_text_these_tests_start_from_is_sound(tmp_path):
    path = tmp_path / "x.yaml"
    path.write_text(GOOD, encoding="utf-8")
    assert load_policy(path).spec.rules[0].for_.steps == 2


def test_warnings_do_not_stop_a_policy(tmp_path):
    path = tmp_path / "x.yaml"
    path.write_text(GOOD.replace("spike: {z: 8}", "spike: off"), encoding="utf-8")
    read = read_policy_file(path)
    assert read.policy.spec.detectors.spike.enabled is False
    first = read.print_warnings().splitlines()[0]
    assert first.startswith(f"{path}:7:3: warning: spec.rules: no rule is on 'non_finite'")
    assert read.digest == policy_digest(path) == hashlib.sha256(path.read_bytes()).hexdigest()


def test_a_missing_capability_is_shown_at_its_rung(tmp_path):
    path = tmp_path / "x.yaml"
    rollback = "{before_onset: 100 steps}"
    path.write_text(GOOD.replace(rollback, rollback + "\n      skip: {from: onset, to: detected}"), encoding="utf-8")
    assert not any("skip" in warning.message for warning in read_policy_file(path).warnings)
    (warning,) = (found for found in read_policy_file(path, {"live_overrides"}).warnings if "cannot skip" in found.message)
    assert (warning.line, warning.column, warning.path) == (16, 7, "spec.playbooks.numeric[0].skip")
    assert warning.message.endswith("this rung is passed over")


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "the file is empty"),
        (b" \n\n", "the file is empty"),
        (b"# nothing\n", "the file holds only comments"),
        (b"a: \xff\xfe\n", "line 1 is not UTF-8 text (byte 3)"),
        (b"a: 1\x00\n", "a character that YAML does not allow stands here"),
        (b"#" * (SIZE_MAX_BYTES + 1), "larger than 256 KiB"),
        (b"just words\n", "'just words' is not a mapping"),
        (b"---\na: 1\n---\nb: 1\n", "a second document begins here"),
        (b"[" * 100_000, "nested deeper than 32 levels"),
        (b"a: [" + b"1," * 100_000 + b"]", "more than 20000 values in one file"),
        (b"a: " + b"9" * 100_000, "a number of 100000 characters"),
    ],
)
def test_a_file_that_is_no_policy_at_all(tmp_path, content, sentence):
    path = tmp_path / "x.yaml"
    path.write_bytes(content)
    with pytest.raises(PolicyError) as error:
        load_policy(path)
    first, *_, last = str(error.value).splitlines()
    assert first.startswith(f"{path}:")
    assert sentence in first
    assert last.startswith("  remedy: ")
    assert len(str(error.value)) < 1500


def test_no_file_a_directory_and_a_device(tmp_path):
    said = {"no.yaml": "no such file", ".": "this is a directory", "/dev/null": "not a regular file"}
    for path, sentence in said.items():
        with pytest.raises(PolicyError, match=sentence):
            load_policy(tmp_path / path)
    with pytest.raises(PolicyError, match="shipped policies: bloom-104b, cautious, default, demo, observe_only"):
        load_policy(tmp_path / "no.yaml")


@pytest.mark.parametrize("name", shipped_policies())
def test_every_shipped_policy_loads_without_a_warning(name):
    read = read_policy_file(shipped_policy_path(name), capabilities={*CAPABILITIES, *MORE})
    assert read.warnings == ()
    assert read.policy.metadata.name == name


def test_shipped_policies_go_by_name_unless_a_file_is_there(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shipped = shipped_policy_path("default")
    assert shipped.is_file()
    assert shipped_policy_path("policies/default.yaml") == shipped_policy_path("default.yaml") == shipped
    assert shipped_policy_path("policies/mine.yaml") == Path("policies/mine.yaml")
    assert shipped_policy_path("/somewhere/default.yaml") == Path("/somewhere/default.yaml")
    Path("default.yaml").write_text(GOOD, encoding="utf-8")
    assert shipped_policy_path("default.yaml") == Path("default.yaml")
    assert {"default", "demo", "observe_only"} <= set(shipped_policies())


def test_a_folder_of_that_name_where_it_is_started_takes_the_place_of_no_shipped_policy(tmp_path):
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies" / "__init__.py").touch()
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    words = [sys.executable, "-m", "sentinel", "policy", "check", "default"]
    done = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert "default" in done.stdout
