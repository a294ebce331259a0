"""Has the stream gone quiet under ranks that go on? Then the run does not hang, but what is judged from the stream is unknown.

A full disk on rank 0's host, a logger that died, a network filesystem that lost the file: heartbeats advance step by step and no
step line comes. That is no incident, and no hang either: a note records that the numbers are not seen.
"""

from __future__ import annotations

from sentinel.model.amounts import time_words

INTERVALS = 3  # logging intervals that ranks must be ahead of the newest line


def judge_stream_gap(furthest_step: int, newest_step: int, steps_per_line: int, quiet_s: float, limit_s: float) -> str | None:
    """Why the stream is blind, or None. `furthest_step`: of any heartbeat (the step being worked on); `quiet_s`: since the
    newest step line; `limit_s`: the longest silence that is none."""
    ahead = furthest_step - newest_step
    if quiet_s <= limit_s or ahead <= INTERVALS * steps_per_line:
        return None
    return f"heartbeats are at step {furthest_step}, the newest line is of step {newest_step}, {time_words(quiet_s)} ago"
