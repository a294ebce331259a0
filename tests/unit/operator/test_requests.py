"""What a person types, read in the policy's own words; what cannot be meant is refused with what to write."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sentinel.errors import UsageError
from sentinel.model.attempts import SampleRange
from sentinel.model.operator_requests import PauseRun
from sentinel.operator.requests import ask, read_range, read_settings


def test_settings_are_the_policys_words() -> None:
    words = ["lr=0.5x", "clip_norm=0.3", "betas=0.9,0.95", "embed_grad_scale=0.1", "until=2000 steps"]
    wanted, keys, until = read_settings(words, live=True)
    assert (wanted.lr_scale, wanted.clip_norm, wanted.betas, wanted.embed_grad_scale) == (0.5, 0.3, (0.9, 0.95), 0.1)
    assert until == 2000
    assert set(keys) == {"lr_scale", "clip_norm", "betas", "embed_grad_scale"}


def test_configured_gives_a_setting_back() -> None:
    wanted, keys, until = read_settings(["lr=configured", "checkpoint_every=50 steps"], live=True)
    assert (wanted.lr_scale, wanted.checkpoint_interval, until) == (None, 50, None)
    assert keys == ("checkpoint_interval", "lr_scale")


def test_a_relaunch_can_change_what_a_living_trainer_cannot() -> None:
    wanted, keys, _ = read_settings(["precision=bf16", "reset_optimizer=true"], live=False)
    assert (wanted.precision, wanted.reset_optimizer, set(keys)) == ("bf16", True, {"precision", "reset_optimizer"})


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["lr"], "write KEY=VALUE"),
        (["learning_rate=0.5x"], "is no setting"),
        (["lr=0.5"], "0.5x"),
        (["lr=0.5x", "lr=0.7x"], "given twice"),
        (["clip_norm=-1"], "clip_norm"),
        (["clip_norm=nan"], "clip_norm"),
        *(([f"embed_grad_scale={value}"], "embed_grad_scale") for value in ("0", "-1", "2", "nan", "tenth", "0.1x")),
        (["betas=0.9"], "betas"),
        (["precision=bf16"], "takes effect only at a relaunch; use `sentinel rollback --to STEP --set precision=bf16`"),
        (["precision=fp8"], "'fp8' is not known here; one of: fp32, bf16, fp16"),
        (["loss_scale=1024", "until=20 steps"], "until: loss_scale is done once and does not lapse; leave until out"),
        (["lr=configured", "until=20 steps"], "until: a setting that is given back has no end"),
        (["until=20 steps"], "no setting is named"),
        ([], "no setting is named"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_what_to_write(words: list[str], why: str) -> None:
    with pytest.raises(UsageError, match=re.escape(why)):
        read_settings(words, live=True)


def test_the_words_that_are_named_are_those_that_are_taken() -> None:
    for live in (True, False):
        with pytest.raises(UsageError) as refused:
            read_settings(["nonsense=1"], live=live)
        named = set(str(refused.value).rpartition(": ")[2].split(", "))
        assert ("until" in named, "precision" in named, "reset_optimizer" in named) == (live, not live, not live)
        assert {"lr", "loss_scale"} <= named


def test_a_range_of_samples() -> None:
    assert read_range(" 51200 - 53760 ") == SampleRange(51200, 53760)
    for text in ("", "5", "9-5", "5-5", "a-b", "-5-9", "1e3-2e3"):
        with pytest.raises(UsageError, match="first-end"):
            read_range(text)


def test_a_directory_that_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is not the directory of a run"):
        ask(tmp_path, PauseRun())
