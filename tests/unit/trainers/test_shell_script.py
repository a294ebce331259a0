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
    assert "lr_scale is not offered: it needs --lr and --min-lr, and train.sh may hold that" in remark
    assert remark.endswith("name it: --trainer megatron:lr=NUMBER,min_lr=NUMBER")


def test_a_value_that_is_named_makes_it_settable(tmp_path: Path) -> None:
    found = fitted(tmp_path, "megatron:root=out,lr=3e-4,min_lr=0")
    assert found.remarks == ()
    overrides = replace(SettingsInForce(), lr_scale=0.5)
    rendered = render(found.profile, ("bash", "train.sh"), str(tmp_path), overrides, None, None, is_first=False)
    assert rendered.added[:2] == ("--lr", "0.00015")
    assert rendered.environment["SENTINEL_ARGS"].startswith("--lr 0.00015")


@pytest.mark.parametrize(
    ("end", "verdict"), [('"$@"', "yes"), ("$SENTINEL_ARGS", "yes"), ("${@:2}", "unknown"), ("", "no"), ('# "$@"', "no")]
)
def test_a_script_that_hands_nothing_on_is_told_what_to_write(tmp_path: Path, end: str, verdict: str) -> None:
    """An argument that does not reach the trainer changes nothing: then no rung is offered that would be one."""
    found = fitted(tmp_path, "megatron:root=out,lr=1,min_lr=0", f"{SCRIPT} {end}")
    said = {"no": "hands on neither $SENTINEL_ARGS nor", "unknown": "is not known: line 1 hands on a piece of them"}
    assert len(found.remarks) == (verdict != "yes")
    for remark in found.remarks:
        assert said[verdict] in remark
        assert "write $SENTINEL_ARGS behind its arguments in the line that starts it" in remark
    assert (found.profile.settings == ()) is (verdict == "no")
    assert (found.profile.capabilities == ()) is (verdict == "no")


@pytest.mark.parametrize(
    ("command", "script"),
    [
        ("bash train.sh", "train.sh"),
        ("bash -x train", "train"),
        ("srun --nodes 2 ./train.sh a", "./train.sh"),
        ("env A=1 /bin/sh train --lr 1", "train"),
        ("python train.py --out x.sh", None),
        ("python -m trainer --shell bash data", None),
        ("torchrun --nproc 2 -m pkg --log x.sh", None),
        ("./binary --hook x.sh", None),
        ("bash -eo pipefail train.sh", "train.sh"),
        ("bash -euo pipefail --rcfile r -- train", "train"),
        ("timeout -s INT 1h ./named", "./named"),
        ("./named a", "./named"),
        ("./python_script a", None),
        ("sh -lc run", "the text behind -c"),
        ("torchrun --nproc 2 train.py", None),
        ("bash", None),
    ],
)
def test_which_commands_are_scripts_of_the_shell(tmp_path: Path, command: str, script: str | None) -> None:
    (tmp_path / "named").write_text("#!/usr/bin/env bash\npython train.py\n")
    (tmp_path / "python_script").write_text("#!/usr/bin/env python3\n")
    (tmp_path / "named").chmod(0o755)
    found = script_of(command.split(), str(tmp_path))
    assert (None if found is None else found.named) == script


def test_a_text_behind_c_needs_a_name_in_front_of_what_is_added(tmp_path: Path) -> None:
    """The shell takes the first word behind the text for $0: `bash -c 'train "$@"' --resume x` trains with x."""
    for words, verdict in ((f'{SCRIPT} "$@"', "no"), (f"{SCRIPT} $SENTINEL_ARGS", "yes")):
        found = fitted(tmp_path, "megatron:root=out,lr=1,min_lr=0", command=("bash", "-c", words))
        assert (found.remarks == ()) is (verdict == "yes")
        assert all("the first word behind the text for $0, not for $1: write a name there" in one for one in found.remarks)
    assert fitted(tmp_path, "megatron:root=out,lr=1,min_lr=0", command=("bash", "-c", f'{SCRIPT} "$@"', "train")).remarks == ()


def test_a_default_of_the_trainer_is_no_value_where_a_script_may_hold_another(tmp_path: Path) -> None:
    """nanoGPT's own learning rate is 6e-4. Half of that is a third of the 1e-3 in the script."""
    script = "python train.py --out_dir=out --learning_rate=1e-3"
    found = fitted(tmp_path, "nanogpt:root=out", f'{script} "$@"')
    assert found.profile.settings == ("clip_norm", "precision")
    (remark,) = found.remarks
    assert remark.endswith("name it: --trainer nanogpt:lr=NUMBER,min_lr=NUMBER")
    assert "lr_scale" in fitted(tmp_path, "nanogpt:root=out,lr=1e-3,min_lr=1e-4", f'{script} "$@"').profile.settings


def test_so_it_is_with_a_file_of_settings(tmp_path: Path) -> None:
    words = ("python", "train.py", "config/train_gpt2.py", "--out_dir=out")
    found = fit_to_command(load_profile("nanogpt"), words, str(tmp_path))
    assert found.profile.settings == ("clip_norm", "precision")
    assert "needs --learning_rate and --min_lr, and config/train_gpt2.py may hold that" in found.remarks[0]
    assert fit_to_command(load_profile("nanogpt"), (*words, "--learning_rate=1", "--min_lr=1"), str(tmp_path)).remarks == ()
    assert fit_to_command(load_profile("nanogpt"), (words[0], words[1], words[3]), str(tmp_path)).remarks == ()
    yaml = ("torchrun", "pretrain_gpt.py", "--save", "out", "--lr", "1", "--yaml-cfg=a.yaml")
    assert "lr_scale" not in fit_to_command(load_profile("megatron"), yaml, str(tmp_path)).profile.settings


def test_a_command_without_a_value_is_taken_and_only_what_needs_the_value_is_not_offered(tmp_path: Path) -> None:
    """It was refused: a program whose learning rate is its own default could not be started at all."""
    command = ("python", "pretrain.py", "--save", "out")
    found = fit_to_command(load_profile("megatron"), command, str(tmp_path))
    assert found.remarks == (
        "--trainer: lr_scale is not offered: it needs --lr, which is not in the command; add it to the command, or name it: "
        "--trainer megatron:lr=NUMBER",
    )
    assert found.profile.settings == ("clip_norm", "checkpoint_interval", "data_seed")
    check_command(found.profile, command, str(tmp_path))
    own = found.profile.metadata.model_copy(update={"name": "mine"})
    (remark,) = fit_to_command(load_profile("megatron").model_copy(update={"metadata": own}), command, str(tmp_path)).remarks
    assert remark.endswith("name it: --trainer FILE:lr=NUMBER"), "a name that is not shipped would find nothing"
    named = fit_to_command(load_profile("megatron:lr=0.001"), command, str(tmp_path))
    assert named.remarks == ()
    assert "lr_scale" in named.profile.settings
    wrong = ("python", "pretrain.py", "--save", "out", "--lr", "fast")
    with pytest.raises(UsageError, match=r"needs --lr, which says 'fast', no number"):
        check_command(fit_to_command(load_profile("megatron"), wrong, str(tmp_path)).profile, wrong, str(tmp_path))


def test_a_value_that_is_no_number_and_a_script_that_is_no_file(tmp_path: Path) -> None:
    for written in ("fast", "nan", "inf"):
        with pytest.raises(UsageError, match=f"lr={written}: is no number"):
            load_profile(f"megatron:lr={written}")
    os.mkfifo(tmp_path / "pipe.sh")
    for name, why in (("pipe.sh", "is a FIFO"), ("absent.sh", "No such file"), (".", "Is a directory")):
        found = fit_to_command(load_profile("megatron:lr=1,min_lr=0"), ("bash", name), str(tmp_path))
        (remark,) = found.remarks
        assert f"whether {name} hands what a relaunch adds" in remark
        assert "is not known: it cannot be read" in remark
        assert why in remark
