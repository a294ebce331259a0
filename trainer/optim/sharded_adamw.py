"""The update: one packed collective, a gate, and AdamW, without the device ever waiting for the host.

Works on each rank's local shards: plain tensors cost a fifth of what DTensors do. AdamW itself is `adamw`, plain PyTorch, or
`fused_adamw`, our own kernels; a gated update changes no parameter, no moment and no Adam count in either.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.tensor import DTensor

from ..config import Config
from ..loss import ForwardStatistics
from .adamw import Hyperparameters, Shards, TorchAdamW
from .clipping import ZClip, coefficient
from .fused_adamw import FusedAdamW
from .gate import Gate
from .measures import flat_views, gather_totals, rows_of_all, squares_of
from .statistics import StatisticsLayout, UpdateStatistics, block_name, group_of


class ShardedAdamW:
    """AdamW over the local shards of an FSDP2 model, with the gate and the clipping of `config.stability` before it.

    Costs 8 bytes a parameter for Adam's moments. `replicas`: copies of the model under HSDP, rank = replica · shards + shard.
    `fused`: on our own kernels (trainer.fused); what a checkpoint holds is the same.
    """

    def __init__(self, model: nn.Module, config: Config, replicas: int = 1, *, fused: bool = False) -> None:
        self.clip_norm = config.optim.clip_norm
        self.replicas = replicas
        self._sharded = dict(model.named_parameters())
        # Parameters sharing the storage of the local shards: an update through them is an update of the model.
        self._local = {name: nn.Parameter(p.to_local().detach()) for name, p in self._sharded.items()}
        # A small parameter may leave a rank with nothing of it; more ranks than a run began with, some with nothing at all.
        self._filled = {name: p for name, p in self._local.items() if p.numel()}
        like = next(iter(self._local.values())).detach()
        self.device = like.device
        shapes = [local.shape for local in self._local.values()]
        _, firsts = flat_views(shapes, like)
        second, seconds = flat_views(shapes, like)  # all second moments at once, to measure them in one pass
        self._moments = dict(zip(self._local, zip(firsts, seconds, strict=True), strict=True))
        matrices = frozenset(name for name, p in self._sharded.items() if p.dim() > 1)
        telemetry = config.telemetry
        layers = config.model.layers
        groups = ("embed", *(block_name(block, layers) for block in range(layers)), "head") if telemetry.layers else ("all",)
        member = {name: group_of(name, layers) if telemetry.layers else "all" for name in self._filled}
        grouped = [[name for name in self._filled if member[name] == group] for group in groups]
        self._layout = StatisticsLayout(
            groups=groups,
            blocks=layers,
            ranks=dist.get_world_size(),
            layers=telemetry.layers,
            updates=telemetry.updates,
            counts=fused,
        )
        self._names = self._layout.names()
        shards = Shards(
            filled=self._filled, matrices=matrices, moments=self._moments, second=second, groups=grouped, device=self.device
        )
        stability = config.stability
        self.gate = Gate(stability, config.numerics.precision == "fp16", self.device)
        if fused:
            self.adamw: TorchAdamW | FusedAdamW = FusedAdamW(
                shards, reads_parameters=self._layout.per_rank, guarded=self.gate.skips_nonfinite
            )
        else:
            self.adamw = TorchAdamW(shards, telemetry.updates)
        self.zclip = None if stability.zclip is None else ZClip(stability.zclip, stability.zclip_decay, self.device)
        self._hyper: Hyperparameters | None = None

    def set(self, hyper: Hyperparameters) -> None:
        """Put settings in force from the next update on."""
        self.clip_norm, self._hyper = hyper.clip_norm, hyper
        self.adamw.set(hyper)

    def scheduled(self) -> dict[str, float]:
        """What moves with the steps, as it was last set: known to the host."""
        assert self._hyper is not None
        return {"lr": self._hyper.lr, "weight_decay": self._hyper.weight_decay}

    def read_back(self) -> dict[str, Any]:
        """What is in force now, from the live optimizer itself, for the receipt. The host waits for the device."""
        return self.adamw.read_back() | {"clip_norm": self.clip_norm, "optimizer_steps": int(self.count())}

    def count(self) -> torch.Tensor:
        """How many updates Adam itself has counted: gated ones are not among them."""
        return self.adamw.count

    def reset(self) -> None:
        """Forget both moments and the count."""
        for tensor in (moment for pair in self._moments.values() for moment in pair):
            tensor.zero_()
        self.adamw.set_count(torch.zeros(()))

    def state_changed(self) -> None:
        """Call it after changing parameters or moments, so that the next line measures them again."""
        self.adamw.state_changed()

    @property
    def shards(self) -> dict[str, nn.Parameter]:
        """This rank's part of each parameter, by name; a change here is one of the model."""
        return self._local

    @property
    def moments(self) -> dict[str, tuple[torch.Tensor, torch.Tensor]]:
        """This rank's part of Adam's first and second moments, by the parameter's name."""
        return self._moments

    def gradients(self) -> dict[str, torch.Tensor]:
        """This rank's part of each gradient, by name, after a backward pass; without those that have no element here."""
        return {name: self._sharded[name].grad.to_local() for name in self._filled}

    @torch.no_grad()
    def update(self, forward: ForwardStatistics, scale: torch.Tensor) -> UpdateStatistics:
        """Apply the gradients once. `forward` is of this rank's share of the batch, `scale` the fp16 loss scale or 1."""
        gradients = self.gradients()
        own = self.adamw.state_before()
        grad_squares, nonfinite = self.adamw.measure(gradients, scale)
        totals = gather_totals(forward, grad_squares, nonfinite, own, self.replicas)
        scale = scale.double()
        grad_norm = totals.grad_squares.sum().sqrt() / scale
        clip_coef = coefficient(grad_norm, self.clip_norm, self.zclip)
        unusable = (totals.nonfinite > 0) | ~torch.isfinite(totals.loss)
        skipped = self.gate.judge(totals.loss, grad_norm, unusable)
        self.adamw.apply(gradients, clip_coef, scale, skipped)
        for sharded in self._sharded.values():
            sharded.grad = None
        decided = [unusable.double(), skipped.double(), scale]
        return UpdateStatistics(self._names, self._layout.values(totals, grad_norm, clip_coef, decided))

    @torch.no_grad()
    def numbers(self) -> dict[str, float]:
        """Norms of the parameters and both moments over all ranks (L2, independent of the number of ranks), and how many
        elements are not finite. A collective: every rank calls it, every rank gets the same. The norms of gradients to come are
        not in it.

        A norm in float64 is finite exactly where every element is (squares of float32 do not overflow it), so the elements are
        only counted where a norm is not.
        """
        kinds = [list(self._local.values()), *(list(moments) for moments in zip(*self._moments.values(), strict=True))]
        packed = torch.zeros(len(kinds) + 1, dtype=torch.float64, device=self.device)
        for place, tensors in enumerate(kinds):
            own = [tensor for tensor in tensors if tensor.numel()]
            packed[place] = squares_of(own, self.device)
            if not math.isfinite(packed[place].item()):
                packed[-1] += sum(int(tensor.numel() - torch.isfinite(tensor).sum()) for tensor in own)
        dist.all_reduce(packed)
        packed /= self.replicas
        norms, count = packed[:-1].sqrt().tolist(), packed[-1].item()
        return dict(zip(("param_norm", "adam_m_norm", "adam_v_norm"), norms, strict=True)) | {"nonfinite": int(count)}

    def state(self) -> dict[str, Any]:
        """Parameters, moments and Adam's count under stable names, sharded as the model is: what a checkpoint holds.

        Loading in place into these tensors restores the optimizer; call `adopt_count` afterwards.
        """
        state: dict[str, Any] = {"adam.step": self.count().detach().clone().cpu()}
        for name, sharded in self._sharded.items():
            state[f"model.{name}"] = sharded.detach()
            for kind, moment in zip(("exp_avg", "exp_avg_sq"), self._moments[name], strict=True):
                state[f"adam.{kind}.{name}"] = DTensor.from_local(
                    moment, sharded.device_mesh, sharded.placements, run_check=False, shape=sharded.shape, stride=sharded.stride()
                )
        return state

    def adopt_count(self, steps: torch.Tensor) -> None:
        """Set Adam's count on every parameter, after a checkpoint was loaded."""
        self.adamw.set_count(steps)

    def history(self) -> dict[str, Any]:
        """The optimizer's state besides the tensors, for a manifest. A collective, and the host waits."""
        squares = rows_of_all(self.adamw.update_squares.reshape(1))[:, 0].tolist()
        shards = squares[: len(squares) // self.replicas]
        return {"gate": self.gate.state(), "zclip": self.zclip.state() if self.zclip else None, "update_squares": shards}

    def adopt_history(self, history: dict[str, Any]) -> None:
        """Continue from a checkpoint's history; what it lacks starts empty. Over another number of shards the last
        update's norm is the same up to rounding."""
        self.gate.restore(history.get("gate"))
        if self.zclip is not None:
            self.zclip.restore(history.get("zclip"))
        squares = history.get("update_squares", [])
        shards = dist.get_world_size() // self.replicas
        shard = dist.get_rank() % shards
        whole = sum(squares) if shard == 0 else 0.0
        self.adamw.update_squares.fill_(squares[shard] if len(squares) == shards else whole)
