"""Recorded logs through the same engine, with nothing done: what would have been found, and what would have been tried."""

from sentinel.replay.findings import Found, ReplayResult
from sentinel.replay.one_log import replay_file

__all__ = ["Found", "ReplayResult", "replay_file"]
