"""The run that is simulated: how long, how fast, how often saved. Times in seconds."""

from __future__ import annotations

from dataclasses import dataclass, field

from sentinel.model.capabilities import CAPABILITIES
from sentinel.sim.learning import LossCurve


@dataclass(frozen=True, slots=True)
class Shape:
    """`batch` in samples a step over all ranks, which lie in blocks on `nodes`;
    `max_skipped` updates in a row may be non-finite before it leaves with 5; every `log_every` steps and the last have a line;
    the learning rate falls evenly to the share `lr_end` of what it was."""

    steps: int = 300
    batch: int = 16
    ranks: int = 2
    nodes: int = 1
    step_s: float = 0.5
    startup_s: float = 4.0
    first_step_s: float = 1.0
    checkpoint_every: int = 25
    save_s: float = 0.8
    max_skipped: int = 100
    log_every: int = 1
    lr_end: float = 1.0
    curve: LossCurve = field(default_factory=lambda: LossCurve(1))

    @property
    def capabilities(self) -> tuple[str, ...]:
        """A command on several nodes can leave one out."""
        return (*CAPABILITIES, "exclude") if self.nodes > 1 else CAPABILITIES
