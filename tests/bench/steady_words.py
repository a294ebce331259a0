"""A program that says what two ranks at a steady pace say, and does nothing else.

    python -m tests.bench.steady_words STEPS PACE_S
"""

from __future__ import annotations

import sys
import time

from sentinel.client.session import Session

LAYERS = 6
PHASES = ("data", "forward", "backward", "optimizer")


def main(steps: int, pace_s: float) -> None:
    ranks = [session for rank in (0, 1) if (session := Session.from_environment(rank=rank)) is not None]
    first = ranks[0]
    for rank in ranks:
        rank.heartbeat(0, "init")
    first.start(resume_step=0, resume_digest=None, world_size=2, params=1000, tokens_per_step=1024, effective={"lr": 1e-3})
    begun_s = time.monotonic()
    for step in range(1, steps + 1):
        for phase in PHASES:
            for rank in ranks:
                rank.heartbeat(step, phase)
            time.sleep(pace_s / (len(PHASES) + 1))
        wave = ((step * 2654435761) % 1000 - 500) / 50_000
        norms = {f"grad_norm/h.{layer}": 1.0 + wave for layer in range(LAYERS)}
        samples = [[16 * step, 16 * step + 16]]
        first.step(step, samples=samples, loss=2.0 + wave, grad_norm=1.0 + wave, lr=1e-3, param_norm=10.0, **norms)
        time.sleep(max(0.0, begun_s + step * pace_s - time.monotonic()))
    first.end(steps, "finished")
    for rank in ranks:
        rank.record_exit(0)


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]))
