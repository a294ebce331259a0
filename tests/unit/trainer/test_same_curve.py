"""The trainer against the oracle: a plain single-process loop of the same model on the same data comes to the same losses, on
plain PyTorch and on our own kernels."""

import pytest

from tests.plain_gpt import PlainTrainer, initial_weights_of, weights_of
from tests.unit.trainer.in_process import train_here
from trainer import fused
from trainer.data_order import Position

STEPS = 40
NAMES = ("grad_norm", "param_norm", "update_norm", "adam_v_norm", "adam_v_max", "activation_max/block-01", "logit_max")
WORDS = ("--preset", "micro", "--set", f"schedule.steps={STEPS}", "data.batch_size=8", "data.seq_len=64", "evaluation.batches=1")


@pytest.mark.parametrize(
    ("settings", "loss_off", "weight_off"),
    [
        pytest.param(["numerics.precision=fp32"], 1e-5, 1e-3, marks=pytest.mark.slow),
        (["numerics.precision=bf16"], 5e-3, 2e-2),
        (["parallel.micro_batch=5", "model.positions=rotary", "model.norm=rmsnorm", "model.activation=swiglu"], 1e-5, 1e-3),
    ],
)
def test_the_loss_curve_is_that_of_a_plain_loop_within_rounding(world, monkeypatch, tmp_path, settings, loss_off, weight_off):
    run, lines = train_here(world, monkeypatch, tmp_path / "torch", *WORDS, *settings, "--kernels", "torch")
    assert not run.kernels.fused
    monkeypatch.setattr(fused.Kernels, "fused", True)  # on a machine that can build none, too: then in their plain form
    own, own_lines = train_here(world, monkeypatch, tmp_path / "own", *WORDS, *settings)
    print(f"our kernels: {own.kernels.name}")
    padded = run.model.embed.num_embeddings
    plain = PlainTrainer(run.config, initial_weights_of(run.config, padded))
    position, losses = Position.first(run.config.data_seed), []
    for step in range(1, STEPS + 1):
        indices, behind = position.take(run.schedule.batch_size(step))
        batch = run.loader.batch(indices, position, 0, 1)
        losses.append(plain.train_step(*batch, lr=run.schedule.lr(step)).item())
        position = behind
    assert losses[-1] < losses[0] - 1.0, "it must have learned something, or equal curves mean little"
    for kernels, trained, stream in (("torch", run, lines), ("our own", own, own_lines)):
        differences = [abs(line["loss"] - loss) for line, loss in zip(stream, losses, strict=True)]
        print(f"{settings}, {kernels}: largest difference of a loss {max(differences):.2e}, {losses[0]:.3f} to {losses[-1]:.3f}")
        assert max(differences) < loss_off, kernels
        weights = weights_of(trained.model)
        for name, value in plain.model.weights.items():
            assert (weights[name] - value).norm() < weight_off * value.norm(), (kernels, name)
    for name in NAMES:
        assert [line[name] for line in own_lines] == pytest.approx([line[name] for line in lines], rel=20 * loss_off), name
