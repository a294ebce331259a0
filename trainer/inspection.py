"""An inspection: loss and gradient norm of single samples, with the weights of a checkpoint, and nothing is updated.

Every rank takes every n-th sample. Gradients are never reduced: FSDP2 keeps them whole where they were computed, so a
rank's gradient is that of its own one sample. A big model would run out of memory so; it would do forward passes alone, or let
all ranks share one sample. The arithmetic is always fp32: samples are compared with each other.
"""

from __future__ import annotations

import torch
import torch.distributed as dist

from sentinel.client import SampleLog

from .exits import FINISHED
from .loss import compute_loss
from .resuming import resume
from .run import Run, apply_overrides

CHUNK = 32  # samples of each rank between two gatherings at rank 0

Row = tuple[int, float, float, str, int]  # sample index, loss, gradient norm, shard, offset


def inspect_samples(run: Run) -> int:
    """Write samples.jsonl about what spec.json asks for; the exit code. Raises as `begin` does, and OSError."""
    session = run.session
    assert session is not None
    assert session.spec.inspect is not None
    found = None
    if session.spec.resume is not None:
        found, _ = resume(run, session.spec.resume)
        assert found is not None
    apply_overrides(run, session.spec.overrides)
    run.model.eval()
    run.model.set_requires_gradient_sync(False)
    run.model.set_reshard_after_forward(False)
    run.model.set_reshard_after_backward(False)
    log = SampleLog(session) if run.world.rank == 0 else None
    if log is not None:
        digest = found.digest if found is not None else None
        log.start(resume_step=run.step, resume_digest=digest, cursor=run.position.cursor, data_seed=run.position.data_seed)
    indices = run.position.ahead(session.spec.inspect)
    if indices:
        _gather_weights(run, indices[0])
    for start in range(0, len(indices), CHUNK * run.world.size):
        run.telemetry.phase("eval", run.step)
        indices_of_rank = indices[start + run.world.rank : start + CHUNK * run.world.size : run.world.size]
        rows = _measure_samples(run, indices_of_rank)
        gathered: list[list[Row]] | None = [[] for _ in range(run.world.size)] if log is not None else None
        dist.gather_object(rows, gathered, dst=0, group=run.world.storage)
        if log is not None and gathered is not None:
            for index, loss, norm, shard, offset in sorted(row for part in gathered for row in part):
                log.sample(index, loss=loss, grad_norm=norm, shard=shard, offset=offset)
    if log is not None:
        log.end()
    run.telemetry.log(f"inspected {len(indices)} samples from step {run.step}")
    return FINISHED


@torch.no_grad()
def _gather_weights(run: Run, index: int) -> None:
    """One forward that every rank makes: the weights are gathered there and kept whole, so that a rank that gets fewer samples
    than another, or none, is not waited for."""
    inputs, targets = run.loader.sample(index, run.position)
    compute_loss(run.model, inputs, targets)


def _measure_samples(run: Run, indices: list[int]) -> list[Row]:
    """One forward and backward for each; the device is waited for once."""
    measured = []
    for index in indices:
        inputs, targets = run.loader.sample(index, run.position)
        loss = compute_loss(run.model, inputs, targets).total
        loss.backward()
        gradients = [p.grad for p in run.model.parameters() if p.grad is not None]
        norm = torch.stack(torch._foreach_norm(gradients, 2, torch.float64)).square().sum().sqrt()
        measured.append(torch.stack([loss.detach().double(), norm]))
        for parameter in run.model.parameters():
            parameter.grad = None
    if not measured:
        return []
    corpus = run.loader.corpus
    places = [corpus.place_of(run.position.sequence_of(index, corpus.size)) for index in indices]
    pairs = zip(indices, torch.stack(measured).tolist(), places, strict=True)
    return [(index, loss, norm, shard, offset) for index, (loss, norm), (shard, offset) in pairs]
