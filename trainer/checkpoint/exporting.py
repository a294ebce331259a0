"""A checkpoint's model for other programs: one safetensors file and a config.json, as Hugging Face transformers loads them.

Learned positions make it a GPT-2 (GPT2LMHeadModel), rotary ones a Llama (LlamaForCausalLM). What has no place there is refused;
biases that a GPT-2 always has and this model does not are zeros. Rows that only pad the vocabulary are left out.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch

from sentinel.client import write_atomically

from ..config import Config
from ..config.loading import checked
from ..exits import ConfigError
from .contents import Contents
from .verifying import verify

ACTIVATIONS = {"gelu": "gelu_new", "relu": "relu", "squared_relu": "relu2"}  # what transformers calls them
NORM_EPS = 1e-5  # of trainer.model.norms
Named = Iterator[tuple[str, torch.Tensor]]


def export(path: Path, out: Path) -> dict[str, Any]:
    """Write `out` and config.json beside it; `architecture` and the number of `tensors`. Raises DataError for a checkpoint that
    does not hold, ConfigError for a model that neither has a place for, or a file that is there already."""
    config_file = out.with_name("config.json")
    for taken in (out, config_file):
        if taken.exists():
            raise ConfigError(f"{taken}: is there already; nothing is overwritten, name another --out")
    try:
        from safetensors import SafetensorError
        from safetensors.torch import save_file  # the only command here that needs it
    except ImportError:
        raise ConfigError("export writes safetensors, and that package is not installed; pip install safetensors") from None
    config, contents = checked(verify(path).manifest["config"]), Contents(path)
    is_gpt2 = config.model.positions == "learned"
    refuse_unsupported(config, str(path))
    named = gpt2_tensors(config, contents) if is_gpt2 else llama_tensors(config, contents)
    tensors = {name: tensor.contiguous() for name, tensor in named}
    described = gpt2_config(config, contents) if is_gpt2 else llama_config(config, contents)
    aside = out.with_name(f".{out.name}.{os.getpid()}.tmp")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        save_file(tensors, aside, metadata={"format": "pt"})
        os.rename(aside, out)
        write_atomically(config_file, (json.dumps(described, indent=2) + "\n").encode())
    except (OSError, SafetensorError) as error:
        with suppress(OSError):
            aside.unlink(missing_ok=True)
        raise ConfigError(f"--out {out}: cannot be written ({error}); make room, or name another place") from None
    return {"architecture": described["architectures"][0], "tensors": len(tensors)}


def refuse_unsupported(config: Config, where: str) -> None:
    """Raises ConfigError naming the settings that the architecture its positions ask for cannot express."""
    model = config.model
    gpt2 = model.positions == "learned"
    supported: dict[str, Iterable[Any]] = {"qk_norm": (False,), "embedding_norm": (False,)}
    if gpt2:
        supported |= {"norm": ("layernorm",), "activation": ACTIVATIONS, "kv_heads": (None, model.heads)}
    else:
        supported |= {"norm": ("rmsnorm",), "activation": ("swiglu",)}
    wrong = [name for name, values in supported.items() if getattr(model, name) not in values]
    if wrong:
        unsupported = ", ".join(f"model.{name}={json.dumps(getattr(model, name))}" for name in wrong)
        name = "GPT-2 (learned positions)" if gpt2 else "Llama (rotary positions)"
        raise ConfigError(f"{where}: {unsupported} has no place in {name}; only models of that shape can be exported")


def gpt2_tensors(config: Config, contents: Contents) -> Named:
    """GPT-2 keeps its matrices transposed (Conv1D: inputs by outputs), with queries, keys and values side by side."""
    rows = config.model.vocab_size
    yield "transformer.wte.weight", contents.parameter("embed.weight")[:rows]
    yield "transformer.wpe.weight", contents.parameter("place.weight")
    pairs = {"norm_attention": "ln_1", "attention.qkv": "attn.c_attn", "attention.out": "attn.c_proj"}
    pairs |= {"norm_mlp": "ln_2", "mlp.up": "mlp.c_fc", "mlp.down": "mlp.c_proj"}
    for layer in range(config.model.layers):
        for source, target in pairs.items():
            yield from _with_bias(contents, f"blocks.{layer}.{source}", f"transformer.h.{layer}.{target}")
    yield from _with_bias(contents, "norm", "transformer.ln_f")
    if not config.model.tied_head:
        yield "lm_head.weight", contents.parameter("head.weight")[:rows]


def _with_bias(contents: Contents, source: str, target: str) -> Named:
    weight = contents.parameter(f"{source}.weight")
    yield f"{target}.weight", weight.T if weight.dim() > 1 else weight
    has_bias = f"{source}.bias" in contents
    yield f"{target}.bias", contents.parameter(f"{source}.bias") if has_bias else torch.zeros(weight.shape[0])


def gpt2_config(config: Config, contents: Contents) -> dict[str, Any]:
    model = config.model
    return _common(config, "GPT2LMHeadModel", "gpt2") | {
        "n_positions": config.data.seq_len,
        "n_embd": model.width,
        "n_layer": model.layers,
        "n_head": model.heads,
        "n_inner": contents.shape("blocks.0.mlp.up.weight")[0],
        "activation_function": ACTIVATIONS[model.activation],
        "layer_norm_epsilon": NORM_EPS,
        "embd_pdrop": model.dropout,
        "resid_pdrop": model.dropout,
        "attn_pdrop": 0.0,
    }


def llama_tensors(config: Config, contents: Contents) -> Named:
    """Llama keeps queries, keys and values apart, and turns the same pairs of elements."""
    model = config.model
    yield "model.embed_tokens.weight", contents.parameter("embed.weight")[: model.vocab_size]
    pairs = {"norm_attention": "input_layernorm", "attention.out": "self_attn.o_proj", "norm_mlp": "post_attention_layernorm"}
    pairs |= {"mlp.gate": "mlp.gate_proj", "mlp.up": "mlp.up_proj", "mlp.down": "mlp.down_proj"}
    head_size = model.width // model.heads
    sizes = [count * head_size for count in (model.heads, *2 * (model.kv_heads or model.heads,))]
    kinds = ("weight", "bias") if model.bias else ("weight",)
    for layer in range(model.layers):
        block, target = f"blocks.{layer}", f"model.layers.{layer}"
        for kind in kinds:
            parts = contents.parameter(f"{block}.attention.qkv.{kind}").split(sizes)
            for letter, part in zip("qkv", parts, strict=True):
                yield f"{target}.self_attn.{letter}_proj.{kind}", part
        for source, name in pairs.items():
            for kind in kinds if "norm" not in source else ("weight",):
                yield f"{target}.{name}.{kind}", contents.parameter(f"{block}.{source}.{kind}")
    yield "model.norm.weight", contents.parameter("norm.weight")
    if not model.tied_head:
        yield "lm_head.weight", contents.parameter("head.weight")[: model.vocab_size]


def llama_config(config: Config, contents: Contents) -> dict[str, Any]:
    model = config.model
    return _common(config, "LlamaForCausalLM", "llama") | {
        "max_position_embeddings": config.data.seq_len,
        "hidden_size": model.width,
        "intermediate_size": contents.shape("blocks.0.mlp.up.weight")[0],
        "num_hidden_layers": model.layers,
        "num_attention_heads": model.heads,
        "num_key_value_heads": model.kv_heads or model.heads,
        "hidden_act": "silu",
        "rms_norm_eps": NORM_EPS,
        "rope_theta": model.rotary_base,
        "rope_parameters": {"rope_type": "default", "rope_theta": model.rotary_base},  # transformers 5 reads this one
        "attention_bias": model.bias,
        "mlp_bias": model.bias,
    }


def _common(config: Config, architecture: str, kind: str) -> dict[str, Any]:
    return {
        "architectures": [architecture],
        "model_type": kind,
        "vocab_size": config.model.vocab_size,
        "tie_word_embeddings": config.model.tied_head,
        "dtype": "float32",
        "bos_token_id": None,
        "eos_token_id": None,
    }
