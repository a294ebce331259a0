"""Which kernels run, and who is told: the best there is, on every rank the same, and never another than was asked for."""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
import yaml
from torch import nn

from sentinel.client import Resume, Session, Spec
from tests.unit.trainer.in_process import train_here
from trainer import fused
from trainer.checkpoint import Verified
from trainer.command_line import parse_arguments
from trainer.config import Config
from trainer.config.loading import changed
from trainer.exits import ConfigError
from trainer.fused import Kernels, choose, norm_of_sum
from trainer.preflight import Examined, with_kernels
from trainer.start import changed_since

SMALL = ("--preset", "micro", "--set", "data.batch_size=1", "data.seq_len=8", "evaluation.batches=1")


def on(device, size=1):
    return SimpleNamespace(device=torch.device(device), size=size, control=None)


@pytest.fixture
def tier(monkeypatch):
    """Says what a rank has, and what its peers answer."""

    def there_is(name, *peers, why="built"):
        def load(asked, *, may_build):
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
    assert choose("torch", on("cpu")) == Kernels("torch", "asked for by --kernels torch")
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


def test_what_nobody_asked_for_and_cannot_be_loaded_is_done_without(tier):
    tier(OSError("_C.so: undefined symbol"))
    assert choose(None, on("cpu")) == Kernels("torch", "others cannot be loaded: _C.so: undefined symbol")


def test_the_environment_asks_by_name_too_and_settings_come_first(tier, monkeypatch):
    tier("cpu", why="g++ 12")
    monkeypatch.setenv("SENTINEL_KERNELS", "torch")
    assert choose(None, on("cpu")) == Kernels("torch", "asked for by SENTINEL_KERNELS=torch")
    assert choose("cpu", on("cpu")) == Kernels("cpu", "g++ 12")
    monkeypatch.setenv("SENTINEL_KERNELS", "cpu")
    with pytest.raises(ConfigError, match=r"SENTINEL_KERNELS=cpu: training is on cuda; hide the GPUs"):
        choose(None, on("cuda:0"))
    monkeypatch.setenv("SENTINEL_KERNELS", "tpu")
    with pytest.raises(ConfigError, match=r"SENTINEL_KERNELS='tpu': must be one of cuda, cpu, torch"):
        choose(None, on("cpu"))


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


def attempt(number, world, monkeypatch, run_dir, asked):
    """Two more steps of a supervised run, as its attempt `number`; the Run, its step lines, its receipt."""
    steps = 2 * number
    resume = Resume(steps - 2, f"checkpoints/step-{steps - 2:08d}") if steps > 2 else None
    session = Session(run_dir, Spec(number, resume=resume))
    words = ["--set", f"schedule.steps={steps}", *(["--kernels", asked] if asked else [])]
    run, lines = train_here(world, monkeypatch, run_dir, *SMALL, *words, session=session)
    return run, lines, json.loads(session.metrics_path.read_text().splitlines()[0])


def manifest_of(run_dir, step):
    return json.loads((run_dir / f"checkpoints/step-{step:08d}/manifest.json").read_text())


def test_a_resume_on_other_kernels_goes_on_where_it_was_and_claims_no_bits_of_those_before(world, monkeypatch, tmp_path, capsys):
    """From plain PyTorch to our own, on them, and back; what a supervisor would repeat begins at the checkpoint. Receipt, printed
    settings and manifest say which ran."""
    names = []
    for number, asked in enumerate(("torch", None, None, "torch"), start=1):
        run, lines, receipt = attempt(number, world, monkeypatch, tmp_path, asked)
        names.append(run.kernels.name)
        other = names[-2:-1] not in ([], names[-1:])
        assert receipt["kernels"] == {"name": run.kernels.name, "why": run.kernels.why}
        assert receipt["effective"]["deterministic"] is not other
        assert receipt["config_changed"].get("kernels") == (names[-2:] if other else None)
        assert receipt["effective"]["optimizer_steps"] == 2 * number - 2
        printed = capsys.readouterr().out
        assert f"# kernels: {run.kernels.name}: {run.kernels.why}" in printed
        assert yaml.safe_load(printed.split("start:")[0])["numerics"]["kernels"] == asked, "the whole is a file for --config"
        assert manifest_of(tmp_path, run.step)["kernels"] == run.kernels.name
        if number > 1:
            saved = manifest_of(tmp_path, 2 * number - 2)
            assert lines[0]["param_norm"] == pytest.approx(saved["metrics"]["param_norm"], rel=1e-12)
            assert lines[0]["adam_v_norm"] == pytest.approx(saved["metrics"]["adam_v_norm"], rel=1e-6)
            assert lines[0]["update_norm"] == pytest.approx(sum(saved["history"]["update_squares"]) ** 0.5)
            assert lines[0]["update_norm"] > 0


def test_a_manifest_that_names_no_kernels_was_written_by_plain_torch():
    run = SimpleNamespace(config=Config(), kernels=Kernels("cpu", "g++ 12"))
    older = Verified(Path("there"), 8, "", {"config": Config().model_dump(mode="json")})
    assert changed_since(run, older) == {"kernels": ["torch", "cpu"]}


def test_what_check_prints_says_which_would_run_here_and_why(monkeypatch):
    config = parse_arguments(["--preset", "micro", "--kernels", "torch"]).config
    assert with_kernels(Examined((), ()), config).facts == (("kernels", "torch: asked for by --kernels torch"),)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    elsewhere = changed(config, numerics={"kernels": "cuda"})
    assert "--kernels cuda: training is on cpu" in with_kernels(Examined((), ()), elsewhere).warnings[0], "and no refusal"


@pytest.mark.parametrize("norm", [nn.LayerNorm(8), nn.LayerNorm(8, bias=False), nn.RMSNorm(8, eps=1e-5)])
def test_a_norm_adds_its_branch_and_tells_of_the_sum(norm):
    stream, branch = torch.randn(2, 3, 8), torch.randn(2, 3, 8)
    for added in (branch, None):
        found = norm_of_sum(norm, stream, added)
        whole = stream if added is None else stream + added
        torch.testing.assert_close(found.normed, norm(whole))
        assert torch.equal(found.stream, whole)
        assert found.statistics.tolist() == pytest.approx([whole.square().sum().item(), whole.abs().max().item(), 0], rel=1e-6)
