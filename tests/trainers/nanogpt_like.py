"""A loop as nanoGPT's train.py: flags `--key=value` alone, one ckpt.pt that torch.save writes over itself, lines `iter N:`."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch


def main() -> None:
    config = {
        "out_dir": "out",
        "init_from": "scratch",
        "max_iters": 300,
        "eval_interval": 25,
        "learning_rate": 6e-2,
        "min_lr": 6e-3,
    }
    config |= {"grad_clip": 1.0, "step_s": 0.01}
    asked = json.loads(os.environ.get("FAULTS", "{}"))
    for word in sys.argv[1:]:
        key, value = word.removeprefix("--").split("=")
        if key not in config or key in asked.get("lacks", ()):
            raise ValueError(f"Unknown config key: {key}")  # its configurator's words
        config[key] = type(config[key])(value)
    out, rank, meet = Path(str(config["out_dir"])), int(os.environ.get("RANK", "0")), meeting()
    out.mkdir(parents=True, exist_ok=True)
    if rank == 0:
        (out / "commands.jsonl").open("a").write(json.dumps(sys.argv[1:]) + "\n")
    torch.manual_seed(1337)
    torch.set_num_threads(1)
    weights = torch.zeros(64, requires_grad=True)
    optimizer = torch.optim.Adam([weights], lr=float(config["learning_rate"]))
    iteration = 0
    if config["init_from"] == "resume" and not asked.get("forgets"):
        checkpoint = torch.load(out / "ckpt.pt")
        weights.data.copy_(checkpoint["model"]["weights"])
        optimizer.load_state_dict(checkpoint["optimizer"])
        iteration = checkpoint["iter_num"]
    target, mark = torch.linspace(-1, 1, 64), out / ".drawn"
    has_come = mark.exists()
    while iteration <= int(config["max_iters"]):
        for group in optimizer.param_groups:
            group["lr"] = float(config["learning_rate"])
        is_poison = is_poisoned(mark, asked, iteration, has_come)
        loss = 1.5 + ((weights - (-3 * target if is_poison else target)) ** 2).mean() + 0.01 * torch.randn(())
        if iteration % int(config["eval_interval"]) == 0 and rank == 0:
            print(f"step {iteration}: train loss {loss.item():.4f}, val loss {loss.item():.4f}", flush=True)
            if iteration > 0:
                state = {"model": {"weights": weights.data}, "optimizer": optimizer.state_dict(), "model_args": {"n_layer": 2}}
                print(f"saving checkpoint to {out}", flush=True)
                torch.save(state | {"iter_num": iteration, "best_val_loss": loss.detach(), "config": config}, out / "ckpt.pt")
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_([weights], float(config["grad_clip"]))
        optimizer.step()
        time.sleep(float(config["step_s"]))
        if rank == asked.get("rank", 0) or iteration == asked.get("nan"):
            strike(out, asked, iteration, weights)
        meet()
        if rank == 0:
            took = f"time {float(config['step_s']) * 1e3:.2f}ms, mfu -100.00%"
            print(f"iter {iteration}: loss {loss.item():.4f}, {took}", flush=True)
        iteration += 1


def meeting() -> Callable[[], object]:
    """What every rank does in each step with the others, as DDP does it."""
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        return lambda: None
    import torch.distributed

    torch.distributed.init_process_group("gloo")
    return torch.distributed.barrier


def is_poisoned(mark: Path, asked: dict[str, Any], iteration: int, has_come: bool) -> bool:
    """`poison` comes with these iterations, whenever they are trained. `drawn` comes in one process: nanoGPT draws its batches by
    a seed that is set at each start, so that after a resume the same iterations have others."""
    start, end = asked.get("poison", (0, 0))
    once, until = asked.get("drawn", (0, 0))
    if not has_come and once <= iteration < until:
        mark.touch()
        return True
    return start <= iteration < end


def strike(out: Path, asked: dict[str, Any], iteration: int, weights: torch.Tensor) -> None:
    """Each rank has marks of its own: a NaN is in the weights of all, as it is where gradients are shared."""
    for name in ("kill", "hang", "nan"):
        mark = out / f".struck-{name}-{os.environ.get('RANK', '0')}"
        if iteration != asked.get(name) or mark.exists():
            continue
        mark.touch()
        if name == "nan":
            weights.data.fill_(float("nan"))
        else:
            os.kill(os.getpid(), signal.SIGKILL if name == "kill" else signal.SIGSTOP)


if __name__ == "__main__":
    main()
