"""A command that is a shell script is taken, although the flags of its trainer stand where nobody sees them."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from sentinel.errors import UsageError
from sentinel.model.attempts import SettingsInForce
from sentinel.trainers.launching import check_command
from sentinel.trainers.loading import load_profile
from sentinel.trainers.rendering import render
from sentinel.trainers.shell_script import fit_to_command, script_of

SCRIPT = "python pretrain.py --save out --lr 1e-3"


def fitted(folder: Path, trainer: str, text: str = f'{SCRIPT} "$@"', command: tuple[str, ...] = ("bash", "train.sh")):
    (folder / "train.sh").write_text(text)
    return fit_to_command(load_profile(trainer), command, str(folder))


def test_what_needs_a_value_of_the_script_is_not_offered_and_all_else_is(tmp_path: Path) -> None:
    found = fitted(tmp_path, "megatron:root=out")
    check_command(found.profile, ("bash", "train.sh"), str(tmp_path))
    assert found.profile.settings == ("clip_norm", "checkpoint_interval", "data_seed")
    (remark,) = found.remarks
    assert "lr_scale is not offered: it needs --lr, which stands in train.sh" in remark
    assert remark.endswith("name it: --trainer megatron:lr=NUMBER")


def test_a_value_that_is_named_makes_it_settable(tmp_path: Path) -> None:
    found = fitted(tmp_path, "megatron:root=out,lr=3e-4")
    assert found.remarks == ()
    overrides = replace(SettingsInForce(), lr_scale=0.5)
    rendered = render(found.profile, ("bash", "train.sh"), str(tmp_path), overrides, None, None, is_first=False)
    assert rendered.added[:2] == ("--lr", "0.00015")
    assert rendered.environment["SENTINEL_ARGS"].startswith("--lr 0.00015")


@pytest.mark.parametrize(
    ("end", "passes"), [('"$@"', True), ("$SENTINEL_ARGS", True), ("${SENTINEL_ARGS:-}", True), ("$*", True), ("", False)]
)
def test_a_script_that_passes_nothing_on_is_told_what_to_write(tmp_path: Path, end: str, passes: bool) -> None:
    remarks = fitted(tmp_path, "megatron:root=out,lr=1", f"{SCRIPT} {end}").remarks
    assert (remarks == ()) is passes
    assert all("write $SENTINEL_ARGS behind its arguments in the line that starts it" in remark for remark in remarks)


@pytest.mark.parametrize(
    ("command", "script"),
    [
        ("bash train.sh", "train.sh"),
        ("bash -x train", "train"),
        ("srun --nodes 2 ./train.sh a", "./train.sh"),
        ("env A=1 /bin/sh train --lr 1", "train"),
        ("python train.py --out x.sh", None),
        ("torchrun --nproc 2 train.py", None),
        ("bash", None),
    ],
)
def test_which_commands_are_scripts_of_the_shell(command: str, script: str | None) -> None:
    assert script_of(command.split()) == script


def test_a_command_of_the_trainer_itself_is_asked_as_before(tmp_path: Path) -> None:
    command = ("python", "pretrain.py", "--save", "out")
    found = fit_to_command(load_profile("megatron"), command, str(tmp_path))
    with pytest.raises(UsageError, match=r"needs --lr, which is not in the command; add it .*, or name it: .*:lr=NUMBER"):
        check_command(found.profile, command, str(tmp_path))
    check_command(load_profile("megatron:lr=0.001"), command, str(tmp_path))


def test_a_value_that_is_no_number_and_a_script_that_is_no_file(tmp_path: Path) -> None:
    for written in ("fast", "nan", "inf"):
        with pytest.raises(UsageError, match=f"lr={written}: is no number"):
            load_profile(f"megatron:lr={written}")
    os.mkfifo(tmp_path / "pipe.sh")
    assert fit_to_command(load_profile("megatron:lr=1"), ("bash", "pipe.sh"), str(tmp_path)).remarks == ()
