"""The model against a plain one written without it, and what it says of itself."""

import pytest
import torch
from torch.nn import functional as F

from tests.plain_gpt import PlainGPT
from trainer.config import Config
from trainer.model.attention import exact_attention
from trainer.model.gpt import GPT, magnitudes, shrink_gradient
from trainer.model.initial import fill_initial

PADDED, TIME = 128, 12
LLAMA = {"positions": "rotary", "norm": "rmsnorm", "activation": "swiglu", "kv_heads": 2, "tied_head": True}
GPT2 = {"activation": "gelu", "bias": True, "tied_head": True}
MIXES = {
    "the presets micro and tiny": {},
    "gpt2": GPT2,
    "llama": LLAMA,
    "llama with qk_norm and another base": LLAMA | {"qk_norm": True, "rotary_base": 500e3, "tied_head": False},
    "one key head, relu, own ffn width": {"kv_heads": 1, "activation": "relu", "ffn_width": 40},
    "bloom's embedding norm": {"embedding_norm": True, "bias": True},
    "exact softmax": {"fp32_softmax": True},
    "exact softmax, grouped, split scale": LLAMA | {"fp32_softmax": True, "split_attention_scale": True},
    "split scale": GPT2 | {"split_attention_scale": True, "qk_norm": True},
}  # fmt: skip


def settings(model=None, **sections):
    sizes = {"vocab_size": 100, "layers": 3, "width": 32, "heads": 4}
    return Config.model_validate({"model": sizes | (model or {}), "data": {"seq_len": 16}, **sections})


def built(config, seed=0, fused=False):
    """On the CPU, every parameter moved off its initial value, so that norms and biases count."""
    model = GPT(config, PADDED, fused)
    fill_initial(model, config)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator) * 0.1)
    return model


def tokens(time=TIME):
    return torch.randint(0, 100, (2, time), generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("mix", MIXES)
def test_logits_and_gradients_are_the_plain_models(mix, fused):
    config = settings(MIXES[mix], stability={"embedding_grad_shrink": 0.25 if mix == "gpt2" else 1.0})
    model = built(config, fused=fused)
    plain = PlainGPT(config, dict(model.named_parameters()))
    inputs, targets = tokens(), tokens().roll(-1, 1)
    output, (expected, stream) = model(inputs), plain(inputs)
    assert output.logits.shape == (2, TIME, PADDED)
    torch.testing.assert_close(output.logits, expected, rtol=2e-5, atol=2e-5)
    statistics = torch.stack([torch.stack((x.square().mean(), x.abs().max())) for x in stream])
    torch.testing.assert_close(output.layers, statistics, rtol=1e-5, atol=1e-5)
    for logits in (output.logits, expected):
        F.cross_entropy(logits.flatten(0, 1), targets.flatten()).backward()
    assert {name for name, _ in model.named_parameters()} == set(plain.weights)
    for name, parameter in model.named_parameters():
        expected = plain.weights[name].grad
        torch.testing.assert_close(parameter.grad, expected, rtol=2e-4, atol=2e-6, msg=lambda why, name=name: f"{name}: {why}")


def test_no_place_sees_what_comes_after_it():
    for mix in ({}, LLAMA, {"fp32_softmax": True}):
        model = built(settings(mix))
        changed = tokens()
        changed[:, 7:] = (changed[:, 7:] + 1) % 100
        with torch.no_grad():
            before, after = model(tokens()).logits, model(changed).logits
        torch.testing.assert_close(before[:, :7], after[:, :7], rtol=1e-6, atol=1e-6)
        assert not torch.allclose(before[:, 7:], after[:, 7:])


def test_an_unwatched_model_tells_of_its_last_block_only(fused):
    everything = built(settings(), fused=fused)(tokens()).layers
    alone = built(settings(telemetry={"layers": False}), fused=fused)(tokens()).layers
    assert (everything.shape, alone.shape) == ((3, 2), (1, 2))
    assert torch.equal(everything[-1:], alone)
    assert everything.dtype == torch.float32
    assert not everything.requires_grad


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
def test_what_is_not_finite_shows_in_both_numbers(dtype, bad):
    x = torch.randn(3, 5, 40, generator=torch.Generator().manual_seed(2)).to(dtype)
    x[1, 2, 3] = -7
    exact = x.double()
    torch.testing.assert_close(magnitudes(x).double(), torch.stack((exact.square().mean(), exact.abs().max())), rtol=1e-4, atol=0)
    assert magnitudes(x)[1] == 7
    x[2, 0, 1] = bad
    assert not magnitudes(x).isfinite().any()


def test_shrinking_changes_the_gradient_and_not_a_bit_of_the_value():
    x = torch.randn(200, generator=torch.Generator().manual_seed(3)).bfloat16().requires_grad_()
    shrunk = shrink_gradient(x, 0.1)
    assert torch.equal(shrunk, x)
    shrunk.sum().backward()
    torch.testing.assert_close(x.grad, torch.full_like(x, 0.1))


@pytest.mark.parametrize("tied", [False, True])
def test_a_scale_set_live_multiplies_the_embeddings_gradient_as_input_and_nothing_else(tied, fused):
    """Against plain torch that knows of no scale. A tied head's part is taken there from a head of its own with equal weights."""
    inputs, targets = tokens(), tokens().roll(-1, 1)
    model = built(settings({"tied_head": tied}), fused=fused)
    weights = dict(model.named_parameters())
    plain = PlainGPT(settings(), weights | ({"head.weight": weights["embed.weight"]} if tied else {}))
    F.cross_entropy(plain(inputs)[0].flatten(0, 1), targets.flatten()).backward()
    expected = {name: weight.grad for name, weight in plain.weights.items()}
    as_head = expected.pop("head.weight") if tied else 0.0
    whole, logits = {}, {}
    for scale in (1.0, 0.1, 0.7, 1.0):
        model.shrink = scale
        output = model(inputs).logits
        F.cross_entropy(output.flatten(0, 1), targets.flatten()).backward()
        found = {name: parameter.grad for name, parameter in model.named_parameters()}
        model.zero_grad(set_to_none=True)
        assert torch.equal(logits.setdefault("first", output.detach()), output), "no bit of the forward pass"
        for name in expected.keys() - {"embed.weight"}:
            assert torch.equal(whole.setdefault(name, found[name]), found[name]), f"{name}: no bit of it, at {scale}"
            torch.testing.assert_close(found[name], expected[name], rtol=2e-4, atol=2e-6)
        at_scale = scale * expected["embed.weight"] + as_head
        torch.testing.assert_close(found["embed.weight"], at_scale, rtol=2e-4, atol=2e-6)
        if scale == 1.0:
            assert torch.equal(whole.setdefault("embed.weight", found["embed.weight"]), found["embed.weight"])


def test_exact_softmax_tells_scores_apart_that_bfloat16_cannot():
    """64 and 64.1 are one number in bfloat16; in float32 the second of two values weighs 0.525."""
    query = torch.tensor([[64.0, 1.0]] * 2).bfloat16()[None, None]
    key = torch.tensor([[1.0, 0.0], [1.0, 0.1015625]]).bfloat16()[None, None]
    value = torch.tensor([[0.0, 0.0], [1.0, 1.0]]).bfloat16()[None, None]
    mixed = exact_attention(query, key, value, 1.0)
    assert mixed.dtype == torch.bfloat16
    assert mixed[0, 0, 1, 0].item() == pytest.approx(0.5254, abs=0.003)


def test_dropout_is_for_training_only(fused):
    model = built(settings({"dropout": 0.5}), fused=fused)
    torch.manual_seed(0)
    with torch.no_grad():
        assert not torch.equal(model(tokens()).logits, model(tokens()).logits)
        model.eval()
        assert torch.equal(model(tokens()).logits, model(tokens()).logits)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ({"width": 100, "heads": 3}, "width 100 does not divide by heads 3; use 99 or 102"),
        ({"width": 2, "heads": 3}, "use 3"),
        ({"width": 64, "heads": 8, "kv_heads": 3}, "kv_heads 3; use one of 1, 2, 4, 8"),
        ({"width": 60, "heads": 4, "positions": "rotary"}, "a head has 15"),
    ],
)
def test_sizes_that_do_not_fit_together_are_refused_with_a_remedy(model, message):
    with pytest.raises(ValueError, match=message):
        Config.model_validate({"model": model})
