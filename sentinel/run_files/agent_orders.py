"""agents/orders.json: what the agents are asked to do. Written by the supervisor alone, as a whole."""

from __future__ import annotations

import signal
import threading
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast, get_args

from sentinel.client.atomic_file import write_atomically
from sentinel.client.regular_file import read_regular
from sentinel.client.run_layout import agent_orders_path
from sentinel.client.strict_json import dumps, loads
from sentinel.model.agents import AgentOrder, OrderWord
from sentinel.run_files.agent_files import NAME_CHARS, ORDERS_MAX, REPORT_BYTES_MAX, count_of, is_count, objects_of, text_of


@dataclass(frozen=True, slots=True)
class AgentOrders:
    """orders.json. `epoch`: of the supervisor that wrote it."""

    epoch: int = 0
    orders: tuple[AgentOrder, ...] = ()


class OrderBook:
    """The orders of one supervisor. Threads of it may add to it at once."""

    def __init__(self, run_dir: Path, epoch: int = 0) -> None:
        self._run_dir, self._epoch = run_dir, epoch
        self._lock = threading.Lock()
        self._orders: tuple[AgentOrder, ...] | None = None  # a supervisor of before may have asked

    def give(self, order: AgentOrder) -> None:
        """Once, whatever the number of calls with its id. Another look at ranks takes the place of the one before. Raises
        OSError."""
        with self._lock:
            before = self._read() if self._orders is None else self._orders
            if any(one.id == order.id for one in before):
                self._orders = before
                return
            kept = [one for one in before if not (one.word == order.word == "stacks")]
            orders = (*kept, order)[-ORDERS_MAX:]
            write_orders(self._run_dir, AgentOrders(self._epoch, orders))
            self._orders = orders

    def _read(self) -> tuple[AgentOrder, ...]:
        try:
            return read_orders(self._run_dir).orders
        except ValueError:
            return ()  # damaged: whatever it asked for is asked again


def write_orders(run_dir: Path, orders: AgentOrders) -> None:
    """Raises OSError."""
    value = {"v": 1, "epoch": orders.epoch, "orders": [_order_to_json(one) for one in orders.orders]}
    write_atomically(agent_orders_path(run_dir), dumps(value).encode() + b"\n", durable=False)


def read_orders(run_dir: Path) -> AgentOrders:
    """None where nobody has asked for anything. Raises OSError, and ValueError for what makes no sense as a whole."""
    try:
        value = loads(read_regular(agent_orders_path(run_dir), REPORT_BYTES_MAX))
    except FileNotFoundError:
        return AgentOrders()
    if not isinstance(value, dict) or value.get("v") != 1:
        raise ValueError(f"{agent_orders_path(run_dir)}: is no list of orders that this version knows")
    orders = (_order_of_json(one) for one in objects_of(value, "orders", ORDERS_MAX))
    return AgentOrders(count_of(value, "epoch"), tuple(one for one in orders if one is not None))


def _order_to_json(order: AgentOrder) -> dict[str, Any]:
    return asdict(order) | {"ranks": list(order.ranks), "nodes": list(order.nodes), "words": list(order.words)}


def _order_of_json(value: Mapping[str, Any]) -> AgentOrder | None:
    """None for one that is not understood whole: nobody does half of what was asked."""
    word, name, attempt = value.get("word"), value.get("id"), value.get("attempt")
    launch, ranks, nodes, words = value.get("launch"), value.get("ranks"), value.get("nodes"), value.get("words", [])
    if word not in get_args(OrderWord) or not isinstance(name, str) or not is_count(attempt):
        return None
    if not (launch is None or isinstance(launch, str)) or not isinstance(ranks, list) or not isinstance(nodes, list):
        return None
    if not isinstance(words, list) or not all(isinstance(one, str) for one in words):
        return None
    if not all(type(rank) is int for rank in ranks) or not all(isinstance(node, str) for node in nodes):
        return None
    number = count_of(value, "signal")
    if word == "signal" and number not in signal.valid_signals():
        return None
    return AgentOrder(
        id=name[:NAME_CHARS],
        word=cast(OrderWord, word),
        attempt=cast(int, attempt),
        launch=launch,
        ranks=tuple(ranks),
        nodes=tuple(nodes),
        spares=text_of(value.get("spares")),
        signal=number,
        with_dumps=value.get("with_dumps") is True,
        words=tuple(words),
    )
