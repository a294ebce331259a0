"""`WARM=1` in front of a verb whose tests start real runs: the same runs, with ranks in reserve (`sentinel run --warm`).

    WARM=1 make drills-real
    WARM=1 make chaos
    WARM=1 .venv/bin/python -m pytest tests/integration/test_supervisor_killed.py

A reserve needs seconds to come up, and the smallest trainer's steps take milliseconds: it is slowed down evenly, so that the
reserve is there when a fault strikes. No number of the training changes by that.
"""

from __future__ import annotations

import os

from sentinel.cli.bundled_trainer import slowed_words

IS_ASKED = os.environ.get("WARM", "0") not in ("", "0")


def run_options() -> list[str]:
    """For `sentinel run` and `sentinel drill --real`."""
    return ["--warm"] if IS_ASKED else []


def trainer_words(ranks: int) -> list[str]:
    """For the bundled trainer."""
    return slowed_words(ranks) if IS_ASKED else []
