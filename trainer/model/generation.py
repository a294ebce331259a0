"""Text from a model, token by token: the whole context goes through at each step, which is slow for long texts and has no state
to get wrong. Imports nothing of checkpoints or files."""

from __future__ import annotations

import torch

from .gpt import GPT


@torch.no_grad()
def generate(
    model: GPT, prompt: torch.Tensor, count: int, generator: torch.Generator, temperature: float = 0.8, top_k: int = 40
) -> torch.Tensor:
    """int64 (time,) → the same with `count` tokens behind it. At temperature 0 always the likeliest. `top_k` 0: from all tokens.

    Only ids below model.vocab_size come: rows that pad the vocabulary stand for nothing. A context longer than the model was
    trained on loses its beginning. The generator is on the CPU, so that a seed gives the same text on every device up to
    rounding.
    """
    longest, vocabulary = model.longest, model.model.vocab_size
    tokens = prompt
    for _ in range(count):
        logits = model(tokens[None, -longest:]).logits[0, -1, :vocabulary].float().cpu()
        chosen = _choose(logits, generator, temperature, top_k)
        tokens = torch.cat((tokens, chosen.to(tokens.device)))
    return tokens


def _choose(logits: torch.Tensor, generator: torch.Generator, temperature: float, top_k: int) -> torch.Tensor:
    if temperature == 0:
        return logits.argmax().view(1)
    if 0 < top_k < len(logits):
        least = logits.topk(top_k).values[-1]
        logits = logits.masked_fill(logits < least, -torch.inf)
    return torch.multinomial(torch.softmax(logits / temperature, dim=-1), 1, generator=generator)
