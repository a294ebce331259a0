"""What is no log is named as what it is, and says what to do."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from sentinel.cli.replay import FORMAT_HELP
from sentinel.policy_files.loading import load_policy, shipped_policy_path
from sentinel.replay import replay_file
from sentinel.telemetry.csv_log import named_by_file
from sentinel.telemetry.log_formats import FORMATS, UnreadableLog, open_log

POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a2146\nsize 12345\n"


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("loss.csv", POINTER, ("is a Git LFS pointer", "git lfs pull")),
        ("golden_values.json", POINTER, ("is a Git LFS pointer", "git lfs pull")),
        ("trainer_state.json", POINTER, ("is a Git LFS pointer", "git lfs pull")),
        ("events.out.tfevents.1.host", POINTER, ("is a Git LFS pointer", "git lfs pull")),
        ("log.txt", b"/annex/objects/SHA256E-s100--0123456789abcdef.txt\n", ("is a git-annex pointer", "git annex get")),
        ("log.csv", b"<!DOCTYPE html>\n<html><head><title>404 Not\n Found</title>", ("a page of HTML or XML (404 Not Found)",)),
        ("log.csv", b"\n <html lang=en><body>Sign in", ("a page of HTML", "fetch the file itself")),
        ("table.parquet", b"PAR1\x15\x04", ("Parquet", "as CSV")),
        ("paper.pdf", b"%PDF-1.4\n", ("a PDF",)),
        ("state.pkl", b"\x80\x04}q\x01.", ("pickled", "as CSV")),
        ("noise.bin", bytes(random.Random(1).choices(range(1, 256), k=500)), ("a binary file",)),
    ],
)
def test_it_is_named(tmp_path: Path, name: str, content: bytes, words: tuple[str, ...]) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(UnreadableLog) as caught:
        open_log(path)
    assert str(path) in caught.value.message
    for word in words:
        assert word in caught.value.message


def test_the_help_names_every_format() -> None:
    assert f"auto, {', '.join(FORMATS[:-1])} or {FORMATS[-1]}." == FORMAT_HELP


def test_a_pointer_is_none_of_any_format(tmp_path: Path) -> None:
    (tmp_path / "loss.csv").write_bytes(POINTER)
    with pytest.raises(UnreadableLog, match="git lfs pull"):
        open_log(tmp_path / "loss.csv", "csv")


def test_a_directory_of_pointers_is_named_by_the_first(tmp_path: Path) -> None:
    (tmp_path / "events.out.tfevents.1.host").write_bytes(POINTER)
    with pytest.raises(UnreadableLog, match=r"events\.out\.tfevents\.1\.host: is a Git LFS pointer"):
        open_log(tmp_path)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("header.csv", "step,loss\n"),
        ("words.csv", "step,loss\nx,y\n"),
        ("far.csv", f"step,loss\n{10**17},2.5\n"),
        ("events.out.tfevents.1.host", "neither events nor anything else"),
    ],
)
def test_a_log_without_a_step_could_not_be_read(tmp_path: Path, name: str, content: str) -> None:
    path = tmp_path / name
    path.write_text(content)
    result = replay_file(path, load_policy(shipped_policy_path("default")))
    assert result.error.startswith(f"{path}: read as ")
    assert "not one step in it" in result.error


def test_what_a_log_without_a_loss_has_is_known(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("step,epoch,acc\n1,2,3\n2,3,4\n")
    result = replay_file(path, load_policy(shipped_policy_path("default")))
    assert (result.rows, result.has_loss, result.metrics) == (2, False, {"epoch", "acc"})


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("run-20240101-tag-train_loss.csv", "loss"),
        ("run-.-tag-loss.csv", "loss"),
        ("run-a-tag-eval_loss.csv", "val_loss"),
        ("grad_norm.csv", "grad_norm"),
        ("table.csv", ""),
    ],
)
def test_tensorboard_writes_the_tag_into_the_name(tmp_path: Path, name: str, known: str) -> None:
    path = tmp_path / name
    path.write_text("Wall time,Step,Value\n1700000000.1,1,2.5\n1700000001.1,2,2.4\n")
    assert named_by_file(path) == known
    reader = open_log(path)[1]
    rows = [*reader.poll(0.0), *reader.finish()]
    assert [(row.step, row.time_s, dict(row.metrics)) for row in rows] == [
        (1, 1700000000.1, {known or "Value": 2.5}),
        (2, 1700000001.1, {known or "Value": 2.4}),
    ]
