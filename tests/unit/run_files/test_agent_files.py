"""What the agent of a node writes and the supervisor reads: whole or not at all, bounded, and of its own node alone."""

from __future__ import annotations

import os
import zlib
from dataclasses import replace
from pathlib import Path

import pytest

from sentinel.client.run_layout import agent_orders_path, agent_path
from sentinel.client.strict_json import loads
from sentinel.model.agents import (
    AgentAnswer,
    AgentOrder,
    AgentReport,
    BeatOnNode,
    EndedOnNode,
    NodeHardware,
    RankOnNode,
    kill_id,
)
from sentinel.model.readings import HardwareReading
from sentinel.run_files.agent_files import (
    ENDED_MAX,
    HARDWARE_MAX,
    REPORT_BYTES_MAX,
    ReportFile,
    encode_report_of_node,
    find_report,
    list_reports,
    parse_report_of_node,
    read_report_of_node,
)
from sentinel.run_files.agent_orders import ORDERS_MAX, AgentOrders, OrderBook, read_orders, write_orders
from sentinel.run_files.agent_rows import RANKS_MAX, beat_of

HUGE = "1" + "0" * 400  # no float holds it
BEAT = BeatOnNode(12, "forward", 1.5, 39, 11, 0.25, "n2")
XID = HardwareReading("kernel_log", "xid", "Xid 79", "n2", "0000:3b:00", 79.0, rank=3, place=(1, 8), by_agent=True)
REPORT = AgentReport(
    node="n2",
    boot_id="b-1",
    life="l-1",
    turn=7,
    ranks=(RankOnNode(1, 3, 82, "blocked", "nfs_wait", BEAT), RankOnNode(1, 4, 83, beat=BEAT._replace(host="n2.x", busy_s=None))),
    ended=(EndedOnNode(1, 5, 84, 1), EndedOnNode(1, 6, 85)),
    hardware=(NodeHardware(1, 0.5, XID),),
    blind={"nvml": "no driver"},
    answers={"kill/1/": AgentAnswer("kill/1/", "done", "3 ended", 3)},
)


def test_what_was_written_is_read(tmp_path: Path) -> None:
    ReportFile(tmp_path, "n2").write(REPORT)
    assert read_report_of_node(agent_path(tmp_path, "n2")) == REPORT
    assert find_report(tmp_path, "n2") == REPORT
    assert find_report(tmp_path, "n3") is None
    assert list(list_reports(tmp_path)) == ["n2"]


def test_it_is_strict_json_and_one_file_written_over_in_place(tmp_path: Path) -> None:
    file, path = ReportFile(tmp_path, "n2"), agent_path(tmp_path, "n2")
    file.write(REPORT)
    inode = path.stat().st_ino
    file.write(replace(REPORT, turn=8, ranks=(), has_left=True))
    assert path.stat().st_ino == inode
    assert loads(path.read_bytes())["turn"] == 8
    assert read_report_of_node(path).has_left


def test_a_shorter_report_of_another_agent_leaves_nothing_of_the_longer_one_before(tmp_path: Path) -> None:
    many = tuple(RankOnNode(1, rank, 100 + rank, beat=BEAT) for rank in range(64))
    ReportFile(tmp_path, "n2").write(replace(REPORT, ranks=many))
    ReportFile(tmp_path, "n2").write(REPORT)
    assert read_report_of_node(agent_path(tmp_path, "n2")) == REPORT


@pytest.mark.parametrize("cut", [12, 30, 200])
def test_a_report_that_is_half_written_is_none(cut: int) -> None:
    old, new = encode_report_of_node(REPORT), encode_report_of_node(replace(REPORT, turn=8, blind={"nvml": "no device"}))
    with pytest.raises(ValueError, match="checksum"):
        parse_report_of_node(new[:cut] + old[cut:])
    with pytest.raises(ValueError, match="checksum"):
        parse_report_of_node(new[:-cut])


@pytest.mark.parametrize("what", [b"", b"{}", b"null", b"\xff\xfe", b'{"crc":"00000000","v":1}', b"[" * 100_000])
def test_what_is_no_report_is_refused(what: bytes) -> None:
    with pytest.raises(ValueError, match="report"):
        parse_report_of_node(what)


def test_a_pipe_under_its_name_holds_nobody_up(tmp_path: Path) -> None:
    path = agent_path(tmp_path, "n2")
    path.parent.mkdir()
    os.mkfifo(path)
    assert find_report(tmp_path, "n2") is None
    os.mkfifo(agent_orders_path(tmp_path))
    with pytest.raises(OSError, match="FIFO"):
        read_orders(tmp_path)


def test_of_a_heartbeat_is_kept_what_makes_sense() -> None:
    fields = {"step": 12, "phase": "forward", "time_s": 1.5, "pid": 82, "host": "n2", "stack_signal": 39, "boot_id": "b"}
    assert beat_of(fields | {"busy_step": 11, "busy_s": 0.25}) == BEAT
    assert beat_of(fields | {"busy_step": 11, "host": "a b", "stack_signal": -1}) == BEAT._replace(
        busy_step=0, busy_s=None, host="", stack_signal=None
    )
    assert beat_of({"step": -1, "phase": "forward"}) is None
    assert beat_of({"step": 1}) is None


@pytest.mark.parametrize(
    "row",
    [
        "7", "[1,2]", '[1,3,82,"sings",""]', '[1,-3,82,"runs",""]', '[1,3,82,"runs","",[]]', '[1,3,82,"runs","",[1,2,3,4,5,6]]',
        '[1,3,82,["runs"],""]', '[1,3,82,{},""]', '[-1,3,82,"runs",""]', f'[{HUGE},3,82,"runs",""]', f'[1,3,{HUGE},"runs",""]',
        '[1,3,0,"runs",""]', f'[1,3,82,"runs","",[{HUGE},"forward",1.5,null,0,null]]',
        '[1,3,82,"runs","",[-7,"forward",1.5,null,0,null]]', '[1,3,82,"runs","",[7,"forward",1e999,null,0,null]]',
        '[1,3,82,"runs","",[7,"forward",NaN,null,0,null]]', f'[1,3,82,"runs","",[7,"forward",1.5,{HUGE},0,null]]',
        f'[1,3,82,"runs","",[7,"forward",1.5,null,{HUGE},0.5]]', '[1,3,82,"runs","",[7,"forward",1.5,null,6,-1e999]]',
    ],
)  # fmt: skip
def test_ranks_that_make_no_sense_make_no_report(row: str) -> None:
    body = f'{{"v":1,"node":"n2","boot_id":"b","life":"l","turn":1,"ranks":[{row}]}}'.encode()
    with pytest.raises(ValueError, match="sense"):
        parse_report_of_node(b'{"crc":"%08x",' % zlib.crc32(body) + body[1:])


def test_its_size_is_bounded_and_the_newest_is_kept() -> None:
    wide = "\u20ac" * 1000  # six bytes each in ASCII JSON
    reading = replace(XID, text=wide, device=wide)
    report = AgentReport(
        "n2", "b", "l", 1,
        ranks=tuple(RankOnNode(1, rank, rank + 1, where=wide, beat=BEAT._replace(host="h" * 200)) for rank in range(1000)),
        ended=tuple(EndedOnNode(1, rank, rank + 1) for rank in range(1000)),
        hardware=tuple(NodeHardware(number, 0.0, reading) for number in range(1, 1001)),
        blind={str(number): wide for number in range(100)},
        answers={str(number): AgentAnswer(str(number), "done", wide) for number in range(1000)},
    )  # fmt: skip
    data = encode_report_of_node(report)
    assert len(data) <= REPORT_BYTES_MAX
    read = parse_report_of_node(data)
    assert [one.rank for one in read.ranks] == list(range(RANKS_MAX))
    assert (len(read.ended), read.ended[-1].rank) == (ENDED_MAX, 999)
    assert (len(read.hardware), read.hardware[-1].number) == (HARDWARE_MAX, 1000)
    assert [*read.answers][-1] == "999"


def test_hardware_is_that_of_the_node_whoever_it_says_it_is() -> None:
    data = encode_report_of_node(replace(REPORT, hardware=(NodeHardware(1, 0.5, replace(XID, host="n9")),)))
    assert parse_report_of_node(data).hardware[0].reading.host == "n2"


@pytest.mark.parametrize("age", [HUGE, f"-{HUGE}", "-5.0", "NaN", "1e999", "true", '"1"', "[]"])
def test_hardware_of_no_age_makes_no_report(age: str) -> None:
    """One from the future would count as new."""
    body = encode_report_of_node(REPORT)[len('{"crc":"01234567",') :].replace(b'"age_s":0.5', f'"age_s":{age}'.encode())
    with pytest.raises(ValueError, match="sense"):
        parse_report_of_node(b'{"crc":"%08x",' % zlib.crc32(b"{" + body) + body)


def test_a_rank_is_known_to_have_ended_only_where_its_very_process_was_seen_to() -> None:
    assert REPORT.says_ended(1, 5, 84, "b-1")
    assert REPORT.says_ended(1, 5, 84, None)  # its heartbeat names no boot
    assert not REPORT.says_ended(1, 5, 99, "b-1")  # started again since
    assert not REPORT.says_ended(1, 5, None, "b-1")
    assert not REPORT.says_ended(1, 5, 84, "b-2")
    assert not REPORT.says_ended(1, 3, 82, "b-1")  # the order to end it is answered, and it was not seen to end
    assert not REPORT.says_ended(2, 5, 84, "b-1")


# Orders


KILL = AgentOrder(kill_id(1, "w"), "kill", 1, launch="w", spares="n1")
STACKS = AgentOrder("stacks/1/a", "stacks", 1, ranks=(3, 4), nodes=("n2",), with_dumps=True)


def test_orders_are_read_as_they_were_given_and_each_once(tmp_path: Path) -> None:
    book = OrderBook(tmp_path, epoch=4)
    for order in (KILL, STACKS, KILL):
        book.give(order)
    assert read_orders(tmp_path) == AgentOrders(4, (KILL, STACKS))
    assert read_orders(tmp_path / "nothing") == AgentOrders()


def test_an_order_of_the_supervisor_before_is_not_given_again(tmp_path: Path) -> None:
    OrderBook(tmp_path, epoch=4).give(KILL)
    before = agent_orders_path(tmp_path).stat().st_ino
    OrderBook(tmp_path, epoch=5).give(KILL)
    assert agent_orders_path(tmp_path).stat().st_ino == before


def test_another_look_takes_the_place_of_the_one_before_and_the_list_is_bounded(tmp_path: Path) -> None:
    book = OrderBook(tmp_path)
    book.give(STACKS)
    book.give(replace(STACKS, id="stacks/1/b"))
    assert [one.id for one in read_orders(tmp_path).orders] == ["stacks/1/b"]
    write_orders(tmp_path, AgentOrders(1, tuple(replace(KILL, id=str(number)) for number in range(ORDERS_MAX))))
    OrderBook(tmp_path).give(KILL)
    orders = read_orders(tmp_path).orders
    assert (len(orders), orders[0].id, orders[-1]) == (ORDERS_MAX, "1", KILL)


def test_an_order_that_is_not_understood_whole_is_none(tmp_path: Path) -> None:
    path = agent_orders_path(tmp_path)
    path.parent.mkdir()
    odd = ['{"id":"a","word":"reboot","attempt":1,"ranks":[],"nodes":[]}', '{"id":"b","word":"kill","attempt":-1}', "7"]
    odd += [f'{{"id":"s","word":"signal","attempt":1,"ranks":[],"nodes":[],"signal":{number}}}' for number in (0, 9999, 2**40)]
    odd += ['{"id":"c","word":"kill","attempt":1,"ranks":"all","nodes":[]}', '{"id":"d","word":"kill","attempt":1,"ranks":[]}']
    whole = '{"id":"e","word":"kill","attempt":1,"ranks":[],"nodes":[]}'
    path.write_text(f'{{"v":1,"epoch":2,"orders":[{",".join([*odd, whole])}]}}')
    assert read_orders(tmp_path).orders == (AgentOrder("e", "kill", 1),)
    path.write_text('{"v":2,"orders":[]}')
    with pytest.raises(ValueError, match="this version"):
        read_orders(tmp_path)
    book = OrderBook(tmp_path)
    book.give(KILL)  # what makes no sense holds up no order
    assert read_orders(tmp_path).orders == (KILL,)
