"""Counts from the settings alone, against the real model and against published numbers."""

import math
import subprocess
import sys

import pytest

from tests.unit.trainer.test_model import MIXES, settings
from trainer.config.loading import load_config, preset_names
from trainer.model.gpt import build_model
from trainer.model.sizes import flops_per_token, padded_vocabulary, sizes_of

# Of the released models, with their unpadded vocabularies (transformers counts them so).
PUBLISHED = {"gpt2-124m": 124_439_808, "gpt2-350m": 354_823_168, "gpt2-1.5b": 1_557_611_200, "llama-1b": 1_235_814_400}


def real_count(config, padded):
    return sum(parameter.numel() for parameter in build_model(config, padded).parameters())


@pytest.mark.parametrize("mix", MIXES)
def test_the_count_is_that_of_the_real_model(mix):
    for more in ({}, {"bias": True, "norm": "rmsnorm"}, {"tied_head": True, "embedding_norm": True, "qk_norm": True}):
        config = settings(MIXES[mix] | more)
        sizes = sizes_of(config, 128)
        assert sizes.total == real_count(config, 128)
        block = sum(parameter.numel() for parameter in build_model(config, 128).blocks[0].parameters())
        assert sizes.block == block


@pytest.mark.parametrize("name", preset_names())
def test_a_preset_is_as_large_as_it_says(name):
    config = load_config(name)
    padded = padded_vocabulary(config.model.vocab_size, 8)
    assert sizes_of(config, padded).total == real_count(config, padded) == pytest.approx(config.declared_params, rel=0.03)


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_shape_of_others_has_their_number_of_parameters(name):
    config = load_config(name)
    assert sizes_of(config, config.model.vocab_size).total == PUBLISHED[name]


def test_work_counts_what_is_multiplied_and_attention_by_length():
    config = load_config("gpt2-124m")
    model = config.model
    multiplied = sizes_of(config, 50304).total - 1024 * 768  # tied: the embedding is the head; positions are looked up
    assert flops_per_token(config, 50304) == 6 * multiplied + 12 * 12 * 768 * 1024
    assert flops_per_token(config, 50304) - flops_per_token(config, 50304, 512) == 12 * model.layers * model.width * 512
    tiny = load_config("tiny")
    assert flops_per_token(tiny, 256, 0) == 6 * (sizes_of(tiny, 256).total - 256 * 128 - 128 * 128)


@pytest.mark.parametrize(
    ("vocabulary", "ranks", "padded"), [(50257, 8, 50304), (256, 1, 256), (257, 2, 384), (50257, 3, 50304), (100, 96, 384)]
)
def test_a_vocabulary_is_padded_to_128_and_to_the_ranks(vocabulary, ranks, padded):
    assert padded_vocabulary(vocabulary, ranks) == padded
    assert padded >= vocabulary
    assert padded - vocabulary < math.lcm(128, ranks)


def test_sizes_need_no_torch():
    code = "import sys, trainer.model.sizes; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0
