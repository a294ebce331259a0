"""How large a model is and how much it computes, from its settings alone, for --check before anything is built.

Imports no torch. A test compares the counts with the real model's for many mixes of options.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..config import Config
from ..config.sections import Model

ALIGNMENT = 128  # matrix units of GPUs run fastest on multiples of it (Megatron's --make-vocab-size-divisible-by)
# Logits that are there at once, where parallel.xent_chunk leaves it to us: 512 MiB in 16 bits, and as much again their gradient.
# A chunk is then 5,336 rows of GPT-2's vocabulary or 2,092 of Llama 3's: products that large still fill a GPU, and reading and
# writing the sum of the weight's gradient once a chunk is about a twentieth of their time by arithmetic (trainer/LOG.md).
LOGITS_AT_ONCE = 1 << 28


@dataclass(frozen=True)
class Sizes:
    """Parameters by what they are for. `block` is one of `layers` equal ones; `head` is 0 where it is the token embedding."""

    embedding: int
    positions: int
    norms: int  # outside the blocks
    block: int
    layers: int
    head: int

    @property
    def total(self) -> int:
        return self.embedding + self.positions + self.norms + self.layers * self.block + self.head

    @property
    def multiplied(self) -> int:
        """The N of 6N: all that a token is multiplied with. Learned positions are only looked up, and so is a token embedding
        that is not also the head."""
        return self.total - self.positions - (self.embedding if self.head else 0)


def padded_vocabulary(vocabulary: int, world_size: int) -> int:
    """The vocabulary up to a multiple of 128 and of the ranks, so that every rank holds the same share of the rows.

    Belongs to the run: a resume over another number of ranks keeps the padding it finds, shares may then be uneven.
    """
    multiple = math.lcm(ALIGNMENT, world_size)
    return -(-vocabulary // multiple) * multiple


def rows_at_once(config: Config, padded: int, rows: int) -> int:
    """How many of a forward pass's rows go through the head and its loss together: parallel.xent_chunk, or by the size of the
    logits. `rows` itself where they are not cut. Chunks chosen by size are nearly equal, and multiples of ALIGNMENT."""
    if config.parallel.xent_chunk is not None:
        return min(rows, config.parallel.xent_chunk)
    parts = -(-rows * padded // LOGITS_AT_ONCE)
    if parts <= 1:
        return rows
    return min(rows, -(-rows // (parts * ALIGNMENT)) * ALIGNMENT)


def sizes_of(config: Config, padded: int) -> Sizes:
    """Exact counts; `padded` is the padded vocabulary."""
    model = config.model
    embedding = padded * model.width
    return Sizes(
        embedding=embedding,
        positions=config.data.seq_len * model.width if model.positions == "learned" else 0,
        norms=_norm(model) + (_layer_norm(model) if model.embedding_norm else 0),
        block=_attention(model) + _feed_forward(model) + 2 * _norm(model),
        layers=model.layers,
        head=0 if model.tied_head else embedding,
    )


def flops_per_token(config: Config, padded: int, seq_len: int | None = None) -> int:
    """Floating-point operations of forward and backward for one token: 6N + 12·layers·width·time (PaLM, Chowdhery et al. 2022,
    appendix B). N is `Sizes.multiplied`. As there, causal attention counts as if it were full, and recomputation counts nothing.

    `seq_len`: of the sequences at hand, where a curriculum cuts them; default data.seq_len.
    """
    time = config.data.seq_len if seq_len is None else seq_len
    return 6 * sizes_of(config, padded).multiplied + 12 * config.model.layers * config.model.width * time


def _linear(model: Model, inputs: int, outputs: int) -> int:
    return inputs * outputs + (outputs if model.bias else 0)


def _layer_norm(model: Model) -> int:
    return model.width * (2 if model.bias else 1)


def _norm(model: Model) -> int:
    return _layer_norm(model) if model.norm == "layernorm" else model.width


def _attention(model: Model) -> int:
    projected = (model.heads + 2 * model.key_heads) * model.head_size
    norms = 2 * model.head_size if model.qk_norm else 0
    return _linear(model, model.width, projected) + _linear(model, model.width, model.width) + norms


def _feed_forward(model: Model) -> int:
    into = 2 if model.activation == "swiglu" else 1
    return into * _linear(model, model.width, model.ffn_size) + _linear(model, model.ffn_size, model.width)
