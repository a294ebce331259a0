"""Shapes of published models, by which a lopsided one is noticed without knowing how large it was meant to be. Pure.

Sources: GPT-2 (Radford et al. 2019), GPT-3 (Brown et al. 2020, table 2.1), OPT (Zhang et al. 2022), BLOOM (BigScience 2022),
LLaMA (Touvron et al. 2023), Llama 3 (Grattafiori et al. 2024), Pythia (Biderman et al. 2023), GPT-NeoX-20B (Black et al. 2022),
PaLM (Chowdhery et al. 2022), Gopher and Chinchilla (Hoffmann et al. 2022), MT-NLG (Smith et al. 2022), Falcon (Almazrouei et al.
2023); for the others the config.json that was published with the weights. GPT-3's 13B has a width of 5140 in its table, which 40
heads do not divide: 5120 stands here, as in OPT. BigScience's 104B: bigscience-workshop/bigscience,
train/tr8-104B-wide/chronicles.md, experiments 1 to 7. Its later shape (11600 wide, 64 layers) is 181 times as wide as deep, as
others of its size are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Shape:
    """`ffn`: the width of the feed-forward over that of the model."""

    name: str
    params: float
    width: int
    layers: int
    heads: int
    ffn: float = 4.0

    @property
    def aspect(self) -> float:
        """Width over depth."""
        return self.width / self.layers


SHAPES = (
    Shape("SmolLM-135M", 135e6, 576, 30, 9, 1536 / 576),
    Shape("MobileLLM-350M", 345e6, 960, 32, 15, 2560 / 960),
    Shape("Qwen2-0.5B", 494e6, 896, 24, 14, 4864 / 896),
    Shape("MobileLLM-1B", 1.0e9, 1280, 54, 20, 3584 / 1280),
    Shape("Pythia-70M", 70e6, 512, 6, 8),
    Shape("GPT-2 124M", 124e6, 768, 12, 12),
    Shape("GPT-3 125M", 125e6, 768, 12, 12),
    Shape("OPT-125M", 125e6, 768, 12, 12),
    Shape("Pythia-160M", 160e6, 768, 12, 12),
    Shape("GPT-2 355M", 355e6, 1024, 24, 16),
    Shape("GPT-3 350M", 350e6, 1024, 24, 16),
    Shape("OPT-350M", 350e6, 1024, 24, 16),
    Shape("Pythia-410M", 410e6, 1024, 24, 16),
    Shape("BLOOM-560M", 559e6, 1024, 24, 16),
    Shape("GPT-2 774M", 774e6, 1280, 36, 20),
    Shape("GPT-3 760M", 760e6, 1536, 24, 16),
    Shape("BLOOM-1.1B", 1.07e9, 1536, 24, 16),
    Shape("Pythia-1B", 1.0e9, 2048, 16, 8),
    Shape("Llama-3.2-1B", 1.24e9, 2048, 16, 32, 4.0),
    Shape("GPT-3 1.3B", 1.3e9, 2048, 24, 24),
    Shape("OPT-1.3B", 1.3e9, 2048, 24, 32),
    Shape("Pythia-1.4B", 1.4e9, 2048, 24, 16),
    Shape("GPT-2 1.5B", 1.56e9, 1600, 48, 25),
    Shape("BLOOM-1.7B", 1.72e9, 2048, 24, 16),
    Shape("Gemma-2B", 2.5e9, 2048, 18, 8, 8.0),
    Shape("GPT-3 2.7B", 2.7e9, 2560, 32, 32),
    Shape("OPT-2.7B", 2.7e9, 2560, 32, 32),
    Shape("Pythia-2.8B", 2.8e9, 2560, 32, 32),
    Shape("BLOOM-3B", 3.0e9, 2560, 30, 32),
    Shape("Llama-3.2-3B", 3.2e9, 3072, 28, 24, 8192 / 3072),
    Shape("GPT-J-6B", 6.05e9, 4096, 28, 16),
    Shape("GPT-3 6.7B", 6.7e9, 4096, 32, 32),
    Shape("OPT-6.7B", 6.7e9, 4096, 32, 32),
    Shape("LLaMA-7B", 6.7e9, 4096, 32, 32, 11008 / 4096),
    Shape("Pythia-6.9B", 6.9e9, 4096, 32, 32),
    Shape("BLOOM-7.1B", 7.1e9, 4096, 30, 32),
    Shape("Falcon-7B", 7.2e9, 4544, 32, 71),
    Shape("Llama-3-8B", 8.0e9, 4096, 32, 32, 3.5),
    Shape("PaLM-8B", 8.6e9, 4096, 32, 16),
    Shape("Gemma-7B", 8.5e9, 3072, 28, 16, 8.0),
    Shape("Pythia-12B", 11.8e9, 5120, 36, 40),
    Shape("GPT-3 13B", 13e9, 5120, 40, 40),
    Shape("OPT-13B", 13e9, 5120, 40, 40),
    Shape("LLaMA-13B", 13e9, 5120, 40, 40, 13824 / 5120),
    Shape("GPT-NeoX-20B", 20.6e9, 6144, 44, 64),
    Shape("OPT-30B", 30e9, 7168, 48, 56),
    Shape("LLaMA-33B", 32.5e9, 6656, 60, 52, 17920 / 6656),
    Shape("Falcon-40B", 41e9, 8192, 60, 128),
    Shape("PaLM-62B", 62e9, 8192, 64, 32),
    Shape("LLaMA-65B", 65e9, 8192, 80, 64, 22016 / 8192),
    Shape("OPT-66B", 66e9, 9216, 64, 72),
    Shape("Chinchilla", 70e9, 8192, 80, 64),
    Shape("Llama-3-70B", 70.6e9, 8192, 80, 64, 3.5),
    Shape("Command R+", 104e9, 12288, 64, 96, 2.75),
    Shape("GPT-3 175B", 175e9, 12288, 96, 96),
    Shape("OPT-175B", 175e9, 12288, 96, 96),
    Shape("BLOOM-176B", 176e9, 14336, 70, 112),
    Shape("Falcon-180B", 180e9, 14848, 80, 232),
    Shape("Gopher", 280e9, 16384, 80, 128),
    Shape("Llama-3-405B", 405e9, 16384, 126, 128, 3.25),
    Shape("MT-NLG", 530e9, 20480, 105, 128),
    Shape("PaLM-540B", 540e9, 18432, 118, 48),
)
ALIKE = 4.0  # a model is compared with those from a fourth of its parameters to four times as many
OUTSIDE = 1.5  # so far beyond all of them a shape is no longer theirs
FFN_MIN, FFN_MAX = 2.0, 10.0  # published: 2.67 to 8
HEAD_MIN = 32  # published: 64 to 256


def models_alike(params: float, shapes: tuple[Shape, ...] = SHAPES) -> tuple[Shape, ...]:
    return tuple(shape for shape in shapes if params / ALIKE <= shape.params <= params * ALIKE)


def judge_shape(shape: Shape, shapes: tuple[Shape, ...] = SHAPES) -> Iterator[str]:
    """A sentence for each way in which it is like no published model. Nothing is said of an aspect without models to compare."""
    alike = models_alike(shape.params, shapes)
    width, layers, heads, ffn, aspect = shape.width, shape.layers, shape.heads, shape.ffn, shape.aspect
    if alike:
        least, most = min(alike, key=lambda shape: shape.aspect), max(alike, key=lambda shape: shape.aspect)
        if not least.aspect / OUTSIDE <= aspect <= most.aspect * OUTSIDE:
            usual = max(1, round(width * 2 / (least.aspect + most.aspect)))
            shown = f"{aspect:,.0f}" if aspect >= 10 else f"{aspect:.1f}"
            yield (
                f"model.width {width} with {layers} layers: {shown} times as wide as deep, and published models of this size are "
                f"{least.aspect:.0f} ({least.name}) to {most.aspect:.0f} ({most.name}). BigScience's 104B was 512 (16384 wide, "
                f"32 layers) for six experiments that diverged. For this width, model.layers={usual} is usual"
            )
    if not FFN_MIN <= ffn <= FFN_MAX:
        yield (
            f"model.ffn_width is {ffn:.2f} times model.width: published models have 2.67 (SwiGLU) or 4, and 8 at most. "
            "BigScience's 104B had 1.25 by mistake and trained as a lopsided 58B for five experiments. Leave model.ffn_width out"
        )
    if width // heads < HEAD_MIN:
        yield (
            f"model.width/model.heads = {width // heads}: published models have heads of 64 to 256; so narrow a one matches "
            f"little. Write --set model.heads={max(1, width // 64)} or fewer"
        )
