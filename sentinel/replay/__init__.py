"""Runs recorded logs through the same engine, observe only: what it would have found, and what it would have done."""

from sentinel.replay.found import Found, Result
from sentinel.replay.one import replay_file

__all__ = ["Found", "Result", "replay_file"]
