import os

import pytest
import torch

from tests.unit.trainer.in_process import train_here

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
