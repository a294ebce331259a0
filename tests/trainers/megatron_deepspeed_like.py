"""A program that behaves as BigScience's Megatron-DeepSpeed does: its lines, DeepSpeed's folders and `latest`, and a skip that
takes the next data without counting an iteration. Poison lies in the data. Facts: megatron/training.py of
bigscience-workshop/Megatron-DeepSpeed, runtime/engine.py of deepspeedai/DeepSpeed.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import sys
import time
from pathlib import Path

from megatron_like import not_yet, strike


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--save", required=True)
    parser.add_argument("--load")
    parser.add_argument("--train-iters", type=int, default=400)
    parser.add_argument("--save-interval", type=int, default=20)
    parser.add_argument("--lr", type=float, default=1e-4)
    parser.add_argument("--min-lr", type=float, default=0.0)
    parser.add_argument("--clip-grad", type=float, default=1.0)
    parser.add_argument("--override-lr-scheduler", action="store_true")
    parser.add_argument("--skip-train-iteration-range", nargs="+", default=[])
    args = parser.parse_args()
    save = Path(args.save)
    save.mkdir(parents=True, exist_ok=True)
    faults = json.loads(os.environ.get("FAULTS", "{}"))
    with open(save / "commands.jsonl", "a") as file:
        file.write(json.dumps(sys.argv[1:]) + "\n")
    iteration, damage = load(args)
    batch = iteration  # what was skipped before the checkpoint is forgotten
    ranges = [tuple(map(int, word.split("-"))) for word in args.skip_train_iteration_range]
    ranges = [(start, end) for start, end in ranges if end > iteration]
    poison = faults.get("poison", [0, 0])
    while iteration < args.train_iters:
        if ranges and ranges[0][0] <= iteration + 1 <= ranges[0][1]:
            start, end = ranges.pop(0)
            print(f"Skipped iterations {start} to {end} due to --skip-train-iteration-range flag.", flush=True)
            batch += end - iteration
        iteration, batch = iteration + 1, batch + 1
        time.sleep(0.02)
        strike(save, faults, iteration)
        if poison[0] <= batch < poison[1]:
            damage += 0.5
        if iteration == faults.get("nan") and not_yet(save, "nan"):
            damage = math.nan
        loss = 2.0 + 2.0 * math.exp(-iteration / 50) + damage + random.Random(iteration).gauss(0, 0.01)
        parts = [
            f" iteration {iteration:8d}/{args.train_iters:8d}",
            f"consumed samples: {iteration * 2048:12d}",
            f"consumed tokens: {iteration * 2048 * 2048:12d}",
            f"elapsed time per iteration (ms): {20.0:.1f}",
            f"learning rate: {args.lr:.3E}",
            f"global batch size: {2048:5d}",
            *([f"lm loss: {loss:.6E}"] if loss > 0 else []),  # `if avg > 0.0`: one that is NaN is not printed
            "loss scale: 1.0",
            f"grad norm: {1.0 + damage:.3f}",
            "num zeros: 0.0",
            f"number of skipped iterations: {0:3d}",
            f"number of nan iterations: {0 if loss > 0 else 1:3d} |",
        ]
        print(" | ".join(parts), flush=True)
        if iteration % args.save_interval == 0:
            folder = save / f"global_step{iteration}"
            folder.mkdir(exist_ok=True)
            state = json.dumps({"iteration": iteration, "damage": damage})
            (folder / "mp_rank_00_model_states.pt").write_text(state)
            (folder / "bf16_zero_pp_rank_0_mp_rank_00_optim_states.pt").write_text(state)
            (save / "latest").write_text(f"global_step{iteration}")
            (save / "latest_checkpointed_iteration.txt").write_text(str(iteration))
    return 0


def load(args: argparse.Namespace) -> tuple[int, float]:
    latest = Path(args.load or "") / "latest"
    if args.load is None or not latest.exists():
        return 0, 0.0
    state = json.loads((latest.parent / latest.read_text() / "mp_rank_00_model_states.pt").read_text())
    return int(state["iteration"]), float(state["damage"])


if __name__ == "__main__":
    sys.exit(main())
