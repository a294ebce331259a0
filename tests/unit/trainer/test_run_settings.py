import os
from dataclasses import replace

import pytest
import torch

from sentinel.client.settings import SETTINGS
from tests.setting_examples import example
from tests.unit.trainer.in_process import train_here
from trainer.control import LIVE
from trainer.run import effective, settings_at

WORDS = ("--preset", "micro", "--set", "schedule.steps=2", "data.batch_size=2", "data.seq_len=16", "evaluation.batches=1")


def test_only_deterministic_kernels_where_that_is_asked_for(world, monkeypatch, tmp_path):
    own = pytest.MonkeyPatch()
    own.setenv("CUBLAS_WORKSPACE_CONFIG", ":16:8")  # a person's own choice stays
    try:
        train_here(world, monkeypatch, tmp_path / "plain", *WORDS)
        assert not torch.are_deterministic_algorithms_enabled()
        train_here(world, monkeypatch, tmp_path / "same", *WORDS, "numerics.deterministic=true")
        assert torch.are_deterministic_algorithms_enabled()
        assert os.environ["CUBLAS_WORKSPACE_CONFIG"] == ":16:8"
    finally:
        own.undo()
        torch.use_deterministic_algorithms(False)
    plain, same = ((tmp_path / name / "checkpoints/step-00000002/__0_0.distcp").read_bytes() for name in ("plain", "same"))
    assert plain == same, "a CPU does not need it"


def test_every_live_setting_is_put_in_force_and_read_back(world, monkeypatch, tmp_path):
    run, _ = train_here(world, monkeypatch, tmp_path / "run", *WORDS, "schedule.kind=constant")
    for key in LIVE:
        assert key not in run.idle, f"{key}: {run.idle[key]}; add to WORDS, in this file, a configuration in which it acts"
        asked, usual = example(SETTINGS[key]), run.settings
        assert key in effective(run), f"{key}: the receipt lacks it; add it to `effective` in trainer/run.py"
        run.settings = replace(run.settings, **{key: asked})
        settings_at(run, run.step + 1)
        assert effective(run)[key] == pytest.approx(asked), f"{key}: `settings_at` in trainer/run.py does not put it in force"
        run.settings = usual
