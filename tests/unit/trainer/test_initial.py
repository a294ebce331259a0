"""Initial weights: by name and seed, never by ranks."""

import pytest
import torch

from tests.unit.trainer.test_model import settings
from trainer.config.loading import load_config
from trainer.model.gpt import build_model
from trainer.model.initial import initial_weights, std_of
from trainer.parallel import shard
from trainer.step import seed_dropout

SHAPE = torch.Size((256, 128))


def test_they_are_the_same_on_every_machine_and_in_every_process():
    """A change here means that runs begun before it cannot be repeated."""
    first = initial_weights(load_config("tiny"), "embed.weight", SHAPE)[0, :4]
    torch.testing.assert_close(first, torch.tensor([0.00402579, -0.00459478, 0.00789845, 0.01551610]), rtol=1e-5, atol=1e-7)


def test_a_stream_belongs_to_one_name_and_one_seed():
    config = load_config("tiny")
    again, other = initial_weights(config, "a.weight", SHAPE), initial_weights(config, "b.weight", SHAPE)
    assert torch.equal(initial_weights(config, "a.weight", SHAPE), again)
    reseeded = initial_weights(load_config("tiny", sets=["init.seed=1"]), "a.weight", SHAPE)
    for unlike in (other, reseeded):
        assert abs(torch.corrcoef(torch.stack((again.flatten(), unlike.flatten())))[0, 1]) < 0.03


def test_rows_that_pad_the_vocabulary_change_no_other():
    config = load_config("tiny")
    few, many = (initial_weights(config, "embed.weight", torch.Size((rows, 128))) for rows in (256, 384))
    assert torch.equal(many[:256], few)


def test_a_sharded_model_holds_them_and_a_second_one_too(world):
    config = settings({"bias": True, "qk_norm": True})
    model = shard(build_model(config, 128), world, config)
    for name, parameter in model.named_parameters():
        assert torch.equal(parameter.full_tensor(), initial_weights(config, name, parameter.shape)), name
    parameters = dict(model.named_parameters())
    assert (parameters["norm.weight"] == 1).all()
    assert (parameters["blocks.0.attention.norm_key.weight"] == 1).all()
    assert (parameters["blocks.1.mlp.up.bias"] == 0).all()


def test_without_initial_weights_whatever_is_not_loaded_shows(world):
    model = shard(build_model(settings(), 128), world, settings(), initial=False)
    assert all(parameter.to_local().isnan().all() for parameter in model.parameters())


@pytest.mark.parametrize(("std", "expected"), [(0.02, 0.02), ("small", (2 / (5 * 128)) ** 0.5), ("wang", (1 / (3 * 128)) ** 0.5)])
def test_their_size_is_the_formulas(std, expected):
    config = load_config("tiny", sets=[f"init.std={std}"])
    for name in ("blocks.0.attention.qkv.weight", "embed.weight", "place.weight"):
        assert initial_weights(config, name, SHAPE).std().item() == pytest.approx(expected, rel=0.02)
    for name in ("blocks.3.attention.out.weight", "blocks.0.mlp.down.weight"):
        assert initial_weights(config, name, SHAPE).std().item() == pytest.approx(expected / 8**0.5, rel=0.02)
    assert std_of(load_config("tiny", sets=["init.scale_outputs=false"]), "blocks.0.mlp.down.weight") == 0.02


def test_dropout_draws_by_step_and_rank_whatever_drew_before():
    def mask(step, rank, **model):
        seed_dropout(settings({"dropout": 0.5} | model), step, rank)
        return torch.rand(8)

    first = mask(3, 0)
    assert torch.equal(mask(3, 0), first)
    assert not torch.equal(mask(3, 1), first)
    assert not torch.equal(mask(4, 0), first)
    assert not torch.equal(mask(3, 0, dropout=0.0), mask(3, 0, dropout=0.0))  # nothing is seeded where nothing is dropped
