"""A small model under the update, for tests in a world of one rank."""

import torch

from trainer.config.loading import changed
from trainer.fault_injection.tensors import poison_gradient
from trainer.loss import ForwardStatistics
from trainer.model.gpt import build_model
from trainer.optim import Hyperparameters, ShardedAdamW
from trainer.optim.scaler import LossScaler
from trainer.parallel import shard
from trainer.step import Hooks, train_step

HYPER = Hyperparameters(lr=1e-2, clip_norm=0.5, weight_decay=0.1, betas=(0.9, 0.95), eps=1e-8)
SCALE = 1024.0  # few enough powers of two that fp16 gradients of these models do not overflow by themselves


def batches(count, size=2):
    generator = torch.Generator().manual_seed(0)
    blocks = [torch.randint(0, 256, (size, 17), generator=generator) for _ in range(count)]
    return [(block[:, :-1], block[:, 1:]) for block in blocks]


class Stepping:
    """A model of one block and its optimizer. `precision` and sections by keyword change the config; `fused`: on our kernels."""

    def __init__(self, world, config, precision="fp32", *, fused=False, **sections):
        numerics = {"precision": precision, "loss_scale": SCALE} | sections.pop("numerics", {})
        self.config = changed(config, numerics=numerics, **sections)
        self.model = shard(build_model(self.config, 256, fused), world, self.config)
        self.optimizer = ShardedAdamW(self.model, self.config, fused=fused)
        self.optimizer.set(HYPER)
        self.scaler = LossScaler(self.config.numerics, world.device)

    def step(self, batch=None, after_backward=None):
        """One step on a batch; its statistics. `after_backward` may do harm."""
        hooks = Hooks(phase=lambda phase: None, after_backward=after_backward or (lambda: None))
        return train_step(self.model, self.optimizer, self.scaler, batch or batches(1)[0], hooks, self.config)

    def poisoned(self, value=float("nan")):
        return self.step(after_backward=lambda: poison_gradient(self.optimizer, value))

    def weights(self):
        """Copies of parameters, moments and Adam's count."""
        state = self.optimizer.state().items()
        return {name: (value.full_tensor() if hasattr(value, "full_tensor") else value).clone() for name, value in state}

    def gradients(self, value):
        """Fill every gradient element; for `after_backward`."""
        for parameter in self.model.parameters():
            parameter.grad.to_local().fill_(value)


def same(one, other):
    """Whether two results of `weights` are equal to the bit, NaN to NaN."""
    return one.keys() == other.keys() and all(one[name].numpy().tobytes() == other[name].numpy().tobytes() for name in one)


def seen(loss, layers=1, counted=False):
    """A forward pass that showed nothing but its loss; `counted`: by our own kernels, which count what is not finite."""
    counts = torch.zeros(2, dtype=torch.float64) if counted else None
    return ForwardStatistics(torch.tensor(loss), torch.zeros(()), torch.zeros(layers, 2), counts)
