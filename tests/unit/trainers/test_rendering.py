"""From a profile and what is asked of an attempt to the words that start it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from sentinel.errors import UsageError
from sentinel.model.attempts import ResumePoint, SampleRange, SettingsInForce
from sentinel.trainers.launching import Trained
from sentinel.trainers.loading import load_profile
from sentinel.trainers.rendering import Rendered, flag_value, render

AT_60 = ResumePoint(60, "checkpoints/step-00000060")


def megatron(command: str, resume: ResumePoint | None = AT_60, **asked: object) -> Rendered:
    overrides = replace(SettingsInForce(), **asked)  # type: ignore[arg-type]
    return render(load_profile("megatron"), command.split(), "/home/me", overrides, resume, "/ck/iter_0000060", is_first=False)


def test_the_command_is_kept_and_what_is_asked_stands_behind_it() -> None:
    rendered = megatron("train --save ck --lr 1e-3 --lr 2e-3", lr_scale=0.5, clip_norm=0.3)
    assert rendered.argv[:7] == ("train", "--save", "ck", "--lr", "1e-3", "--lr", "2e-3")
    words = "--load /home/me/ck --lr 0.001 --min-lr 0 --override-opt_param-scheduler --clip-grad 0.3"
    assert rendered.added == tuple(words.split())
    assert rendered.asserted == {"lr_scale": 0.5, "clip_norm": 0.3}
    assert rendered.root == "/home/me/ck"
    assert rendered.environment["SENTINEL_ARGS"] == words


def test_a_flag_of_newer_releases_is_added_only_beside_itself() -> None:
    """The tracker names the step. An older release refuses --ckpt-step; where the command has it, its own value would win."""
    assert megatron("train --save ck --ckpt-step 20").added == ("--load", "/home/me/ck", "--ckpt-step", "60")
    assert megatron("train --save ck --ckpt-step=20").added == ("--load", "/home/me/ck", "--ckpt-step", "60")
    assert megatron("train --save ck").added == ("--load", "/home/me/ck")


def test_the_flags_that_only_sentinel_adds_are_known_by_what_they_are_for(tmp_path: Path) -> None:
    """Where the trainer refuses one of them, it is known what it cannot be given. One of the user's own is no such."""
    command = ("train", "--save", "ck", "--load", "ck", "--lr", "1e-3")
    assert dict(Trained(tmp_path, load_profile("megatron"), command, "/").arguments) == {
        "lr_scale": ("--min-lr", "--override-opt_param-scheduler"),
        "clip_norm": ("--clip-grad",),
        "checkpoint_interval": ("--save-interval",),
        "data_seed": ("--seed",),
        "skip": ("--iterations-to-skip",),
    }
    assert dict(Trained(tmp_path, load_profile("nanogpt"), ("train", "--out_dir=o"), "/").arguments)["precision"] == ("--dtype",)


def test_the_first_launch_is_as_its_user_wrote_it() -> None:
    profile = load_profile("nanogpt")
    words = ("python", "train.py", "--out_dir=out")
    first = render(profile, words, "/", SettingsInForce(), None, None, is_first=True)
    assert first.argv == words
    again = render(profile, words, "/", SettingsInForce(), None, None, is_first=False)
    assert again.added == ("--init_from=scratch",)


def test_batches_are_named_so_that_releases_of_either_numbering_leave_them_out() -> None:
    rendered = megatron("train --save ck", skip=(SampleRange(10, 12), SampleRange(12, 13), SampleRange(20, 21)))
    at = rendered.added.index("--iterations-to-skip")
    assert rendered.added[at + 1 :] == ("10", "11", "12", "13", "20", "21")
    assert rendered.asserted["skip"] == [[9, 14], [19, 22]], "of which either leaves out all but one"


def test_ranges_name_both_their_ends_counted_from_one() -> None:
    overrides = replace(SettingsInForce(), skip=(SampleRange(10, 12),))
    words = ("train", "--save", "ck")
    rendered = render(load_profile("megatron-deepspeed"), words, "/", overrides, AT_60, "/x", is_first=False)
    assert rendered.added[-2:] == ("--skip-train-iteration-range", "11-12")


@pytest.mark.parametrize(
    ("words", "added"),
    [
        (("--skip", "{ranges}"), ("--skip", "11-12", "21-21")),
        (("skip={ranges}",), ("skip=11-12,21-21",)),
        (("data.skip=[{batches}]",), ("data.skip=[11,12,21]",)),
    ],
)
def test_what_is_left_out_is_a_word_each_or_one_list_with_commas(words: tuple[str, ...], added: tuple[str, ...]) -> None:
    profile = load_profile("megatron-deepspeed")
    skip = profile.spec.skip
    assert skip is not None
    spec = profile.spec.model_copy(update={"skip": skip.model_copy(update={"arguments": words})})
    overrides = replace(SettingsInForce(), skip=(SampleRange(10, 12), SampleRange(20, 21)))
    changed = profile.model_copy(update={"spec": spec})
    rendered = render(changed, ("train", "--save", "ck"), "/", overrides, AT_60, "/x", is_first=False)
    assert rendered.added[-len(added) :] == added


def test_a_script_of_the_shell_gets_its_arguments_in_a_variable() -> None:
    profile = load_profile("megatron:arguments=environment,root=/ck")
    rendered = render(profile, ("bash", "train.sh"), "/", SettingsInForce(), AT_60, "/ck/iter_0000060", is_first=False)
    assert rendered.argv == ("bash", "train.sh")
    assert rendered.environment["SENTINEL_ARGS"] == "--load /ck"


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("train --lr 1", "where its checkpoints lie is not known: no --save stands in the command (train --lr 1)"),
        ("train --save ck", "needs --lr, which is not in the command"),
        ("train --save ck --lr fast", "needs --lr, which says 'fast', no number"),
    ],
)
def test_what_the_command_does_not_hold_is_told(command: str, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        megatron(command, lr_scale=0.5)
    assert words in caught.value.message


def test_more_batches_than_a_command_line_holds_are_refused() -> None:
    with pytest.raises(UsageError, match="more than 20000 batches"):
        megatron("train --save ck", skip=(SampleRange(0, 30_000),))
    assert megatron("train --save ck", skip=(SampleRange(1000, 19_000),)).asserted["skip"], "numbers of four and five digits"
    with pytest.raises(UsageError, match=r"what is added has 14\d,\d{3} bytes, and SENTINEL_ARGS holds 131,072 at most"):
        megatron("train --save ck", skip=(SampleRange(1_000_000, 1_018_000),))


@pytest.mark.parametrize(
    ("words", "value"),
    [("--a 1 --a=2", "2"), ("--a=1 --a 2", "2"), ("--a", None), ("--b 1", None), ("--ab 1", None), ("--a=", "")],
)
def test_of_a_flag_given_twice_the_last_counts(words: str, value: str | None) -> None:
    assert flag_value(words.split(), ["--a"]) == value


@pytest.mark.parametrize(
    ("trainer", "asked", "added"),
    [
        ("nanogpt", {"precision": "bf16"}, "--dtype=bfloat16"),
        ("hf-trainer", {"precision": "fp32"}, "--bf16 False --fp16 False"),
        ("torchtitan", {"precision": "fp16"}, ""),
        ("megatron", {"data_seed": 7}, "--seed 7"),
        ("hf-trainer", {"data_seed": 0}, "--data_seed 0"),
    ],
)
def test_precision_and_seed_are_arguments_where_the_trainer_has_them(trainer: str, asked: dict[str, object], added: str) -> None:
    overrides = replace(SettingsInForce(), **asked)  # type: ignore[arg-type]
    rendered = render(load_profile(f"{trainer}:root=/ck"), ("train",), "/", overrides, None, None, is_first=True)
    assert rendered.added == tuple(added.split())
    assert rendered.asserted == (asked if added else {})


def test_a_script_without_such_a_flag_is_given_no_value_for_it() -> None:
    profile = load_profile("hf-trainer:root=/ck,bf16_flag=,seed_flag=")
    assert profile.settable == ("clip_norm", "checkpoint_interval")
    profile = load_profile("torchtitan:root=/ck")
    assert profile.settable[-2:] == ("precision=bf16", "precision=fp32")
    assert profile.settings[-1] == "precision"
