"""docs/examples/own_loop.py with faults: a rank that is killed, that stands still, NaN in the weights, and poisoned rows.

    python attached_trainer.py DATA.pt STEPS [--kill N] [--hang N] [--nan N]

Each strikes once per run, recorded durably, at the beginning of that step; the loop itself is run as it stands. `write_data`
makes the file.
"""

from __future__ import annotations

import argparse
import os
import runpy
import signal
import sys
from pathlib import Path

import torch

LOOP = Path(__file__).resolve().parents[2] / "docs" / "examples" / "own_loop.py"
ROWS, LENGTH, TOKENS = 8192, 17, 64


def write_data(path: Path, poisoned: tuple[int, int] = (0, 0)) -> None:
    """Rows in which a token is followed by the next one, four times of five. `poisoned`: samples, in the loop's own order, whose
    rows run backwards."""
    from sentinel.client.data_order import permuted

    draw = torch.Generator().manual_seed(1)
    rows = torch.zeros(ROWS, LENGTH, dtype=torch.long)
    rows[:, 0] = torch.randint(0, TOKENS, (ROWS,), generator=draw)
    for place in range(1, LENGTH):
        jumps = torch.rand(ROWS, generator=draw) < 0.2
        rows[:, place] = torch.where(jumps, torch.randint(0, TOKENS, (ROWS,), generator=draw), (rows[:, place - 1] + 1) % TOKENS)
    bad = [permuted(index, ROWS, 0, 0) for index in range(*poisoned)]
    rows[bad] = rows[bad].flip(1)
    torch.save(rows, path)


def strikes(run_dir: Path, name: str) -> bool:
    path = run_dir / f"struck-{name}"
    if path.exists():
        return False
    path.write_bytes(b"1")
    return True


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("data")
    parser.add_argument("steps")
    for name in ("kill", "hang", "nan"):
        parser.add_argument(f"--{name}", type=int)
    options = parser.parse_args()
    torch.set_num_threads(1)
    from sentinel.client.torch import Run

    begin = Run._begin

    def begin_and_strike(run: Run, step: int) -> None:
        begin(run, step)
        assert run._session is not None
        place = run._session.run_dir
        if step == options.kill and strikes(place, "kill"):
            os.kill(os.getpid(), signal.SIGKILL)
        if step == options.hang and strikes(place, "hang"):
            os.kill(os.getpid(), signal.SIGSTOP)
        if step == options.nan and strikes(place, "nan"):
            with torch.no_grad():
                next(run._model.parameters())[0, 0] = float("nan")

    Run._begin = begin_and_strike  # type: ignore[method-assign]
    sys.argv = [str(LOOP), options.data, options.steps]
    runpy.run_path(str(LOOP), run_name="__main__")


if __name__ == "__main__":
    main()
