"""docs/examples/own_loop.py with faults: a rank that is killed, that stands still, NaN in the weights, and poisoned rows.

    python attached_trainer.py DATA.pt STEPS [--kill N] [--hang N] [--nan N[@ATTEMPT]]

Each strikes once per run, recorded durably, at the beginning of that step; the loop itself is run as it stands. With @ATTEMPT it
waits for that attempt: the loop is so fast that it passes many steps while an earlier fault is being repaired, and what
strikes there is rolled back unseen. `write_data` makes the file.
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


def strikes(run_dir: Path, name: str, due: str | None, step: int) -> bool:
    at, _, attempt = (due or "").partition("@")
    path = run_dir / f"struck-{name}"
    if str(step) != at or int(os.environ["SENTINEL_ATTEMPT"]) < int(attempt or 1) or path.exists():
        return False
    path.write_bytes(b"1")
    return True


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("data")
    parser.add_argument("steps")
    for name in ("kill", "hang", "nan"):
        parser.add_argument(f"--{name}")
    options = parser.parse_args()
    torch.set_num_threads(1)
    from sentinel.client.torch import Run

    begin = Run._begin

    def begin_and_strike(run: Run, step: int) -> None:
        begin(run, step)
        assert run._session is not None
        place = run._session.run_dir
        if strikes(place, "kill", options.kill, step):
            os.kill(os.getpid(), signal.SIGKILL)
        if strikes(place, "hang", options.hang, step):
            os.kill(os.getpid(), signal.SIGSTOP)
        if strikes(place, "nan", options.nan, step):
            with torch.no_grad():
                next(run._model.parameters())[0, 0] = float("nan")

    Run._begin = begin_and_strike  # type: ignore[method-assign]
    sys.argv = [str(LOOP), options.data, options.steps]
    runpy.run_path(str(LOOP), run_name="__main__")


if __name__ == "__main__":
    main()
