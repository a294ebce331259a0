"""What a configuration amounts to: parameters, tokens, operations, and the memory of one rank. Pure; imports no torch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from trainer.config import Config
from trainer.model.sizes import flops_per_token, sizes_of

STATE_BYTES = 16  # a parameter: fp32 weight, gradient and two moments
ACTIVATION_BYTES = 34  # a token and unit of width in a block, 16-bit, attention not stored (Korthikanti et al. 2022, eq. 1)
SELECTIVE_BYTES, FULL_BYTES = 20, 2  # the same with matrix products kept, and with nothing but the input kept
LOGIT_BYTES = 10  # a token and vocabulary entry: 16-bit logits, fp32 copy, gradient
CHINCHILLA = 20  # tokens a parameter (Hoffmann et al. 2022)


@dataclass(frozen=True)
class Device:
    """One rank's. `memory_bytes` 0: not known."""

    name: str
    memory_bytes: int
    bf16: bool


@dataclass(frozen=True)
class Plan:
    """The derived numbers that facts and warnings share."""

    config: Config
    ranks: int
    device: Device | None
    params: int
    padded: int
    tokens: int  # over all steps
    step_tokens: int
    memory_bytes: int  # of one rank, estimated
    corpus_tokens: int | None


def memory_of_rank(config: Config, ranks: int, padded: int) -> int:
    """Bytes, an estimate: state sharded over a replica's ranks, gathered weights, activations of one micro-batch, logits."""
    sizes, model = sizes_of(config, padded), config.model
    shards = ranks // config.parallel.replicas
    word = 4 if config.numerics.precision == "fp32" else 2
    gathered = (sizes.total if not config.parallel.reshard else sizes.total - (sizes.layers - 2) * sizes.block) * word
    tokens = _micro_batch(config, ranks) * config.data.seq_len
    kept = {"none": ACTIVATION_BYTES, "selective": SELECTIVE_BYTES, "full": FULL_BYTES}[config.parallel.recompute]
    activations = tokens * model.width * model.layers * kept * word // 2
    if model.fp32_softmax and config.parallel.recompute == "none":
        activations += tokens * config.data.seq_len * model.heads * model.layers * 4 * 2
    state = sizes.total * STATE_BYTES // shards
    return state + (gathered if shards > 1 or word == 2 else 0) + activations + tokens * padded * LOGIT_BYTES


def _micro_batch(config: Config, ranks: int) -> int:
    share = config.data.batch_size // ranks
    return min(share, config.parallel.micro_batch or share)


def facts_of(plan: Plan) -> Iterator[tuple[str, str]]:
    config, padded = plan.config, plan.padded
    per_token = flops_per_token(config, padded)
    total = per_token * plan.tokens
    yield "parameters", f"{plan.params:,}" + (f" (declared {config.declared_params:,.0f})" if config.declared_params else "")
    yield "vocabulary", f"{config.model.vocab_size:,}, padded to {padded:,}"
    yield (
        "a step",
        f"{config.data.batch_size} sequences of {config.data.seq_len}: {plan.step_tokens:,} tokens over {plan.ranks} rank(s)",
    )
    yield (
        "the run",
        f"{config.schedule.steps:,} steps, {plan.tokens:,} tokens, {plan.tokens / plan.params:.1f} a parameter (Chinchilla: "
        f"{CHINCHILLA})",
    )
    if plan.corpus_tokens:
        yield "the data", f"{plan.corpus_tokens:,} training tokens: {plan.tokens / plan.corpus_tokens:.2f} epochs"
    yield "FLOPs", f"{per_token:.3g} a token, {per_token * plan.step_tokens:.3g} a step, {total:.3g} the run"
    yield "at 400 TFLOP/s a rank", f"{total / 4e14 / plan.ranks / 3600:.1f} hours"
    yield "memory a rank", f"{plan.memory_bytes / 2**30:.2f} GiB, estimated (state, gathered weights, activations, logits)"
    if plan.device is not None and plan.device.memory_bytes:
        yield "device", f"{plan.device.name}, {plan.device.memory_bytes / 2**30:.0f} GiB"
