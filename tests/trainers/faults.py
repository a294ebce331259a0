"""The faults that a test asks of a training script, by the variable FAULTS: each strikes once in the life of a run."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import torch


class Faults:
    """FAULTS is JSON. `kill`, `hang` and `nan` name a step; `poison` names a range of samples, or of steps; `from_attempt` names
    the attempt before which a fault waits. A fast trainer runs on for hundreds of steps while an earlier fault is being repaired.
    A fault that struck meanwhile would be rolled back unseen, and would never come again."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._asked = json.loads(os.environ.get("FAULTS", "{}"))
        self._attempt = int(os.environ.get("SENTINEL_ATTEMPT", "1"))

    @property
    def poison(self) -> range:
        return range(*self._asked.get("poison", (0, 0)))

    def strike(self, step: int, parameter: torch.Tensor) -> None:
        """What is due at this step: the end of this process, its halt, or a parameter that is NaN from now on."""
        for name, number in (("kill", signal.SIGKILL), ("hang", signal.SIGSTOP)):
            if self._is_due(name, step):
                os.kill(os.getpid(), number)
        if self._is_due("nan", step):
            with torch.no_grad():
                parameter.fill_(float("nan"))

    def _is_due(self, name: str, step: int) -> bool:
        if step != self._asked.get(name) or self._attempt < self._asked.get("from_attempt", {}).get(name, 1):
            return False
        mark = self._folder / f".struck-{name}"
        was_struck = mark.exists()
        mark.touch()
        return not was_struck
