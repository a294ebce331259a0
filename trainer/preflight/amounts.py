"""What a configuration amounts to: parameters, tokens, operations, and the memory of one rank. Pure; imports no torch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ..config import Config
from ..model.sizes import flops_per_token, rows_at_once, sizes_of

STATE_BYTES = 16  # a parameter: fp32 weight, gradient and two moments
BEFORE_BYTES = 4  # a parameter as it was, where the update is measured; on our own kernels none
GRADIENT_BYTES = 4  # a parameter, whole on every rank while micro-batches are summed: only their sum is reduced
SAVED_BYTES = 24  # a parameter: weight and two moments, in each of the two saves that may be in flight
ACTIVATION_BYTES = 34  # a token and unit of width in a block, 16-bit, attention not stored (Korthikanti et al. 2022, eq. 1)
SELECTIVE_BYTES, FULL_BYTES = 20, 4  # the same with matrix products kept, and with nothing but the input: stream and last branch
LOGIT_BYTES = 10  # a token and vocabulary entry: 16-bit logits, fp32 copy, gradient; on our own kernels there is no copy
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
    warm_up_steps: int
    memory_bytes: int  # of one rank, estimated
    host_bytes: int  # of one rank, for saves behind training
    corpus_tokens: int | None


def memory_of_rank(config: Config, ranks: int, padded: int) -> int:
    """Bytes, an estimate: state sharded over a replica's ranks, gathered weights (a copy on one rank too), summed gradients,
    activations of one micro-batch, logits."""
    sizes, model = sizes_of(config, padded), config.model
    word = 4 if config.numerics.precision == "fp32" else 2
    freed = max(0, sizes.layers - 2) * sizes.block if config.parallel.reshard else 0  # one in use, the next on its way
    gathered = (sizes.total - freed) * word
    summed = sizes.total * GRADIENT_BYTES if _micro_batch(config, ranks) < config.data.batch_size // ranks else 0
    tokens = _micro_batch(config, ranks) * config.data.seq_len
    kept = {"none": ACTIVATION_BYTES, "selective": SELECTIVE_BYTES, "full": FULL_BYTES}[config.parallel.recompute]
    activations = tokens * model.width * model.layers * kept * word // 2
    if model.fp32_softmax and config.parallel.recompute == "none":
        activations += tokens * config.data.seq_len * model.heads * model.layers * 4 * 2
    state = _sharded(config, ranks, padded) * (STATE_BYTES + BEFORE_BYTES * config.telemetry.updates)
    rows = rows_at_once(config, padded, tokens)
    # The head's gradient where it is summed over chunks: in float32, a chunk's part of it, and what it becomes.
    chunked = padded * model.width * (4 + 2 * word) if rows < tokens else 0
    return state + gathered + summed + activations + rows * padded * LOGIT_BYTES + chunked


def host_memory_of_rank(config: Config, ranks: int, padded: int) -> int:
    """Bytes of the host's memory that one rank keeps for saves behind training."""
    return _sharded(config, ranks, padded) * SAVED_BYTES if config.checkpoint.asynchronous else 0


def _sharded(config: Config, ranks: int, padded: int) -> int:
    """Parameters of one rank."""
    return -(-sizes_of(config, padded).total // (ranks // config.parallel.replicas))


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
    yield (
        "memory a rank",
        f"{plan.memory_bytes / 2**30:.2f} GiB, estimated (state, gathered weights, gradients, activations, logits)",
    )
    if plan.host_bytes:
        yield "host memory a rank", f"{plan.host_bytes / 2**30:.2f} GiB for saves behind training (checkpoint.asynchronous)"
    if plan.device is not None and plan.device.memory_bytes:
        yield "device", f"{plan.device.name}, {plan.device.memory_bytes / 2**30:.0f} GiB"
