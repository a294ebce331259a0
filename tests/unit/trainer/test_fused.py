"""Which kernels run, and who is told: the best there is, on every rank the same, and never another than was asked for."""

import json
from types import SimpleNamespace

import pytest
import torch
import yaml
from torch import nn

from tests.unit.trainer.in_process import train_here
from trainer import fused
from trainer.command_line import parse_arguments
from trainer.exits import ConfigError
from trainer.fused import Kernels, choose, norm_of_sum

SMALL = ("--preset", "micro", "--set", "schedule.steps=2", "data.batch_size=1", "data.seq_len=8", "evaluation.batches=1")


def on(device, size=1):
    return SimpleNamespace(device=torch.device(device), size=size, control=None)


@pytest.fixture
def tier(monkeypatch):
    """Says what a rank has, and what its peers answer."""

    def there_is(name, *peers, why="built"):
        def load(asked):
            if isinstance(name, Exception):
                raise name
            return SimpleNamespace(name=name, why=why)

        monkeypatch.setattr(fused.tiers, "load", load)
        answer = lambda found, own, group: found.__setitem__(slice(None), [own, *peers])  # noqa: E731
        monkeypatch.setattr(fused.dist, "all_gather_object", answer)

    return there_is


def test_the_best_there_is_for_the_training_device_runs(tier):
    tier("cuda")
    assert choose(None, on("cuda:0")) == Kernels("cuda", "built")
    tier("cpu", why="g++ 12")
    assert choose(None, on("cpu")) == choose("cpu", on("cpu")) == Kernels("cpu", "g++ 12")
    assert choose("torch", on("cpu")) == Kernels("torch", "asked for")
    tier("torch", why="no compiler")
    assert choose(None, on("cpu")) == Kernels("torch", "no compiler")
    assert not choose(None, on("cpu")).fused


def test_kernels_of_another_device_are_not_used(tier):
    tier("cpu", why="no nvcc")
    assert choose(None, on("cuda:0")) == Kernels("torch", "training is on cuda, and there are kernels for cpu alone (no nvcc)")
    with pytest.raises(ConfigError, match=r"--kernels cpu: training is on cuda; hide the GPUs .*, or use --kernels cuda"):
        choose("cpu", on("cuda:0"))
    with pytest.raises(ConfigError, match=r"--kernels cuda: training is on cpu; there is no GPU here; use --kernels cpu"):
        choose("cuda", on("cpu"))


def test_what_was_asked_for_and_cannot_be_had_is_refused_with_the_reason(tier):
    tier(RuntimeError("g++: not found"))
    with pytest.raises(ConfigError, match=r"--kernels cpu: g\+\+: not found; use --kernels torch"):
        choose("cpu", on("cpu"))
    tier("torch", why="no compiler")
    with pytest.raises(ConfigError, match=r"--kernels cpu: no compiler; use --kernels torch"):
        choose("cpu", on("cpu"))


def test_a_rank_without_them_holds_the_others_back(tier):
    tier("cpu", Kernels("torch", "no compiler"))
    assert choose(None, on("cpu", 2)) == Kernels("torch", "rank 1 has no other: no compiler")
    tier("cpu", ConfigError("--kernels cpu: cannot be had here"))
    with pytest.raises(ConfigError, match=r"cannot be had here \(rank 1\)"):
        choose("cpu", on("cpu", 2))


def test_the_command_line_and_the_settings_say_the_same():
    assert parse_arguments([]).config.numerics.kernels is None
    given = parse_arguments(["--kernels", "torch"]).config
    assert given == parse_arguments(["--set", "numerics.kernels=torch"]).config
    assert parse_arguments(["--set", "numerics.kernels=torch", "--kernels", "cpu"]).config.numerics.kernels == "cpu"
    with pytest.raises(ConfigError, match="--kernels: invalid choice: 'tpu'"):
        parse_arguments(["--kernels", "tpu"])
    with pytest.raises(ConfigError, match=r"--set numerics.kernels 'tpu'"):
        parse_arguments(["--set", "numerics.kernels=tpu"])


def test_the_receipt_the_printed_settings_and_the_manifest_say_which_run(world, monkeypatch, tmp_path, capsys):
    for asked, words in (("torch", ["--kernels", "torch"]), (None, ["--set", "schedule.steps=3", "--resume"])):
        run, _ = train_here(world, monkeypatch, tmp_path, *SMALL, *words)
        receipts = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
        receipt = [line for line in receipts if line["kind"] == "start"][-1]
        assert receipt["kernels"] == {"name": run.kernels.name, "why": run.kernels.why}
        printed = capsys.readouterr().out
        assert f"# kernels: {run.kernels.name}: {run.kernels.why}" in printed
        assert yaml.safe_load(printed.split("start:")[0])["numerics"]["kernels"] == asked, "the whole is a file for --config"
        folder = tmp_path / f"checkpoints/step-{run.step:08d}"
        assert json.loads((folder / "manifest.json").read_text())["kernels"] == run.kernels.name
        if asked is None and run.kernels.fused:
            assert receipt["config_changed"]["kernels"] == ["torch", run.kernels.name], "another rounding from here on"


@pytest.mark.parametrize("norm", [nn.LayerNorm(8), nn.LayerNorm(8, bias=False), nn.RMSNorm(8, eps=1e-5)])
def test_a_norm_adds_its_branch_and_tells_of_the_sum(norm):
    stream, branch = torch.randn(2, 3, 8), torch.randn(2, 3, 8)
    for added in (branch, None):
        found = norm_of_sum(norm, stream, added)
        whole = stream if added is None else stream + added
        torch.testing.assert_close(found.normed, norm(whole))
        assert torch.equal(found.stream, whole)
        assert found.told.tolist() == pytest.approx([whole.square().sum().item(), whole.abs().max().item(), 0], rel=1e-6)
