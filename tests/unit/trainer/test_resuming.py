"""What a resume takes over from the run it continues, and which run it will not continue."""

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from sentinel.client import Resume
from trainer.checkpoint import Verified
from trainer.config import Config
from trainer.config.loading import changed
from trainer.exits import DataError
from trainer.resuming import refuse_another_run
from trainer.run import agree_on_padding, build_run

SAVED = json.loads(Config().model_dump_json())


def test_other_data_is_refused_with_both_digests():
    run = SimpleNamespace(config=Config(), loader=SimpleNamespace(corpus=SimpleNamespace(digest="bbb")))
    refuse_another_run(run, Verified(Path("there"), 8, "", {"config": SAVED, "corpus": "bbb"}))
    with pytest.raises(DataError, match=r"there: was trained on data of digest aaa, data.path None holds bbb"):
        refuse_another_run(run, Verified(Path("there"), 8, "", {"config": SAVED, "corpus": "aaa"}))


def test_the_same_data_may_lie_elsewhere():
    """Which data it is, its digest tells; a month's run outlives a file system."""
    moved = changed(Config(), data={"path": "/elsewhere"})
    run = SimpleNamespace(config=moved, loader=SimpleNamespace(corpus=SimpleNamespace(digest="bbb")))
    refuse_another_run(run, Verified(Path("there"), 8, "", {"config": SAVED, "corpus": "bbb"}))
    with pytest.raises(DataError, match=r"data.path /elsewhere holds bbb"):
        refuse_another_run(run, Verified(Path("there"), 8, "", {"config": SAVED, "corpus": "aaa"}))


def test_a_resume_keeps_the_padding_of_the_first_launch_on_any_number_of_ranks(tmp_path, launch, world):
    """384 rows for 256 tokens: the first launch was on three ranks."""
    folder = tmp_path / "checkpoints" / "step-00000004"
    folder.mkdir(parents=True)
    (folder / "manifest.json").write_text(json.dumps({"step": 4, "files": {}, "padded_vocab": 384}))
    assert agree_on_padding(launch, None, tmp_path, world) == 256, "it does not resume"
    assert agree_on_padding(replace(launch, resume=True), None, tmp_path, world) == 384
    asked = SimpleNamespace(spec=SimpleNamespace(resume=Resume(4, "checkpoints/step-00000004", ""), reads_digests=()))
    assert agree_on_padding(launch, asked, tmp_path, world) == 384
    beats = []
    beat = lambda step, phase: beats.append((step, phase))  # noqa: E731
    session = SimpleNamespace(spec=asked.spec, run_dir=tmp_path, may_commit=None, heartbeat=beat)
    weights = list(build_run(launch, session, world).model.parameters())
    assert weights[0].shape[0] == 384
    assert all(weight.isnan().all() for weight in weights), "no time is spent on weights that a checkpoint will fill"
    assert beats == [(0, "compile"), (0, "init")], "kernels may be compiled for minutes, and that is no hang"
    unasked = SimpleNamespace(spec=SimpleNamespace(resume=None))
    assert agree_on_padding(launch, unasked, tmp_path, world) == 256
