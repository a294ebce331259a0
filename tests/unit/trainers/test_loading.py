"""Profiles as files: what is shipped holds, options are filled in, and what is wrong is told with its place."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sentinel.errors import PolicyError, UsageError
from sentinel.trainers.loading import load_profile, shipped_profiles
from sentinel.trainers.profile import TrainerProfile, as_document


def test_every_shipped_profile_loads_under_its_own_name() -> None:
    asked = ("exit-only", "hf-trainer", "lightning", "megatron", "megatron-deepspeed", "nanogpt", "torchtitan")
    assert shipped_profiles() == asked
    for name in asked:
        assert load_profile(name).metadata.name == name


def test_options_stand_in_the_text_and_an_empty_one_takes_its_arguments_away() -> None:
    profile = load_profile("lightning:root_flag=--out,resume_flag=--ckpt,clip_flag=--clip")
    assert profile.spec.checkpoints is not None
    assert profile.spec.checkpoints.root == ("--out",)
    assert profile.spec.resume.arguments == ("--ckpt", "{checkpoint}")
    assert profile.settings == ("clip_norm",)
    assert load_profile("lightning").settings == ()
    assert load_profile("hf-trainer:resume_flag=").spec.resume.arguments == ()


def test_every_profile_takes_the_folder_and_the_place_of_its_numbers() -> None:
    profile = load_profile("hf-trainer:root=/data/out,metrics=trainer_state,keep=9")
    places = profile.spec.checkpoints
    assert places is not None
    assert (places.root, places.path, places.keep, profile.spec.metrics.from_) == ((), "/data/out", 9, "trainer_state")
    assert load_profile("megatron:metrics=tb/").spec.metrics.path == ("tb/",)


@pytest.mark.parametrize(
    ("asked", "format"),
    [
        ("hf-trainer:metrics=m.csv", "auto"),
        ("megatron:metrics=tb/", "auto"),
        ("megatron:metrics=wandb", "auto"),
        ("megatron:metrics=output", "megatron"),
        ("megatron", "megatron"),
    ],
)
def test_the_format_of_what_is_printed_is_not_that_of_another_source(asked: str, format: str) -> None:
    assert load_profile(asked).spec.metrics.format == format


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ("megatorn", "neither a shipped profile nor a file; did you mean 'megatron'?"),
        ("megatron:rot=x", "no option 'rot'; did you mean 'root'?"),
        ("megatron:root", "'root' is no option; write NAME:option=value"),
    ],
)
def test_a_name_that_nobody_knows_is_told_with_the_nearest(asked: str, words: str) -> None:
    with pytest.raises(UsageError, match=r".") as caught:
        load_profile(asked)
    assert words in caught.value.message


HEAD = "apiVersion: sentinel/v1\nkind: TrainerProfile\nmetadata: {name: mine}\n"


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("spec:\n  checkpoints: {root: [--out], pattren: 'c-{step}'}\n", 5, "unknown key 'pattren'"),
        ("spec:\n  checkpoints: {root: [--out], pattern: last.pt}\n", 5, "does not say which step"),
        ("spec:\n  settings: {lr_scael: [--lr, '{value}']}\n", 5, "'lr_scael' is no setting"),
        ("spec:\n  settings:\n    lr_scale: [--lr, '{lr*value}']\n", 6, "{lr} is not known here"),
        ("spec:\n  environment: {RATE: '{lr*value}'}\n", 5, "'{lr*value}': nothing is filled in here"),
        ("spec:\n  skip: {arguments: [--skip, '{batches}']}\n", 5, "skip needs data that is given by the step"),
        ("spec:\n  finish: {early: stopped}\n", 5, "what is early is not known: no flag names the last step"),
        ("spec:\n  finish: {unless: [--exit-after]}\n", 5, "any early end is a finish, so unless says nothing"),
        ("spec:\n  finish: {early: now}\n", 5, "finish.early"),
        ("spec:\n  metrics: {from: file}\n", 5, "need a path"),
        ("spec:\n  resume: {arguments: ['{checkpoint']}\n", 5, "a brace that opens or closes nothing"),
    ],
)
def test_a_mistake_in_a_file_is_told_with_its_line_and_a_caret(tmp_path: Path, text: str, line: int, words: str) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(HEAD + text)
    with pytest.raises(PolicyError) as caught:
        load_profile(str(path))
    assert words in caught.value.message
    assert f"mine.yaml:{line}:" in caught.value.message
    assert "^" in caught.value.message


def test_every_mistake_is_told_at_once_and_each_at_its_own_word(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    body = "spec:\n  resume: {arguments: [--resume, '{chekpoint}']}\n  settings:\n    clip: [--clip, '{value}']\n"
    path.write_text(HEAD + body + "    precision: {bf61: [--bf16]}\n    clip_norm: [--clip, '{val}']\n")
    with pytest.raises(PolicyError) as caught:
        load_profile(str(path))
    found = [(problem.line, problem.path) for problem in caught.value.problems]
    assert found == [
        (5, "spec.resume"), (5, "spec.resume.arguments[1]"), (7, "spec.settings.clip"), (8, "spec.settings.precision.bf61"),
        (9, "spec.settings.clip_norm[1]"),
    ]  # fmt: skip


@pytest.mark.parametrize("text", ["", "- 1\n", "just text\n", "\x00", "a: [1\n"])
def test_what_is_no_profile_is_refused_in_a_sentence(tmp_path: Path, text: str) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    with pytest.raises((PolicyError, UsageError)) as caught:
        load_profile(str(path))
    assert "mine.yaml" in caught.value.message


@pytest.mark.parametrize("name", shipped_profiles())
def test_what_an_attempts_file_keeps_of_a_profile_is_that_profile(name: str) -> None:
    profile = load_profile(name)
    assert TrainerProfile.model_validate(json.loads(json.dumps(as_document(profile)))) == profile
