"""Every setting of a training run, in sections: its type, its limits, its default, what it is for and where it comes from.

`--set SECTION.FIELD=VALUE` and the keys of a YAML file use these names. A field marked `fixed` belongs to the run
and not to the attempt: a resume that changes it is refused. Imports no torch, so that --help and a wrong value answer at once.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

Precision = Literal["fp32", "bf16", "fp16"]


class Section(BaseModel):
    """Frozen; unknown keys, infinities and numbers written as words are mistakes."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


def setting(default: Any, description: str, *, fixed: bool = False, **limits: Any) -> Any:
    return Field(default, description=description, json_schema_extra={"fixed": fixed}, **limits)


def fixed(default: Any, description: str, **limits: Any) -> Any:
    """A setting that may not change between the attempts of one run."""
    return setting(default, description, fixed=True, **limits)


class Model(Section):
    """The decoder. Sizes in elements."""

    vocab_size: int = fixed(
        256, "tokens the data may hold; padded to a multiple of 128 and of the ranks at the first launch", ge=2
    )
    layers: int = fixed(4, "blocks", ge=1)
    width: int = fixed(128, "of the residual stream; must divide by heads", ge=1)
    heads: int = fixed(4, "of the queries", ge=1)
    kv_heads: int | None = fixed(
        None, "of keys and values, shared by groups of queries (GQA, Ainslie et al. 2023); null: heads", ge=1
    )
    ffn_width: int | None = fixed(None, "of the feed-forward; null: 4·width, for swiglu 8/3·width up to a multiple of 64", ge=1)
    positions: Literal["learned", "rotary"] = fixed("learned", "learned embeddings (GPT-2) or rotary (Su et al. 2021)")
    rotary_base: float = fixed(10_000.0, "longest wavelength of rotary positions over 2π", gt=1)
    norm: Literal["layernorm", "rmsnorm"] = fixed("layernorm", "before attention and feed-forward, and before the head")
    activation: Literal["gelu", "relu", "squared_relu", "swiglu"] = fixed(
        "squared_relu", "gelu is GPT-2's tanh form; squared_relu is Primer's (So et al. 2021), three times cheaper on a CPU"
    )
    bias: bool = fixed(False, "on linear layers and layer norms, as GPT-2 has them")
    qk_norm: bool = fixed(False, "RMS norm of each head's query and key (Dehghani et al. 2023): bounds attention logits")
    tied_head: bool = fixed(False, "the head is the token embedding (Press and Wolf 2017)")
    embedding_norm: bool = fixed(False, "a layer norm right after the embedding (BLOOM, Le Scao et al. 2022)")
    fp32_softmax: bool = setting(
        False, "attention scores and softmax in fp32 whatever the precision (GLM-130B); slower, whole matrix"
    )
    split_attention_scale: bool = setting(
        False, "scale queries and keys by d^-1/4 each, not their product by d^-1/2 (Megatron, BLOOM)"
    )
    dropout: float = setting(0.0, "on attention output, feed-forward output and embeddings", ge=0, lt=1)

    @property
    def head_size(self) -> int:
        """Elements of one head's query, key or value."""
        return self.width // self.heads

    @property
    def key_heads(self) -> int:
        """Heads of the keys and of the values, with the default filled in."""
        return self.heads if self.kv_heads is None else self.kv_heads

    @property
    def ffn_size(self) -> int:
        """Width of the feed-forward, with the default filled in."""
        if self.ffn_width is not None:
            return self.ffn_width
        return -(-8 * self.width // (3 * 64)) * 64 if self.activation == "swiglu" else 4 * self.width

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.width % self.heads:
            below, above = self.width // self.heads * self.heads, -(-self.width // self.heads) * self.heads
            remedy = f"use {below} or {above}" if below else f"use {above}"
            raise ValueError(f"width {self.width} does not divide by heads {self.heads}; {remedy}")
        if self.heads % self.key_heads:
            fitting = ", ".join(str(count) for count in range(1, self.heads + 1) if self.heads % count == 0)
            raise ValueError(f"heads {self.heads} does not divide by kv_heads {self.kv_heads}; use one of {fitting}")
        if self.positions == "rotary" and self.head_size % 2:
            raise ValueError(
                f"positions rotary turns pairs of elements, but a head has {self.head_size} "
                f"(width {self.width} over heads {self.heads}); make that even, or use learned positions"
            )
        return self


class Init(Section):
    """Initial weights; each parameter has a random stream of its own, so they do not depend on the number of ranks."""

    seed: int = fixed(1337, "of the initial weights and of dropout", ge=0)
    std: Annotated[float, Field(gt=0)] | Literal["small", "wang"] = fixed(
        0.02, "a number, or small: √(2/(5·width)) (Nguyen and Salazar 2019; BLOOM), or wang: √(1/(3·width)) (BLOOM 104B, MT-NLG)"
    )
    scale_outputs: bool = fixed(True, "layers that write to the residual stream by another 1/√(2·layers) (GPT-2)")


class Data(Section):
    path: str | None = setting(
        None,
        "folder of prepared shards, or Megatron's FILE without .bin; null: Python's own sources as bytes. May move between "
        "attempts: what it holds must stay the same, and a resume compares the digest",
        min_length=1,
    )
    seed: int | None = fixed(None, "of the data order; null: init.seed", ge=0)
    seq_len: int = fixed(128, "tokens a sequence", ge=2)
    batch_size: int = fixed(16, "sequences a step over all ranks", ge=1)


class Optim(Section):
    """AdamW (Loshchilov and Hutter 2019)."""

    lr: float = setting(2e-3, "peak learning rate", gt=0)
    betas: tuple[Annotated[float, Field(ge=0, lt=1)], Annotated[float, Field(ge=0, lt=1)]] = setting(
        (0.9, 0.95), "0.95 for the second: 0.999 forgets a spike too slowly with large batches (PaLM, OPT, Llama)", strict=False
    )
    eps: float = setting(1e-8, "in Adam's denominator", gt=0)
    weight_decay: float = setting(0.1, "on matrices; never on norms and biases", ge=0)
    clip_norm: float = setting(1.0, "the global gradient norm is clipped to this", gt=0)


class Schedule(Section):
    steps: int = setting(600, "optimizer steps of the whole run; the schedule ends there", ge=1)
    kind: Literal["cosine", "linear", "wsd", "constant"] = setting(
        "cosine", "after the warm-up; wsd: stable, then a linear decay"
    )
    warmup_steps: int = setting(40, "linear warm-up", ge=0)
    warmup_samples: int | None = setting(
        None, "linear warm-up over so many sequences instead (Megatron); null: warmup_steps", ge=1
    )
    min_lr_ratio: float = setting(0.1, "where the decay ends, as a share of optim.lr", ge=0, le=1)
    decay_share: float = setting(0.2, "wsd: the last part of the steps that decays (Hu et al. 2024, MiniCPM)", gt=0, le=1)
    weight_decay_end: float | None = setting(None, "weight decay moves there along a cosine (DINO); null: constant", ge=0)
    batch_ramp: tuple[int, int, int] | None = fixed(
        None,
        "[start, increment, samples]: the batch grows to data.batch_size within so many sequences (GPT-3, BLOOM)",
        strict=False,
    )
    seq_ramp: tuple[int, int] | None = fixed(
        None, "[start, steps]: sequences are cut to a length that grows to data.seq_len (Li et al. 2021), in eights", strict=False
    )


class Stability(Section):
    z_loss: float = setting(0.0, "weight of the squared log-partition in the loss, PaLM's 1e-4", ge=0)
    embedding_grad_shrink: float = setting(1.0, "share of the gradient that reaches the embedding, GLM-130B's 0.1", gt=0, le=1)
    zclip: float | None = setting(
        None, "clip a gradient norm so many deviations above its running mean (Kumar et al. 2025: 2.5)", gt=0
    )
    zclip_decay: float = setting(0.97, "of ZClip's running mean and variance", gt=0, lt=1)
    gate: Literal["off", "nonfinite", "outlier"] = setting(
        "nonfinite",
        "leave out an update that is not finite, or also one whose loss or gradient norm is an outlier (OLMo's skip step)",
    )
    gate_window: int = setting(128, "accepted steps an outlier is judged against", ge=8, le=4096)
    gate_sigmas: float = setting(6.0, "robust deviations above the window's median that make an outlier", gt=0)
    gate_patience: int = setting(20, "outliers in a row that are taken for a new level: the window starts anew", ge=1)
    max_skipped: int = setting(100, "updates in a row that may be left out before the run ends with code 5", ge=1)


class Numerics(Section):
    """Parameters, gradients' reduction and optimizer stay fp32; `precision` is that of forward and backward."""

    precision: Precision = setting("fp32", "fp16 comes with dynamic loss scaling")
    kernels: Literal["cuda", "cpu", "torch"] | None = setting(None, "of norms, loss and optimizer; null: the best there is")
    attention: Literal["auto", "cudnn", "flash", "torch"] = setting(
        "auto", "on a GPU, the fused kernel tried first; auto: cuDNN's on Hopper and Blackwell; torch: the order of its release"
    )
    deterministic: bool = setting(False, "on a GPU: only kernels that give the same bits each time; a CPU always does")
    loss_scale: float = setting(65536.0, "fp16: the first loss scale; above 2^127 float32 has no room", gt=0, le=2.0**127)
    loss_scale_growth_steps: int = setting(2000, "fp16: clean updates until the scale doubles", ge=1)
    loss_scale_hysteresis: int = setting(1, "fp16: overflows until the scale is halved (Megatron's 2)", ge=1)
    loss_scale_min: float = setting(2.0**-24, "fp16: never below", gt=0)


class Parallel(Section):
    replicas: int = setting(1, "HSDP: copies of the model, each sharded over ranks/replicas; 1: one copy over all (FSDP2)", ge=1)
    micro_batch: int | None = setting(
        None, "sequences a rank takes at once, accumulated to its share of a batch; null: all at once", ge=1
    )
    xent_chunk: int | None = setting(
        None,
        "rows (tokens) whose logits are there at once; null: all of a micro-batch's, in chunks past 2^28 logits. As many as a "
        "micro-batch has, or more: never in chunks",
        ge=1,
    )
    recompute: Literal["none", "selective", "full"] = setting(
        "none", "activation checkpointing: of every block, or selective: keep matrix products and attention, recompute the rest"
    )
    compile: bool = setting(False, "torch.compile each block")
    reshard: bool = setting(False, "free a block's gathered weights after forward: less memory, one more gather")
    threads: int = setting(1, "torch threads a rank", ge=1)


class Checkpoint(Section):
    every: int = setting(50, "steps; and always after the last one", ge=1)
    asynchronous: bool = setting(True, "write behind the next steps, two in flight at most; a supervised stop waits for them")
    keep_last: int = setting(3, "without a supervisor: newest checkpoints to keep; a supervisor prunes by its own policy", ge=1)
    keep_every: int | None = setting(None, "without a supervisor: keep each that many steps apart for ever; null: none", ge=1)


class Evaluation(Section):
    every: int = setting(0, "steps between held-out evaluations; 0: only after the last step", ge=0)
    batches: int = setting(16, "of data.batch_size sequences, always the same ones", ge=1)


class Telemetry(Section):
    layers: bool = setting(True, "per-layer activation and gradient statistics in every step line")
    updates: bool = setting(True, "norm of the update and Adam's variance in every step line")
    peak_tflops: float | None = setting(None, "of one device at this precision, for mfu; null: known devices only", gt=0)


class Config(Section):
    """One run. Sizes are global (over all ranks) unless noted."""

    model: Model = Model()
    init: Init = Init()
    data: Data = Data()
    optim: Optim = Optim()
    schedule: Schedule = Schedule()
    stability: Stability = Stability()
    numerics: Numerics = Numerics()
    parallel: Parallel = Parallel()
    checkpoint: Checkpoint = Checkpoint()
    evaluation: Evaluation = Evaluation()
    telemetry: Telemetry = Telemetry()
    declared_params: float | None = setting(None, "how large this model is said to be; --check compares", gt=0)

    @property
    def data_seed(self) -> int:
        return self.init.seed if self.data.seed is None else self.data.seed

    @model_validator(mode="after")
    def _ramps_fit(self) -> Config:
        batch, length = self.data.batch_size, self.data.seq_len
        if self.schedule.batch_ramp is not None:
            start, increment, samples = self.schedule.batch_ramp
            if not (0 < start < batch and increment > 0 and (batch - start) % increment == 0 and samples > 0):
                raise ValueError(
                    f"schedule.batch_ramp [{start}, {increment}, {samples}]: must start below data.batch_size {batch} and reach "
                    "it in whole increments within 1 sample or more; write for example "
                    f"[{max(1, batch // 4)}, {max(1, batch // 4)}, {100 * batch}]"
                )
        if self.schedule.seq_ramp is not None:
            start, steps = self.schedule.seq_ramp
            if not (2 <= start <= length and steps > 0):
                raise ValueError(
                    f"schedule.seq_ramp [{start}, {steps}]: must start between 2 and data.seq_len {length}, "
                    "and last 1 step or more"
                )
        return self
