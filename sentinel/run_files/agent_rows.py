"""The ranks in a report of an agent, each a row of values by place: a supervisor reads 16,384 of them a second."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from typing import Any, get_args

from sentinel.model.agents import BeatOnNode, RankOnNode
from sentinel.model.readings import Doing
from sentinel.run_files.attempt_files import HOST, is_rank
from sentinel.run_files.stream_lines import LARGEST_INT, real_number, whole_number

RANKS_MAX = 64  # of one report
PID_MAX, SIGNAL_MAX = 2**31, 2**16  # above what any kernel gives
TEXT_CHARS, PHASE_CHARS = 300, 24
_DOING: dict[object, Doing] = {doing: doing for doing in get_args(Doing)}


def beat_of(fields: Mapping[str, Any]) -> BeatOnNode | None:
    """Of a heartbeat's own file; None where it is none."""
    step, phase, host = whole_number(fields.get("step"), -1), fields.get("phase"), fields.get("host")
    if step < 0 or not isinstance(phase, str):
        return None
    number, busy_s = whole_number(fields.get("stack_signal"), 0), real_number(fields.get("busy_s"), -1.0)
    busy_step = whole_number(fields.get("busy_step"), -1)
    is_busy = busy_s >= 0.0 and busy_step >= 0
    return BeatOnNode(
        step=step,
        phase=phase[:PHASE_CHARS],
        time_s=real_number(fields.get("time_s")),
        stack_signal=number if number > 0 else None,
        busy_step=busy_step if is_busy else 0,
        busy_s=busy_s if is_busy else None,
        host=host if isinstance(host, str) and HOST.fullmatch(host) else "",
    )


def rank_to_json(one: RankOnNode, node: str) -> list[Any]:
    """The host of its heartbeat is named where it is another than the node."""
    row = [one.attempt, one.rank, one.pid, one.doing, one.where[:TEXT_CHARS]]
    if one.beat is None:
        return row
    beat = list(one.beat)
    return [*row, beat[:-1] if one.beat.host == node else beat]


def ranks_of_json(value: Mapping[str, Any], node: str) -> tuple[RankOnNode, ...]:
    """Raises ValueError."""
    rows = value.get("ranks")
    if type(rows) is not list:
        raise ValueError("its ranks make no sense")
    return tuple([_rank_of_json(row, node) for row in rows[:RANKS_MAX]])


def _rank_of_json(row: object, node: str) -> RankOnNode:
    """Raises ValueError."""
    if type(row) is not list or not 5 <= len(row) <= 6:
        raise ValueError("its ranks make no sense")
    attempt, rank, pid, doing, where, fields = row if len(row) == 6 else (*row, None)
    if not (type(rank) is type(pid) is type(attempt) is int and type(doing) is type(where) is str and doing in _DOING):
        raise ValueError("a rank on the node makes no sense")
    if not (is_rank(rank) and 0 <= attempt < LARGEST_INT and 0 < pid < PID_MAX):
        raise ValueError("a rank on the node makes no sense")
    where = sys.intern(where if len(where) <= TEXT_CHARS else where[:TEXT_CHARS])
    if len(row) == 5:
        return RankOnNode(attempt, rank, pid, _DOING[doing], where)
    if type(fields) is not list or not 6 <= len(fields) <= 7:
        raise ValueError("the heartbeats of its ranks make no sense")
    step, phase, time_s, number, busy_step, busy_s, host = fields if len(fields) == 7 else (*fields, node)
    if not (type(step) is type(busy_step) is int and type(time_s) is float and type(phase) is str):
        raise ValueError("a heartbeat on the node makes no sense")
    if not (0 <= step < LARGEST_INT and 0 <= busy_step < LARGEST_INT and -math.inf < time_s < math.inf):
        raise ValueError("a heartbeat on the node makes no sense")
    if not (number is None or (type(number) is int and 0 < number < SIGNAL_MAX)):
        raise ValueError("numbers of a heartbeat on the node make no sense")
    if not (busy_s is None or (type(busy_s) is float and 0.0 <= busy_s < math.inf)):
        raise ValueError("numbers of a heartbeat on the node make no sense")
    if host is not node:
        _check_host(host)
    beat = BeatOnNode(step, phase, time_s, number, busy_step, busy_s, host)
    return RankOnNode(attempt, rank, pid, _DOING[doing], where, beat)


def _check_host(name: object) -> None:
    """Raises ValueError."""
    if not isinstance(name, str) or (name and not HOST.fullmatch(name)):
        raise ValueError("a heartbeat on the node names no host that makes sense")
