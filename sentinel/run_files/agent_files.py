"""agents/node-NAME.json: what the agent of a node sees. Written over in place once a second by that agent alone.

The record begins with a checksum of the rest (crc32), so that one that is read while it is written, or of which a filesystem
shows a part of before, is known for that and read again. Its size is bounded, whatever the node does. How old it is nobody reads
from a clock of another machine: it is as old as the reader has seen it unchanged.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, cast, get_args

from sentinel.client.heartbeat_file import HeartbeatFile
from sentinel.client.regular_file import regular
from sentinel.client.run_layout import AGENTS, agent_path
from sentinel.client.strict_json import dumps
from sentinel.model.agents import (
    AgentAnswer,
    AgentReport,
    EndedOnNode,
    NodeHardware,
    Outcome,
)
from sentinel.model.readings import HardwareReading, HardwareWhat
from sentinel.run_files.agent_rows import RANKS_MAX, TEXT_CHARS, rank_to_json, ranks_of_json
from sentinel.run_files.attempt_files import HOST, is_rank
from sentinel.run_files.stream_lines import parse_object

REPORT_BYTES_MAX = 1 << 19
USUAL_BYTES = 8192  # room for half a MB is not had for nothing, 2,048 times a second
ROOM_BYTES = 2048  # of a node with eight ranks; what needs more gets it
ENDED_MAX, HARDWARE_MAX, BLIND_MAX = 128, 64, 4  # of one report
ORDERS_MAX = 64
NAME_CHARS = 100
NUMBER_MAX = 1 << 53
_CRC = len('{"crc":"01234567",')
_FIRST, _LAST = "node-", ".json"
_NOT_WRITTEN = ("host", "saw_no_rank")  # the reader knows them by itself


class ReportFile:
    """For the agent of one node."""

    def __init__(self, run_dir: Path, node: str) -> None:
        self._file = HeartbeatFile(agent_path(run_dir, node), ROOM_BYTES)

    def write(self, report: AgentReport) -> None:
        """Raises OSError; the next one is tried anew."""
        self._file.write_line(encode_report_of_node(report))


def encode_report_of_node(report: AgentReport) -> bytes:
    """One line of JSON, at most REPORT_BYTES_MAX long: of lists that are too long the newest are kept, of ranks the first."""
    value: dict[str, Any] = {"v": 1, "node": report.node, "boot_id": report.boot_id, "life": report.life, "turn": report.turn}
    value["ranks"] = [rank_to_json(one, report.node) for one in report.ranks[:RANKS_MAX]]
    value["ended"] = [asdict(one) for one in report.ended[-ENDED_MAX:]]
    value["hardware"] = [_hardware_to_json(one) for one in report.hardware[-HARDWARE_MAX:]]
    value["blind"] = {name[:NAME_CHARS]: why[:TEXT_CHARS] for name, why in [*report.blind.items()][:BLIND_MAX]}
    answers = [*report.answers.values()][-ORDERS_MAX:]
    value["answers"] = [asdict(one) | {"text": one.text[:TEXT_CHARS]} for one in answers]
    if report.has_left:
        value["has_left"] = True
    body = dumps(value)
    return b'{"crc":"%08x",' % zlib.crc32(body.encode()) + body[1:].encode()


def read_report_of_node(path: str | os.PathLike[str]) -> AgentReport:
    """Raises OSError, and ValueError for what is no whole report."""
    return parse_report_of_node(read_report_bytes(path))


def read_report_bytes(path: str | os.PathLike[str]) -> bytes:
    """In three calls to the system: 2,048 of them are read each second. Raises OSError. What is longer than a report has a
    checksum that does not fit."""
    handle = regular(os.fspath(path), os.O_RDONLY)
    try:
        data = os.read(handle, USUAL_BYTES)
        return data if len(data) < USUAL_BYTES else data + os.read(handle, REPORT_BYTES_MAX - USUAL_BYTES)
    finally:
        os.close(handle)


def parse_report_of_node(data: bytes) -> AgentReport:
    """Raises ValueError for what is no whole report: damaged, half written, or of a later version."""
    data = data.rstrip()
    body = b"{" + data[_CRC:]
    if data[:_CRC] != b'{"crc":"%08x",' % zlib.crc32(body):
        raise ValueError("it is no whole report of an agent: its checksum does not fit")
    value = parse_object(body)
    if value.get("v") != 1:
        raise ValueError("it is no report of an agent that this version knows")
    node, life, turn = value.get("node"), value.get("life"), value.get("turn")
    if not isinstance(node, str) or not HOST.fullmatch(node) or not isinstance(life, str) or not is_count(turn):
        raise ValueError("it does not say of which node it is, or which report")
    return AgentReport(
        node=node,
        boot_id=text_of(value.get("boot_id")),
        life=life[:NAME_CHARS],
        turn=cast(int, turn),
        ranks=ranks_of_json(value, node),
        ended=tuple(map(_ended_of_json, objects_of(value, "ended", ENDED_MAX))),
        hardware=tuple(_hardware_of_json(one, node) for one in objects_of(value, "hardware", HARDWARE_MAX)),
        blind=texts_of(value.get("blind")),
        answers={one.id: one for one in map(_answer_of_json, objects_of(value, "answers", ORDERS_MAX))},
        has_left=value.get("has_left") is True,
    )


def list_reports(run_dir: Path) -> dict[str, Path]:
    """By node, where there are agents or were. Raises OSError."""
    try:
        names = os.listdir(run_dir / AGENTS)
    except FileNotFoundError:
        return {}
    found = (name[len(_FIRST) : -len(_LAST)] for name in names if name.startswith(_FIRST) and name.endswith(_LAST))
    return {node: agent_path(run_dir, node) for node in found if HOST.fullmatch(node)}


def find_report(run_dir: Path, node: str) -> AgentReport | None:
    """What the agent of this node has last written; None where there is none that can be read now."""
    if not HOST.fullmatch(node):
        return None
    try:
        return read_report_of_node(agent_path(run_dir, node))
    except (OSError, ValueError):
        return None


def _ended_of_json(value: Mapping[str, Any]) -> EndedOnNode:
    """Raises ValueError."""
    rank, pid, code = value.get("rank"), value.get("pid"), value.get("code")
    if type(rank) is not int or type(pid) is not int or not is_rank(rank):
        raise ValueError("a rank that has ended makes no sense")
    return EndedOnNode(count_of(value, "attempt"), rank, pid, code if type(code) is int else None)


def _hardware_to_json(one: NodeHardware) -> dict[str, Any]:
    reading = {name: value for name, value in asdict(one.reading).items() if value is not None and name not in _NOT_WRITTEN}
    reading |= {"text": one.reading.text[:TEXT_CHARS], "source": one.reading.source[:NAME_CHARS]}
    if one.reading.device is not None:
        reading["device"] = one.reading.device[:NAME_CHARS]
    return {"number": one.number, "age_s": round(one.age_s, 3), **reading}


def _hardware_of_json(value: Mapping[str, Any], node: str) -> NodeHardware:
    """Raises ValueError."""
    what, number, age_s, device = (value.get(name) for name in ("what", "number", "age_s", "device"))
    if what not in get_args(HardwareWhat) or not is_count(number) or not isinstance(age_s, (int, float)):
        raise ValueError("what the hardware told makes no sense")
    if isinstance(age_s, bool) or not 0 <= age_s < NUMBER_MAX:  # nor is it from the future: it would count as new
        raise ValueError("what the hardware told makes no sense")
    amount, rank, place = value.get("value"), value.get("rank"), value.get("place")
    is_place = isinstance(place, list) and len(place) == 2 and all(type(one) is int for one in place)
    reading = HardwareReading(
        source=text_of(value.get("source")),
        what=cast(HardwareWhat, what),
        text=text_of(value.get("text")),
        host=node,
        device=device if isinstance(device, str) else None,
        value=float(amount) if isinstance(amount, (int, float)) and abs(amount) < NUMBER_MAX else None,
        rank=rank if type(rank) is int and is_rank(rank) else None,
        place=(place[0], place[1]) if is_place and isinstance(place, list) else None,
        used=value.get("used") is not False,
        by_agent=True,
    )
    return NodeHardware(cast(int, number), float(age_s), reading)


def _answer_of_json(value: Mapping[str, Any]) -> AgentAnswer:
    """Raises ValueError."""
    name, outcome = value.get("id"), value.get("outcome")
    if not isinstance(name, str) or outcome not in get_args(Outcome):
        raise ValueError("an answer makes no sense")
    return AgentAnswer(name[:NAME_CHARS], cast(Outcome, outcome), text_of(value.get("text")), count_of(value, "count"))


def objects_of(value: Mapping[str, Any], name: str, at_most: int) -> Iterable[dict[str, Any]]:
    listed = value.get(name)
    return [one for one in listed[:at_most] if type(one) is dict] if type(listed) is list else ()


def is_count(value: object) -> bool:
    return type(value) is int and 0 <= value < NUMBER_MAX


def count_of(value: Mapping[str, Any], name: str) -> int:
    number = value.get(name)
    return number if type(number) is int and 0 <= number < NUMBER_MAX else 0


def text_of(value: object) -> str:
    return value[:TEXT_CHARS] if isinstance(value, str) else ""


def texts_of(value: object) -> dict[str, str]:
    return {text_of(name): text_of(why) for name, why in [*value.items()][:BLIND_MAX]} if isinstance(value, dict) else {}
