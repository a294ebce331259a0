"""Runs recorded logs through the same engine, observe only: what it would have found, and what it would have done."""

from sentinel.replay.findings import ReplayFinding, ReplayResult
from sentinel.replay.one_log import replay_file

__all__ = ["ReplayFinding", "ReplayResult", "replay_file"]
