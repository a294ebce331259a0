"""samples.jsonl is read whole or not at all, and what is wrong with it is said with its place."""

from __future__ import annotations

from math import isnan
from pathlib import Path

import pytest

from sentinel.client import SampleLog, Session, Spec
from sentinel.client.run_layout import samples_path, stream_path
from sentinel.errors import GiveUp
from sentinel.model.records import SampleSeen
from sentinel.telemetry import samples
from sentinel.telemetry.samples import has_stream, read_samples


def log_at(run_dir: Path) -> SampleLog:
    log = SampleLog(Session(run_dir, Spec(3)))
    log.start(resume_step=40, resume_digest="ab")
    return log


def test_what_a_trainer_wrote_is_read_back(tmp_path: Path) -> None:
    log = log_at(tmp_path)
    log.sample(7, loss=2.5, grad_norm=0.5, shard="a/b.py", offset=12)
    log.sample(5, loss=float("nan"))
    log.end()
    first, second = read_samples(tmp_path, 3)
    assert first == SampleSeen(7, 2.5, 0.5, "a/b.py", 12)
    assert isnan(second.loss)
    assert (second.index, second.grad_norm, second.shard, second.offset) == (5, None, "", None)


def test_a_second_try_writes_the_file_anew(tmp_path: Path) -> None:
    log_at(tmp_path).sample(7, loss=2.5)
    log_at(tmp_path).end()
    assert read_samples(tmp_path, 3) == ()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "ends after 0 samples, without its end line"),
        ('{"kind":"sample","index":1,"loss":2}\n', "ends after 1 samples, without its end line"),
        ('{"kind":"sample","index":-1,"loss":2}\n', ":1: is no sample"),
        ('{"kind":"sample","index":1}\n', ":1: is no sample"),
        ('{"kind":"sample","index":1,"loss":"much"}\n', ":1: is no sample"),
        ('{"kind":"sample","index":1,"loss":2,"grad_norm":[]}\n', ":1: is no sample"),
        ("[]\n", ":1: is no line of samples"),
        ('{"kind":"inspection"}\n{"ki', ":2: is no line of samples"),
        ('{"kind":"end","samples":2}\n', "holds 0 samples, and its end line says 2"),
    ],
)
def test_what_is_not_whole_is_refused_with_its_place(tmp_path: Path, text: str, said: str) -> None:
    path = samples_path(tmp_path, 3)
    path.parent.mkdir(parents=True)
    path.write_text(text)
    with pytest.raises(GiveUp, match=said) as caught:
        read_samples(tmp_path, 3)
    assert str(path) in str(caught.value)


def test_a_file_that_is_not_there_says_so(tmp_path: Path) -> None:
    with pytest.raises(GiveUp, match="the trainer wrote nothing about the samples"):
        read_samples(tmp_path, 3)


def test_a_file_without_end_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(samples, "LINES_MAX", 5)
    log = log_at(tmp_path)
    for index in range(10):
        log.sample(index, loss=2.0)
    with pytest.raises(GiveUp, match="holds more than 5 lines"):
        read_samples(tmp_path, 3)


def test_only_a_stream_with_something_in_it_says_that_it_trains(tmp_path: Path) -> None:
    assert not has_stream(tmp_path, 3)
    path = stream_path(tmp_path, 3)
    path.parent.mkdir(parents=True)
    path.touch()
    assert not has_stream(tmp_path, 3)
    path.write_text("{}\n")
    assert has_stream(tmp_path, 3)
