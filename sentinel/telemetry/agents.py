"""What the agents of the nodes see, where there are any: the newest report of each, read in a thread of its own, once a second.

From a report come the heartbeats of the node's ranks (a run of 16,384 ranks has 2,048 files to be read in place of 16,384), what
its silent ranks do, and what its hardware told. An agent whose report does not change is gone, or its node is: nothing is
concluded from that. After FALLBACK_S its ranks' own heartbeats are read again; after BLIND_S a person hears what is no longer
seen.

    agents = Agents(run_dir, orders)
    agents.poll(now_s, attempt, lives)      # readings; then `reports` are those that are new, oldest first
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from sentinel.clock import Clock, SystemClock
from sentinel.model.agents import HARDWARE_EVENTS, AgentOrder, AgentReport, RankOnNode
from sentinel.model.amounts import time_words
from sentinel.model.readings import Doing, Reading, SourceReading
from sentinel.run_files.agent_orders import OrderBook
from sentinel.run_files.attempt_files import is_this_host
from sentinel.telemetry.agent_sweep import AgentSweep
from sentinel.telemetry.heartbeats import RankLife
from sentinel.telemetry.source import SourceHealth

EVERY_S = 1.0
SLICE = 32  # files between two pauses: the loop is not to wait for a sweep
REPORTS_PER_POLL = 128  # some 1,000 heartbeats, a hundredth of a second: what else the loop has to do waits no longer
FALLBACK_S = 5.0
COVERED_EVERY_S = 0.25  # small beside FALLBACK_S; the loop asks for each hundred reports
BLIND_S = 15.0
YOUNG_S = 120.0
NAMED_MAX = 4
RANKS_NAMED_MAX = 64  # in an order; of more all are asked


@dataclass(slots=True)
class _NodeSeen:
    """What the loop knows of a node. `is_first`: nothing was heard since its first report, which may be of any age. `number`: how
    far its hardware was heard in this `life` of its agent. `rows`: the ranks of its newest report. `places`: of the attempt's
    among them each, and whether its heartbeat is told. `of_attempt`: the newest one of which it had a rank."""

    changed_s: float
    is_first: bool = True
    has_left: bool = False
    life: str = ""
    number: int = 0
    rows: tuple[RankOnNode, ...] = ()
    places: list[tuple[int, bool]] = field(default_factory=list)
    of_attempt: int = -1


@dataclass(slots=True)
class Agents:
    """Of one run, for the loop. `own_thread` False: whoever calls sweeps by himself."""

    run_dir: Path
    orders: OrderBook
    own_thread: bool = True
    clock: Clock = field(default_factory=SystemClock)
    reports: list[AgentReport] = field(default_factory=list)
    _health: SourceHealth = field(default_factory=lambda: SourceHealth("agents"))
    _waiting: dict[str, AgentReport] = field(default_factory=dict)
    _seen: dict[str, _NodeSeen] = field(default_factory=dict)
    _node_of: dict[int, str] = field(default_factory=dict)  # by rank of the attempt
    _attempt: int = -1
    _began_s: float | None = None
    _followed_s: float = 0.0
    _judged_s: float = float("-inf")
    _missed: tuple[str, ...] = ()
    _stop: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None
    _covered: frozenset[int] = frozenset()
    _covered_s: float = float("-inf")  # when it was last found out
    _stale: frozenset[str] = frozenset()
    _is_moved: bool = False  # ranks have come to a node, or gone from it, since it was last found out who is covered
    sweep: AgentSweep = field(init=False)

    def __post_init__(self) -> None:
        self.run_dir = Path(os.path.realpath(self.run_dir))
        self.sweep = AgentSweep(self.run_dir)

    @property
    def has_more(self) -> bool:
        return bool(self._waiting)

    def poll(self, now_s: float, attempt: int, lives: Mapping[int, RankLife]) -> list[Reading]:
        """What is new of hardware, and whether agents are missed; `reports` are the new ones until the next poll. `lives`: of the
        attempt's ranks, whoever tells of them."""
        self._begin(now_s)
        if attempt != self._attempt:
            self._attempt, self._node_of, self._covered, self._followed_s = attempt, {}, frozenset(), now_s
            self._is_moved = True
            for node in self._seen.values():
                node.rows, node.places = (), []
        self._waiting |= self.sweep.take()
        names = [*self._waiting][:REPORTS_PER_POLL]
        self.reports = [self._waiting.pop(name) for name in names]
        out: list[Reading] = []
        for report in self.reports:
            out += self._hear(report, now_s)
        if now_s - self._judged_s >= EVERY_S:
            self._judged_s = now_s
            out += self._judge_missed(now_s, lives)
        return out

    def covered(self, now_s: float) -> frozenset[int]:
        """The attempt's ranks whose heartbeats come by an agent just now."""
        if not self._is_moved and now_s - self._covered_s < COVERED_EVERY_S:
            return self._covered
        self._covered_s = now_s
        stale = frozenset(name for name, node in self._seen.items() if self._is_stale(node, now_s, FALLBACK_S))
        if self._is_moved or stale != self._stale:
            self._stale, self._is_moved = stale, False
            known = [node.places for name, node in self._seen.items() if name not in stale]
            self._covered = frozenset(rank for places in known for rank, is_beating in places if is_beating)
        return self._covered

    def sight(self, rank: int, now_s: float) -> tuple[Doing, str] | None:
        """What the rank does, as the agent of its node sees it now; None where there is none, or it is stale."""
        name = self._node_of.get(rank)
        if name is None or self._is_stale(self._seen[name], now_s, FALLBACK_S):
            return None
        key = self._attempt, rank  # the newest of two processes stands last
        return next((row.doing, row.where) for row in reversed(self._seen[name].rows) if (row.attempt, row.rank) == key)

    def ask_for_stacks(self, attempt: int, ranks: Sequence[int], newest: RankLife, *, with_dumps: bool) -> None:
        """Once for a silence, which is told from others by the last heartbeat in it. Raises OSError."""
        named = tuple(sorted(ranks)) if len(ranks) <= RANKS_NAMED_MAX else ()
        name = f"stacks/{attempt}/{min(ranks)}-{len(ranks)}/{newest.step}-{newest.time_s:.3f}"
        self.orders.give(AgentOrder(name, "stacks", attempt, ranks=named, with_dumps=with_dumps))

    def close(self) -> None:
        self._stop.set()

    def _begin(self, now_s: float) -> None:
        if self._began_s is None:
            self._began_s = now_s
        if self.own_thread and self._thread is None:
            self._thread = threading.Thread(target=self._run, name="sentinel-agents", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        """The sweeps, each spread over a second. A filesystem that does not answer holds this thread alone: then no report
        changes, and every agent is stale."""
        clock, stop = self.clock, self._stop
        while not stop.is_set():
            began_s = clock.now_s()
            with suppress(OSError):
                due = self.sweep.due(began_s)
                for first in range(0, len(due), SLICE):
                    for name in due[first : first + SLICE]:
                        self.sweep.read(name, clock.now_s())
                    if clock.wait(stop, began_s + EVERY_S * (first + SLICE) / max(len(due), SLICE) - clock.now_s()):
                        return
            clock.wait(stop, began_s + EVERY_S - clock.now_s())

    def _hear(self, report: AgentReport, now_s: float) -> list[Reading]:
        node = self._seen.get(report.node)
        if node is None:
            node = self._seen[report.node] = _NodeSeen(now_s, self.sweep.was_there(report.node))
        else:
            node.is_first = False
        self._is_moved = self._is_moved or node.has_left != report.has_left
        node.changed_s, node.has_left = now_s, report.has_left
        self._place(node, report)
        # Of its own machine the supervisor hears itself. What a node told right before it died is no news.
        if not report.hardware or node.is_first or is_this_host(report.node):
            return []
        if node.life != report.life:
            node.life, node.number = report.life, 0
        assert self._began_s is not None
        out: list[Reading] = []
        for one in report.hardware:
            if one.number > node.number:
                node.number = one.number
                # what happened before this supervisor looked belongs to another time, as in the kernel log of its own machine
                if one.reading.what not in HARDWARE_EVENTS or one.age_s <= now_s - self._began_s:
                    out.append(replace(one.reading, saw_no_rank=node.of_attempt != self._attempt))
        return out

    def _place(self, node: _NodeSeen, report: AgentReport) -> None:
        attempt, before, name, node_of = self._attempt, node.places, report.node, self._node_of
        node.rows = report.ranks
        node.places = [(row.rank, row.beat is not None) for row in report.ranks if row.attempt == attempt]
        if node.places:
            node.of_attempt = attempt
        for rank, _ in node.places:
            if node_of.get(rank) != name:
                node_of[rank] = name
        if node.places == before:
            return  # as nearly always, and 2,048 of them come in a second
        self._is_moved = True
        for rank in {rank for rank, _ in before} - {rank for rank, _ in node.places}:
            if node_of.get(rank) == name:  # gone from there, and perhaps on another node by now
                del node_of[rank]

    def _is_stale(self, node: _NodeSeen, now_s: float, after_s: float) -> bool:
        return node.has_left or now_s - node.changed_s > after_s

    def _judge_missed(self, now_s: float, lives: Mapping[int, RankLife]) -> list[Reading]:
        """Agents that have fallen silent on nodes where ranks of the attempt are known to be. One of a node that the run does not
        use any more is not missed."""
        stale = {name for name, node in self._seen.items() if self._is_stale(node, now_s, BLIND_S)}
        silent = set(stale)
        if silent:
            hosts = {*self._node_of.values()} | {life.host for life in lives.values()}
            is_young = now_s - self._followed_s < YOUNG_S  # an attempt whose ranks are not all heard yet
            silent &= hosts | set(self._missed if is_young else ())
        missed = tuple(sorted(silent))
        if missed == self._missed:
            return []
        left, self._missed = [name for name in self._missed if name in stale], missed
        if not missed:
            named = ", ".join(left[:NAMED_MAX]) + (f" and {len(left) - NAMED_MAX} more" if len(left) > NAMED_MAX else "")
            again = f"the run has left {named}, whose silence hides nothing of it" if left else "every agent writes again"
            return [*self._health.regained(again)]
        reason = self._describe(missed, now_s)
        lost = self._health.lost(reason)
        return [*(lost or [SourceReading("agents", ok=False, reason=reason, remark=True)])]

    def _describe(self, missed: tuple[str, ...], now_s: float) -> str:
        words = []
        for name in missed[:NAMED_MAX]:
            node = self._seen[name]
            words.append(f"{name} (stopped)" if node.has_left else f"{name} (silent for {time_words(now_s - node.changed_s)})")
        more = f" and {len(missed) - NAMED_MAX} more" if len(missed) > NAMED_MAX else ""
        return (
            f"no word from the agent of {', '.join(words)}{more}: what ranks do there, GPUs and kernel log are not seen, and "
            "nothing is concluded from that; heartbeats are read one by one"
        )
