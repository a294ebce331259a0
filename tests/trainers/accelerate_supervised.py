"""A loop under an Accelerator, attached as docs/integrations.md says."""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from accelerate import Accelerator
from faults import Faults

from sentinel.client.data_order import permuted
from sentinel.client.torch import attach

SIZE = 40_000


def main() -> None:
    out, total = Path(sys.argv[1]), int(sys.argv[2])
    faults = Faults(out.parent)
    torch.set_num_threads(1)
    torch.manual_seed(1)
    x = torch.randn(SIZE, 8)
    y = x.sum(1, keepdim=True).sin()
    y[[permuted(index, SIZE, 0, 0) for index in faults.poison]] += 20.0
    accelerator = Accelerator(cpu=True)
    model = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1))
    model, optimizer = accelerator.prepare(model, torch.optim.AdamW(model.parameters(), lr=1e-3))
    run = attach(model, optimizer, total_steps=total, clip=1.0, save_every=20, dataset_size=SIZE)
    for step in run.steps(run.restore(accelerator.load_state)):
        faults.strike(step, next(model.parameters()))
        rows = run.next_samples(8)
        loss = torch.nn.functional.mse_loss(model(x[rows]), y[rows]) + 1.0
        accelerator.backward(loss)
        norm = run.clip_by(lambda limit: accelerator.clip_grad_norm_(model.parameters(), limit))
        with run.settings():
            optimizer.step()
        optimizer.zero_grad()
        run.log(loss=loss, grad_norm=norm)
        run.save(step, accelerator.save_state)


if __name__ == "__main__":
    main()
