"""An attached loop of several ranks, its model sharded by FSDP2: what every rank of test_attached_ranks runs."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import distribute_tensor

from sentinel.client.torch import attach
from tests.unit.client.attached_kit import ask

ASKED = {3: {"lr_scale": 0.5, "skip": [[24, 32]]}, 7: {"request": "stop_after_checkpoint"}}


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    run_dir = Path(os.environ["SENTINEL_RUN_DIR"])
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 6)
    fully_shard(model)
    mesh = init_device_mesh("cpu", (2,))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    told: dict[str, list[Any]] = {"rates": [], "samples": [], "loaded": [], "norms": []}

    def save(place: str) -> None:
        state = [parameter.to_local() for parameter in model.parameters()]
        torch.save([state, optimizer.state_dict()], f"{place}/rank-{rank}.pt")

    def load(place: str) -> None:
        told["loaded"].append(place)
        state, of_optimizer = torch.load(f"{place}/rank-{rank}.pt", weights_only=True)
        with torch.no_grad():
            for parameter, held in zip(model.parameters(), state, strict=True):
                parameter.to_local().copy_(held)
        optimizer.load_state_dict(of_optimizer)

    run = attach(model, optimizer, total_steps=12, clip=1.0, save_every=5)
    for step in run.steps(run.restore(load)):
        if rank == 0 and run._session is not None and run._session.attempt == 1 and step in ASKED:
            ask(run, f"ov-1.{step}", **ASKED[step])
        samples = run.next_samples(4)
        told["samples"].append(samples)
        model(torch.tensor([[float(index), 1.0, 2.0, 3.0] for index in samples])).square().mean().backward()
        norm = run.clip_(model.parameters())
        with run.settings():
            told["rates"].append(optimizer.param_groups[0]["lr"])
            optimizer.step()
        optimizer.zero_grad()
        run.log(loss=distribute_tensor(torch.tensor([1.0, 2.0]), mesh).sum(), grad_norm=norm)  # a loss that is sharded
        run.save(step, save)
        told["norms"].append(sum(float(p.full_tensor().detach().double().square().sum()) for p in model.parameters()) ** 0.5)
    (run_dir / f"told-{os.environ['SENTINEL_ATTEMPT']}-{rank}.json").write_text(json.dumps(told))
    run._leaving.leave()  # type: ignore[union-attr]  # the interpreter of a forked rank does not end
    os._exit(0)


if __name__ == "__main__":
    main()
