"""A checkpoint taken out for other programs computes there what it computes here."""

import json
import re

import pytest
import torch
from torch.nn import functional as F

from trainer.checkpoint import name_of
from trainer.checkpoint.__main__ import main
from trainer.checkpoint.saving import Saver
from trainer.config.loading import checked
from trainer.model.gpt import GPT, build_model
from trainer.model.initial import fill_initial

GPT2 = {"activation": "gelu", "bias": True, "tied_head": True}
LLAMA = {"positions": "rotary", "norm": "rmsnorm", "activation": "swiglu", "kv_heads": 2}
SHAPES = {
    "gpt2": GPT2,
    "gpt2 without biases, with a head of its own": {"activation": "squared_relu", "ffn_width": 96},
    "gpt2 with relu": {"activation": "relu", "bias": True, "split_attention_scale": True},
    "llama": LLAMA,
    "llama with biases and a tied head": LLAMA | {"bias": True, "tied_head": True, "rotary_base": 500.0, "kv_heads": None},
}
PADDED = 128


def config_of(model):
    return checked({"model": {"vocab_size": 70, "layers": 2, "width": 64, "heads": 4, **model}, "data": {"seq_len": 24}})


@pytest.fixture
def saved(tmp_path, world):
    """saved(model settings) → the model, every parameter of it random, and a run directory with it at step 3."""

    def save(settings):
        config = config_of(settings)
        model = build_model(config, PADDED).to_empty(device="cpu")
        fill_initial(model, config)
        generator = torch.Generator().manual_seed(5)
        with torch.no_grad():  # norms and biases too, or a forgotten one would not show
            for parameter in model.parameters():
                parameter.add_(torch.randn(parameter.shape, generator=generator) * 0.1)
        saver = Saver(tmp_path, world, lambda: True)
        state = {f"model.{name}": parameter.detach() for name, parameter in model.named_parameters()}
        saver.save(3, state, {"world_size": 1, "config": config.model_dump(mode="json")})
        saver.wait()
        return model.eval(), tmp_path

    return save


def tokens():
    return torch.randint(0, 70, (2, 24), generator=torch.Generator().manual_seed(1))


@torch.no_grad()
def logits_of(model: GPT) -> torch.Tensor:
    return model(tokens()).logits[..., :70]


def read(folder):
    from safetensors.torch import load_file

    return load_file(folder / "model.safetensors"), json.loads((folder / "config.json").read_text())


def gpt2_logits(tensors, description):
    """GPT-2 as its published code reads these tensors, in the plainest words."""

    def linear(x, name):
        return x @ tensors[f"{name}.weight"] + tensors[f"{name}.bias"]

    def norm(x, name):
        return F.layer_norm(
            x, x.shape[-1:], tensors[f"{name}.weight"], tensors[f"{name}.bias"], description["layer_norm_epsilon"]
        )

    act = {"gelu_new": lambda x: F.gelu(x, approximate="tanh"), "relu": F.relu, "relu2": lambda x: F.relu(x) ** 2}
    x = tensors["transformer.wte.weight"][tokens()] + tensors["transformer.wpe.weight"][:24]
    for layer in range(description["n_layer"]):
        block = f"transformer.h.{layer}"
        parts = linear(norm(x, f"{block}.ln_1"), f"{block}.attn.c_attn").split(description["n_embd"], dim=-1)
        q, k, v = (part.unflatten(-1, (description["n_head"], -1)).transpose(1, 2) for part in parts)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)
        x = x + linear(mixed, f"{block}.attn.c_proj")
        inner = act[description["activation_function"]](linear(norm(x, f"{block}.ln_2"), f"{block}.mlp.c_fc"))
        x = x + linear(inner, f"{block}.mlp.c_proj")
    head = tensors["transformer.wte.weight" if description["tie_word_embeddings"] else "lm_head.weight"]
    return norm(x, "transformer.ln_f") @ head.T


@pytest.mark.parametrize("shape", [shape for shape in SHAPES if shape.startswith("gpt2")])
def test_a_gpt2_computes_the_same_from_the_exported_tensors(saved, tmp_path, shape, capsys):
    model, run = saved(SHAPES[shape])
    out = tmp_path / "hf" / "model.safetensors"
    assert main(["export", str(run), "3", "--out", str(out)]) == 0
    assert "GPT2LMHeadModel" in capsys.readouterr().out
    tensors, description = read(out.parent)
    assert tensors["transformer.wte.weight"].shape == (70, 64), "no row of the padding"
    torch.testing.assert_close(gpt2_logits(tensors, description), logits_of(model), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("shape", SHAPES)
def test_transformers_computes_the_same_logits(saved, tmp_path, shape, monkeypatch):
    transformers = pytest.importorskip("transformers")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    model, run = saved(SHAPES[shape])
    out = tmp_path / "hf" / "model.safetensors"
    assert main(["export", str(run), "3", "--out", str(out)]) == 0
    theirs, report = transformers.AutoModelForCausalLM.from_pretrained(out.parent, output_loading_info=True)
    assert not any(report[kind] for kind in ("missing_keys", "unexpected_keys", "mismatched_keys")), report
    with torch.no_grad():
        torch.testing.assert_close(theirs.eval()(tokens()).logits, logits_of(model), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"qk_norm": True}, "model.qk_norm=true has no place in GPT-2"),
        ({"activation": "swiglu"}, 'model.activation="swiglu" has no place in GPT-2'),
        ({"kv_heads": 2}, "model.kv_heads=2 has no place in GPT-2"),
        (LLAMA | {"norm": "layernorm", "embedding_norm": True}, 'model.embedding_norm=true, model.norm="layernorm" has no place'),
    ],
)
def test_what_has_no_place_there_is_named_and_nothing_is_written(saved, tmp_path, settings, says, capsys):
    _, run = saved(settings)
    assert main(["export", str(run), "3", "--out", str(tmp_path / "hf" / "model.safetensors")]) == 3
    assert re.search(re.escape(says), capsys.readouterr().err)
    assert not (tmp_path / "hf").exists()


def test_nothing_is_overwritten_and_nothing_damaged_is_taken_out(saved, tmp_path, capsys):
    _, run = saved(GPT2)
    out = tmp_path / "hf" / "model.safetensors"
    out.parent.mkdir()
    (out.parent / "config.json").write_text("{}")
    assert main(["export", str(run), "3", "--out", str(out)]) == 3
    assert "config.json: is there already" in capsys.readouterr().err
    (run / "checkpoints" / name_of(3) / ".metadata").write_bytes(b"")
    assert main(["export", str(run), "3", "--out", str(tmp_path / "other" / "model.safetensors")]) == 4
    assert ".metadata does not match its digest" in capsys.readouterr().err
