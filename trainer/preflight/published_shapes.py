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


# name, parameters, width, layers, heads, and the width of the feed-forward where that is not four times the model's
_TABLE = """
SmolLM-135M       135M    576   30    9   1536
MobileLLM-350M    345M    960   32   15   2560
Qwen2-0.5B        494M    896   24   14   4864
MobileLLM-1B        1B   1280   54   20   3584
Pythia-70M         70M    512    6    8
GPT-2 124M        124M    768   12   12
GPT-3 125M        125M    768   12   12
OPT-125M          125M    768   12   12
Pythia-160M       160M    768   12   12
GPT-2 355M        355M   1024   24   16
GPT-3 350M        350M   1024   24   16
OPT-350M          350M   1024   24   16
Pythia-410M       410M   1024   24   16
BLOOM-560M        559M   1024   24   16
GPT-2 774M        774M   1280   36   20
GPT-3 760M        760M   1536   24   16
BLOOM-1.1B       1.07B   1536   24   16
Pythia-1B           1B   2048   16    8
Llama-3.2-1B     1.24B   2048   16   32
GPT-3 1.3B        1.3B   2048   24   24
OPT-1.3B          1.3B   2048   24   32
Pythia-1.4B       1.4B   2048   24   16
GPT-2 1.5B       1.56B   1600   48   25
BLOOM-1.7B       1.72B   2048   24   16
Gemma-2B          2.5B   2048   18    8  16384
GPT-3 2.7B        2.7B   2560   32   32
OPT-2.7B          2.7B   2560   32   32
Pythia-2.8B       2.8B   2560   32   32
BLOOM-3B            3B   2560   30   32
Llama-3.2-3B      3.2B   3072   28   24   8192
GPT-J-6B         6.05B   4096   28   16
GPT-3 6.7B        6.7B   4096   32   32
OPT-6.7B          6.7B   4096   32   32
LLaMA-7B          6.7B   4096   32   32  11008
Pythia-6.9B       6.9B   4096   32   32
BLOOM-7.1B        7.1B   4096   30   32
Falcon-7B         7.2B   4544   32   71
Llama-3-8B          8B   4096   32   32  14336
PaLM-8B           8.6B   4096   32   16
Gemma-7B          8.5B   3072   28   16  24576
Pythia-12B       11.8B   5120   36   40
GPT-3 13B          13B   5120   40   40
OPT-13B            13B   5120   40   40
LLaMA-13B          13B   5120   40   40  13824
GPT-NeoX-20B     20.6B   6144   44   64
OPT-30B            30B   7168   48   56
LLaMA-33B        32.5B   6656   60   52  17920
Falcon-40B         41B   8192   60  128
PaLM-62B           62B   8192   64   32
LLaMA-65B          65B   8192   80   64  22016
OPT-66B            66B   9216   64   72
Chinchilla         70B   8192   80   64
Llama-3-70B      70.6B   8192   80   64  28672
Command R+        104B  12288   64   96  33792
GPT-3 175B        175B  12288   96   96
OPT-175B          175B  12288   96   96
BLOOM-176B        176B  14336   70  112
Falcon-180B       180B  14848   80  232
Gopher            280B  16384   80  128
Llama-3-405B      405B  16384  126  128  53248
MT-NLG            530B  20480  105  128
PaLM-540B         540B  18432  118   48
"""
NAME_CHARS = 15
_UNITS = {"M": 1e6, "B": 1e9}


def _shape(row: str) -> Shape:
    """A row of the table. A name may hold a blank, and no other column may."""
    params, width, layers, heads, *ffn = row[NAME_CHARS:].split()
    ratio = int(ffn[0]) / int(width) if ffn else 4.0
    name, count = row[:NAME_CHARS].strip(), float(params[:-1]) * _UNITS[params[-1]]
    return Shape(name, count, int(width), int(layers), int(heads), ratio)


SHAPES = tuple(_shape(row) for row in _TABLE.strip().splitlines())
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
