"""An exit report as JSON has it, read back: what is no report is refused, and names its file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

from sentinel.client.strict_json import loads, printable
from sentinel.model.attempts import ExitReport, ExitSource, RankExit
from sentinel.run_files.attempt_files import is_rank

CODE_MAX = 2**31  # of what the kernel calls a status; beyond it somebody wrote nonsense


def decode_report(data: bytes, path: Path) -> ExitReport:
    """Raises ValueError naming the file when it is not one of ours."""
    try:
        value = loads(data)
        return ExitReport(
            command_status=_number(value["command_status"]),
            ranks=tuple(_read_rank(rank) for rank in value["ranks"] if _names_rank(rank)),
            first_failed_rank=_first_of(value.get("first_failed_rank")),
            reason=printable(str(value.get("reason", ""))),
            keeper_signal=_number(value.get("keeper_signal")),
            left_behind=max(0, _number(value.get("left_behind")) or 0),
            lost_nodes=tuple(printable(str(node)) for node in value.get("lost_nodes", ())),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{path}: is not an exit report ({error})") from error


def _names_rank(value: Mapping[str, Any]) -> bool:
    """False for a number that no rank has: a keeper of an older version took every file's name for one."""
    return type(value["rank"]) is not int or is_rank(value["rank"])


def _first_of(value: object) -> int | None:
    return None if type(value) is int and not is_rank(value) else _number(value)


def _read_rank(value: Mapping[str, Any]) -> RankExit:
    rank, error = _number(value["rank"]), value.get("error")
    if rank is None or value["source"] not in get_args(ExitSource):
        raise ValueError(f"rank {rank!r}, source {value['source']!r}")
    message = None if error is None else printable(str(error))
    code, number = _number(value["code"]), _number(value["signal"])
    return RankExit(rank, code, number, value["source"], message, value.get("peer_lost") is True)


def _number(value: object) -> int | None:
    if value is not None and (type(value) is not int or abs(value) >= CODE_MAX):
        raise ValueError(f"{str(value)[:20]!r} is no status, signal or rank")
    return value
