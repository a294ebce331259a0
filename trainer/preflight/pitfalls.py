"""Known causes of failed runs, checked in a configuration: each warning names the value, the reason, its source, and what to
write instead. Pure; imports no torch."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

from .amounts import Plan
from .published_shapes import Shape, judge_shape

PARAMS_OFF = 0.10
STD_OFF = 1.5
LARGE_BATCH_TOKENS = 250_000
SMALL_PARAMS = 10_000_000  # below it a recipe is a toy's, and nobody lost weeks to it
LR_OF_GPT3 = (
    (125e6, 6e-4),
    (350e6, 3e-4),
    (760e6, 2.5e-4),
    (1.3e9, 2e-4),
    (2.7e9, 1.6e-4),
    (6.7e9, 1.2e-4),
    (13e9, 1e-4),
    (175e9, 0.6e-4),
)
LR_OFF = 3.0
CHUNK_ROWS = 1024  # below it a product of a head is bound by reading its weight and its gradient, by arithmetic
EPOCHS_MAX = 4  # repeating data up to four times costs little (Muennighoff et al. 2023)


def warnings_of(plan: Plan) -> tuple[str, ...]:
    return tuple(text for check in CHECKS for text in check(plan))


def _params(plan: Plan) -> Iterator[str]:
    declared, model = plan.config.declared_params, plan.config.model
    if declared and abs(plan.params / declared - 1) > PARAMS_OFF:
        usual = 8 / 3 if model.activation == "swiglu" else 4
        yield (
            f"declared_params {declared:,.0f}, and the model has {plan.params:,}: {plan.params / declared:.2f} times as many. "
            "BLOOM's 104B trained as a lopsided 58B for five experiments, because its feed-forward was not 4 times as wide; "
            f"here model.ffn_width is {model.ffn_size / model.width:.2f} times model.width (usual: {usual:.2f})"
        )


def _std(plan: Plan) -> Iterator[str]:
    width, std = plan.config.model.width, plan.config.init.std
    small = math.sqrt(2 / (5 * width))
    if isinstance(std, float) and std > STD_OFF * small and plan.params > SMALL_PARAMS:
        yield (
            f"init.std {std:g}: too large for a width of {width}; √(2/(5·width)) is {small:.4f}. BLOOM's 104B diverged at 0.02 "
            "and went on with 0.006. Write --set init.std=small"
        )
    if not plan.config.init.scale_outputs and plan.config.model.layers >= 12:
        yield (
            f"init.scale_outputs false with {plan.config.model.layers} layers: the residual stream's variance grows with each of "
            "them (GPT-2 scales by 1/√(2·layers)). Write --set init.scale_outputs=true"
        )


def _warm_up(plan: Plan) -> Iterator[str]:
    schedule, beta2 = plan.config.schedule, plan.config.optim.betas[1]
    steps, samples = plan.warm_up_steps, schedule.warmup_samples
    written = f"schedule.warmup_steps {steps}" if samples is None else f"schedule.warmup_samples {samples} ({steps} steps)"
    needed = math.ceil(2 / (1 - beta2) - 1e-9)
    enough = max(needed, 100)
    remedy = f"warmup_steps={enough}" if samples is None else f"warmup_samples={enough * plan.config.data.batch_size}"
    if steps < needed and plan.params > SMALL_PARAMS:
        yield (
            f"{written}: too short for β2 {beta2:g}; Adam's second moment needs about 2/(1-β2) = {needed} steps to mean "
            f"something (Ma and Yarats 2021). Write --set schedule.{remedy} or more"
        )
    if steps >= schedule.steps:
        yield (f"{written}: the whole run of {schedule.steps} steps is warm-up. Train longer, or warm up shorter")


def _optimizer(plan: Plan) -> Iterator[str]:
    optim = plan.config.optim
    if optim.betas[1] >= 0.99 and plan.step_tokens >= LARGE_BATCH_TOKENS:
        yield (
            f"optim.betas [{optim.betas[0]:g}, {optim.betas[1]:g}] with {plan.step_tokens:,} tokens a step: so slow a second "
            "moment is stale when gradients change, and spikes follow (PaLM, OPT-175B and Llama use 0.95). Write --set "
            f"optim.betas=[{optim.betas[0]:g},0.95]"
        )
    usual = next((lr for params, lr in reversed(LR_OF_GPT3) if plan.params >= 0.8 * params), None)
    if usual is not None and optim.lr > LR_OFF * usual:
        yield (
            f"optim.lr {optim.lr:g}: {optim.lr / usual:.0f} times what GPT-3 trained {plan.params / 1e6:,.0f} million parameters "
            f"with (Brown et al. 2020, table 2.1); OPT-175B lost weeks to a rate too high. Write --set optim.lr={usual:g}, or "
            "test it small"
        )
    if optim.clip_norm > 5:
        yield f"optim.clip_norm {optim.clip_norm:g}: clips nothing that matters; 1.0 is usual, OPT-175B went down to 0.3"
    if plan.config.stability.gate == "off":
        yield "stability.gate off: one NaN gradient ends the run's weights. Write --set stability.gate=nonfinite"


def _precision(plan: Plan) -> Iterator[str]:
    if plan.config.numerics.precision == "fp16" and (plan.device is None or plan.device.bf16):
        where = f"{plan.device.name} has bf16" if plan.device is not None else "every accelerator since Ampere has bf16"
        yield (
            f"numerics.precision fp16: {where}, whose range needs no loss scale; OPT-175B's and BLOOM-104B's collapses of the "
            "scale cost weeks, BLOOM-176B in bf16 had none. Write --set numerics.precision=bf16"
        )


def _batch(plan: Plan) -> Iterator[str]:
    config = plan.config
    share, micro = config.data.batch_size // plan.ranks, config.parallel.micro_batch
    if micro is not None and micro < share and share % micro:  # a part larger than the share is the whole share
        yield (
            f"parallel.micro_batch {micro}: does not divide a rank's share of {share} sequences, so the last one is of "
            f"{share % micro}; compiled blocks then compile twice. Write --set parallel.micro_batch={math.gcd(share, micro)}"
        )
    if plan.corpus_tokens and plan.tokens > EPOCHS_MAX * plan.corpus_tokens:
        yield (
            f"schedule.steps {config.schedule.steps}: {plan.tokens / plan.corpus_tokens:.0f} epochs over {plan.corpus_tokens:,} "
            f"tokens; past {EPOCHS_MAX} the loss falls and what is learned does not (Muennighoff et al. 2023). Use more data, or "
            "fewer steps"
        )


def _chunks(plan: Plan) -> Iterator[str]:
    chunk, micro = plan.config.parallel.xent_chunk, plan.config.parallel.micro_batch
    share = plan.config.data.batch_size // plan.ranks
    rows = min(share, micro or share) * plan.config.data.seq_len
    if chunk is not None and chunk < min(rows, CHUNK_ROWS) and plan.params > SMALL_PARAMS:
        yield (
            f"parallel.xent_chunk {chunk}: the head's {rows:,} rows go through it in {-(-rows // chunk):,} matrix products, each "
            f"with too few rows to fill a GPU, and each adds to a gradient of {plan.padded:,} x {plan.config.model.width:,}. "
            f"Write --set parallel.xent_chunk={CHUNK_ROWS} or more, or null"
        )


def _shapes(plan: Plan) -> Iterator[str]:
    model = plan.config.model
    if plan.params > SMALL_PARAMS:
        yield from judge_shape(
            Shape("this one", plan.params, model.width, model.layers, model.heads, model.ffn_size / model.width)
        )
    if model.head_size % 8 or model.head_size > 256:
        yield (
            f"model.width/model.heads = {model.head_size}: fused attention wants head sizes that divide by 8, up to 256; slower "
            "kernels would run"
        )
    if plan.device is not None and 0 < plan.device.memory_bytes < plan.memory_bytes:
        yield (
            f"memory: about {plan.memory_bytes / 2**30:.0f} GiB a rank, and {plan.device.name} has "
            f"{plan.device.memory_bytes / 2**30:.0f}. Lower parallel.micro_batch, write --set parallel.recompute=selective (or "
            "full), parallel.reshard=true, or use more ranks"
        )


CHECKS: tuple[Callable[[Plan], Iterator[str]], ...] = (_params, _std, _warm_up, _optimizer, _precision, _batch, _chunks, _shapes)
