"""A loop that prints nothing: its numbers go to the logger named first. It knows nothing of Sentinel.

    python logged_loop.py wandb|mlflow|csv|jsonl --out DIR [--anew] [--resume CHECKPOINT]

csv and jsonl write DIR/metrics.csv and DIR/metrics.jsonl, behind what stands there, or `--anew`.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

STEPS, EVERY = 1200, 100


def open_file(path: Path, anew: bool) -> Callable[[int, dict[str, float]], None]:
    file = open(path, "w" if anew else "a", buffering=1)  # noqa: SIM115 - until the program ends
    is_table = path.suffix == ".csv"
    if is_table and file.tell() == 0:
        file.write("step,train/loss,train/grad_norm,train/lr\n")

    def log(step: int, values: dict[str, float]) -> None:
        row = ",".join(map(str, (step, *values.values()))) if is_table else json.dumps({"step": step, **values})
        file.write(f"{row}\n")

    return log


def open_logger(name: str, options: argparse.Namespace) -> Callable[[int, dict[str, float]], None]:
    if name in ("csv", "jsonl"):
        return open_file(options.out / f"metrics.{name}", options.anew)
    if name == "wandb":
        import wandb

        run = wandb.init(project="sentinel-tests", mode="offline", settings=wandb.Settings(silent=True))
        return lambda step, values: run.log(values, step=step)
    import mlflow

    mlflow.set_tracking_uri(Path("mlruns").resolve().as_uri())
    mlflow.start_run()
    return lambda step, values: mlflow.log_metrics(values, step=step)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("logger")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--resume", type=Path)
    parser.add_argument("--anew", action="store_true")
    parser.add_argument("--step-s", type=float, default=0.005)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    faults, struck = json.loads(os.environ.get("FAULTS", "{}")), options.out / ".struck"
    log = open_logger(options.logger, options)
    start = json.loads((options.resume / "state.json").read_text())["step"] if options.resume else 0
    for step in range(start + 1, STEPS + 1):
        if step == faults.get("kill") and not struck.exists():
            struck.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        log(step, {"train/loss": 2.0 + 1 / step, "train/grad_norm": 0.5, "train/lr": 1e-3})
        if step % EVERY == 0:
            place = options.out / f"save-{step}"
            place.mkdir(exist_ok=True)
            (place / "state.json").write_text(json.dumps({"step": step}))
            (place / "DONE").touch()
        time.sleep(options.step_s)


if __name__ == "__main__":
    main()
