"""The oracle: a GPT and its training loop as one would write them in an afternoon, in one process, apart from the trainer's.

    plain = PlainTrainer(config, weights_of(model))     # or initial_weights_of(config, padded)
    loss = plain.train_step(tokens, targets, lr)        # float32 scalar tensor; clip_grad_norm_ and torch.optim.AdamW

Weights are a flat dict under the names of the trainer's own model. Attention writes its matrix of scores out; `fused=True` takes
scaled_dot_product_attention and the fused AdamW instead, which is what a plain loop would do where speed is compared.
"""

import math

import torch
from torch.distributed.tensor import DTensor
from torch.nn import functional as F

from trainer.model.gpt import build_model
from trainer.model.initial import initial_weights

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


def weights_of(model):
    """A model's parameters, whole and detached, by name; of a sharded one every rank must ask."""
    whole = {name: p.full_tensor() if isinstance(p, DTensor) else p for name, p in model.named_parameters()}
    return {name: p.detach().clone() for name, p in whole.items()}


def initial_weights_of(config, padded):
    """What the trainer's model begins with, without a world."""
    return {name: initial_weights(config, name, p.shape) for name, p in build_model(config, padded).named_parameters()}


class PlainGPT:
    """tokens (batch, time) → logits (batch, time, padded vocabulary) and the residual stream behind each block."""

    def __init__(self, config, weights, fused=False):
        self.config, self.model, self.fused = config, config.model, fused
        self.weights = {name: value.detach().clone().requires_grad_() for name, value in weights.items()}

    def __call__(self, tokens):
        model, dtype = self.model, DTYPES[self.config.numerics.precision]
        self.w = {name: value.to(dtype) for name, value in self.weights.items()}
        x = self.w["embed.weight"][tokens]
        shrink = self.config.stability.embedding_grad_shrink
        x = x * shrink + x.detach() * (1 - shrink)
        if model.embedding_norm:
            x = self.layer_norm(x, "norm_embedding")
        if model.positions == "learned":
            x = x + self.w["place.weight"][: tokens.shape[1]]
        stream = []
        for n in range(model.layers):
            x = x + self.attention(self.norm(x, f"blocks.{n}.norm_attention"), f"blocks.{n}.attention")
            x = x + self.feed_forward(self.norm(x, f"blocks.{n}.norm_mlp"), f"blocks.{n}.mlp")
            stream.append(x)
        head = self.w["embed.weight" if model.tied_head else "head.weight"]
        return self.norm(x, "norm") @ head.T, stream

    def linear(self, x, name):
        return F.linear(x, self.w[f"{name}.weight"], self.w.get(f"{name}.bias"))

    def layer_norm(self, x, name):
        return F.layer_norm(x, x.shape[-1:], self.w[f"{name}.weight"], self.w.get(f"{name}.bias"))

    def rms_norm(self, x, name):
        exact = x.float()
        return (exact / (exact.pow(2).mean(-1, keepdim=True) + 1e-5).sqrt()).to(x.dtype) * self.w[f"{name}.weight"]

    def norm(self, x, name):
        return self.layer_norm(x, name) if self.model.norm == "layernorm" else self.rms_norm(x, name)

    def attention(self, x, name):
        model = self.model
        batch, time, width = x.shape
        size = width // model.heads
        few = model.kv_heads or model.heads
        query, key, value = self.linear(x, f"{name}.qkv").split([width, few * size, few * size], dim=-1)
        query = query.view(batch, time, model.heads, size)
        key, value = key.view(batch, time, few, size), value.view(batch, time, few, size)
        if model.qk_norm:
            query, key = self.rms_norm(query, f"{name}.norm_query"), self.rms_norm(key, f"{name}.norm_key")
        if model.positions == "rotary":
            query, key = self.rotate(query), self.rotate(key)
        heads_of = [head // (model.heads // few) for head in range(model.heads)]  # which key head each query head looks at
        query, key, value = query.transpose(1, 2), key[:, :, heads_of].transpose(1, 2), value[:, :, heads_of].transpose(1, 2)
        if self.fused:
            mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        else:
            scores = query @ key.mT / math.sqrt(size) + torch.full((time, time), -math.inf).triu(1).to(query.dtype)
            mixed = torch.softmax(scores, dim=-1) @ value
        return self.linear(mixed.transpose(1, 2).reshape(batch, time, width), f"{name}.out")

    def rotate(self, x):
        """Pairs (i, i + half) as complex numbers, multiplied by e^(i·angle). x: (batch, time, heads, size)."""
        time, half = x.shape[1], x.shape[3] // 2
        speeds = torch.tensor([self.model.rotary_base ** (-i / half) for i in range(half)])
        turn = torch.polar(torch.ones(time, half), torch.arange(time)[:, None] * speeds)[:, None]
        turned = torch.complex(x[..., :half].float(), x[..., half:].float()) * turn
        return torch.cat((turned.real, turned.imag), dim=-1).to(x.dtype)

    def feed_forward(self, x, name):
        inner = self.linear(x, f"{name}.up")
        if self.model.activation == "swiglu":
            gate = self.linear(x, f"{name}.gate")
            inner = gate * torch.sigmoid(gate) * inner
        elif self.model.activation == "gelu":
            inner = F.gelu(inner, approximate="tanh")
        else:
            inner = inner.clamp(min=0) ** (2 if self.model.activation == "squared_relu" else 1)
        return self.linear(inner, f"{name}.down")


class PlainTrainer:
    """The loop around it, with the settings of config.optim. No schedule: the learning rate comes with the step."""

    def __init__(self, config, weights, fused=False):
        self.config, self.model = config, PlainGPT(config, weights, fused)
        parameters = list(self.model.weights.values())
        optim = config.optim
        groups = [
            {"params": [p for p in parameters if p.dim() > 1], "weight_decay": optim.weight_decay},
            {"params": [p for p in parameters if p.dim() <= 1], "weight_decay": 0.0},
        ]
        self.adamw = torch.optim.AdamW(groups, lr=optim.lr, betas=optim.betas, eps=optim.eps, fused=fused)

    def loss(self, tokens, targets):
        """Mean cross entropy in nats per token."""
        logits, _ = self.model(tokens)
        return F.cross_entropy(logits.float().flatten(0, 1), targets.flatten())

    def train_step(self, tokens, targets, lr=None):
        """The loss before the update, detached; weights and moments after it."""
        loss = self.loss(tokens, targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.weights.values(), self.config.optim.clip_norm)
        for group in self.adamw.param_groups:
            group["lr"] = self.config.optim.lr if lr is None else lr
        self.adamw.step()
        self.adamw.zero_grad()
        return loss.detach()
