"""Decides: an event leads to facts, and facts lead to the next state. Pure: no clock, no I/O, no randomness."""

from sentinel.engine.core import Engine
from sentinel.engine.evolve import evolve

__all__ = ["Engine", "evolve"]
