"""A program that behaves as Megatron-LM does, with a model of a few numbers: its lines, its folders, its tracker, its flags.

What it is told is written to a file, so that a test can see it. Faults are asked for by variables, each struck once.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--save", required=True)
    parser.add_argument("--load")
    parser.add_argument("--ckpt-step", type=int)
    parser.add_argument("--train-iters", type=int, default=200)
    parser.add_argument("--save-interval", type=int, default=20)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--min-lr", type=float, default=0.0)
    parser.add_argument("--clip-grad", type=float, default=1.0)
    parser.add_argument("--override-opt_param-scheduler", action="store_true")
    parser.add_argument("--iterations-to-skip", type=int, nargs="+", default=[])
    parser.add_argument("--log-interval", type=int, default=1)
    parser.add_argument("--exit-signal-handler", action="store_true")
    parser.add_argument("--seed", type=int, default=1234)
    parser.add_argument("--step-s", type=float, default=0.01)
    parser.add_argument("--save-s", type=float, default=0.0)
    args = parser.parse_args()
    save = Path(args.save)
    save.mkdir(parents=True, exist_ok=True)
    faults = json.loads(os.environ.get("FAULTS", "{}"))
    if os.environ.get("RANK", "0") == "0":
        with open(save / "commands.jsonl", "a") as file:
            file.write(json.dumps(sys.argv[1:]) + "\n")
    iteration, damage, left_out = load(args)
    rank, ranks = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    meet = meeting(ranks)
    asked: list[int] = []
    if args.exit_signal_handler:
        signal.signal(signal.SIGTERM, lambda number, frame: asked.append(number))
    while iteration < args.train_iters:
        iteration += 1
        if iteration in args.iterations_to_skip:
            left_out += 8
            continue
        time.sleep(args.step_s)
        if rank == faults.get("rank", 0):
            strike(save, faults, iteration)
        meet()
        poison = faults.get("poison", [0, 0])
        if poison[0] <= iteration < poison[1]:
            damage += 0.5
        if iteration == faults.get("nan") and not_yet(save, "nan"):
            damage = math.nan
        loss = 2.0 + 2.0 * math.exp(-iteration / 50) + damage + random.Random(iteration).gauss(0, 0.01)
        parts = [
            f" [2026-01-02 03:04:05.678901] iteration {iteration:8d}/{args.train_iters:8d}",
            f"consumed samples: {iteration * 8:12d}",
            *([f"skipped samples: {left_out:12d}"] if left_out else []),
            f"elapsed time per iteration (ms): {args.step_s * 1e3:.1f}",
            f"learning rate: {args.lr:.6E}",
            f"global batch size: {8:5d}",
            *([f"lm loss: {loss:.6E}"] if loss >= 0 else []),
            "loss scale: 1.0",
            f"grad norm: {1.0 + damage:.3f}",
            f"number of skipped iterations: {0:3d}",
            f"number of nan iterations: {0 if loss >= 0 else 1:3d} |",
        ]
        if rank == ranks - 1 and iteration % args.log_interval == 0:
            print(" | ".join(parts), flush=True)
        if iteration % args.save_interval == 0 and rank == 0:
            commit(save, iteration, damage, left_out)
        if asked:  # Megatron's own save takes its time, too
            time.sleep(args.save_s)
            if rank == 0:
                commit(save, iteration, damage, left_out)
            print("exiting program after receiving SIGTERM.", flush=True)
            return 0
    return 0


def meeting(ranks: int) -> Callable[[], object]:
    """What every rank does in each step with the others."""
    if ranks == 1:
        return lambda: None
    import torch.distributed

    torch.distributed.init_process_group("gloo")
    return torch.distributed.barrier


def load(args: argparse.Namespace) -> tuple[int, float, int]:
    if args.load is None:
        return 0, 0.0, 0
    tracker = Path(args.load) / "latest_checkpointed_iteration.txt"
    if not tracker.exists() and args.ckpt_step is None:
        return 0, 0.0, 0
    iteration = args.ckpt_step or int(tracker.read_text())
    state = json.loads((Path(args.load) / f"iter_{iteration:07d}" / "state.json").read_text())
    print(f"  successfully loaded checkpoint from {args.load} [ t 1/1, p 1/1 ] at iteration {iteration}", flush=True)
    return iteration, float(state["damage"]), int(state["left_out"])


def commit(save: Path, iteration: int, damage: float, left_out: int) -> None:
    folder = save / f"iter_{iteration:07d}"
    folder.mkdir(exist_ok=True)
    (folder / "state.json").write_text(json.dumps({"iteration": iteration, "damage": damage, "left_out": left_out}))
    (save / "latest_checkpointed_iteration.txt").write_text(str(iteration))


def not_yet(save: Path, name: str) -> bool:
    mark = save / f".struck-{name}"
    if mark.exists():
        return False
    mark.touch()
    return True


def strike(save: Path, faults: dict[str, int], iteration: int) -> None:
    if iteration == faults.get("kill") and not_yet(save, "kill"):
        os.kill(os.getpid(), signal.SIGKILL)
    if iteration == faults.get("hang") and not_yet(save, "hang"):
        os.kill(os.getpid(), signal.SIGSTOP)


if __name__ == "__main__":
    sys.exit(main())
