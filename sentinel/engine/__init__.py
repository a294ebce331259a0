"""The decision: `decide(state, event) → facts`, `evolve(state, fact) → state`. Pure: no clock, no I/O, no randomness."""

from sentinel.engine.core import Engine
from sentinel.engine.evolve import evolve

__all__ = ["Engine", "evolve"]
