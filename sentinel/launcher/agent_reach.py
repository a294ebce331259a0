"""The way to nodes through the agents there (`sentinel agent`), where the launcher itself has none, or not to all of them.

An order names no program that an agent would not run by itself: each has the command of its own `--check`, and runs it where that
is the command of the policy, word for word. What an agent does not answer is unknown, and so is a node without one.
"""

from __future__ import annotations

import shlex
import time
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from sentinel.launcher.node_reach import LocalReach, NodeReach
from sentinel.model.agents import AgentAnswer, AgentOrder, AgentReport
from sentinel.model.amounts import time_words
from sentinel.model.node_checks import NodeReply
from sentinel.run_files.agent_files import find_report, list_reports
from sentinel.run_files.agent_orders import OrderBook
from sentinel.run_files.attempt_files import is_same_host, is_this_host

LOOK_EVERY_S = 0.2
SILENT_S = 10.0  # an agent writes each second: one that has not, for so long, does not answer either
SLACK_S = 5.0  # for an order to be read, and an answer to be written
UNREACHED = "no agent writes for it (sentinel agent RUN_DIR, on that node)"


@dataclass(slots=True)
class _Asked:
    """A node that was asked. `turn`: of the newest report, seen at `changed_s`."""

    agent: str
    turn: str
    changed_s: float


class AgentReach:
    """`node_reach.NodeReach`. `own`: the launcher's way, or why it has none. `now`, `wait`: time that passes."""

    def __init__(
        self,
        own: NodeReach | str,
        run_dir: Path,
        orders: OrderBook,
        now: Callable[[], float] = time.monotonic,
        wait: Callable[[float], None] = time.sleep,
    ) -> None:
        self._own, self._run_dir, self._orders, self._now, self._wait = own, run_dir, orders, now, wait

    def participants(self, exclude: Collection[str]) -> tuple[str, ...] | str:
        """As the launcher says. Where it knows no nodes: those whose agent writes now; the scheduler may choose among them."""
        if not isinstance(self._own, str):
            return self._own.participants(exclude)
        before = self._turns()
        ends_s = self._now() + SLACK_S
        writing: set[str] = set()
        while len(writing) < len(before) and self._now() < ends_s:
            self._wait(LOOK_EVERY_S)
            writing |= {node for node, turn in self._turns().items() if turn != before.get(node, turn)}
        found = (node for node in sorted(writing) if not any(is_same_host(node, one) for one in exclude))
        return tuple(found) if writing else f"{self._own}; and no agent writes (sentinel agent RUN_DIR, on each node)"

    def run(self, nodes: Sequence[str], command: Sequence[str], timeout_s: float) -> Mapping[str, NodeReply]:
        """Nodes that the launcher does not reach are asked through their agents, all at once."""
        if not isinstance(self._own, (str, LocalReach)):
            return self._own.run(nodes, command, timeout_s)
        here = [] if isinstance(self._own, str) else [node for node in nodes if is_this_host(node)]
        found = self._ask([node for node in nodes if node not in here], command, timeout_s)
        return found if isinstance(self._own, str) or not here else found | dict(self._own.run(here, command, timeout_s))

    def _ask(self, nodes: Sequence[str], command: Sequence[str], timeout_s: float) -> dict[str, NodeReply]:
        asked, began_s = self._find_agents(nodes), self._now()
        why = f"{UNREACHED}; {self._own}" if isinstance(self._own, str) else UNREACHED
        found = {node: NodeReply(None, "", why) for node in nodes if node not in asked}
        if not asked:
            return found
        name = f"check/{uuid.uuid4().hex[:12]}"
        agents = tuple(one.agent for one in asked.values())
        try:
            self._orders.give(AgentOrder(name, "check", 0, nodes=agents, words=tuple(command)))
        except OSError as error:
            return found | {node: NodeReply(None, "", f"its agent could not be asked: {error}") for node in asked}
        while asked and self._now() - began_s < timeout_s + SLACK_S:
            self._wait(LOOK_EVERY_S)
            for node, one in [*asked.items()]:
                reply = self._hear(one, find_report(self._run_dir, one.agent), name)
                if reply is not None:
                    found[node] = reply
                    del asked[node]
        return found | {node: NodeReply(None, "", f"it did not end within {time_words(timeout_s)}") for node in asked}

    def _hear(self, one: _Asked, report: AgentReport | None, name: str) -> NodeReply | None:
        """None while its answer may come."""
        answer = None if report is None else report.answers.get(name)
        if answer is not None and answer.outcome != "begun":
            return _as_reply(answer)
        if report is not None and report.has_left:
            return NodeReply(None, "", "its agent was stopped before it answered")
        if report is not None and (turn := _turn_of(report)) != one.turn:
            one.turn, one.changed_s = turn, self._now()
        silent_s = self._now() - one.changed_s
        return NodeReply(None, "", f"its agent has written nothing for {time_words(silent_s)}") if silent_s > SILENT_S else None

    def _find_agents(self, nodes: Sequence[str]) -> dict[str, _Asked]:
        turns, found = self._turns(), {}
        for node in nodes:
            agent = next((agent for agent in turns if is_same_host(agent, node)), None)
            if agent is not None:
                found[node] = _Asked(agent, turns[agent], self._now())
        return found

    def _turns(self) -> dict[str, str]:
        """Of agents that were not stopped, what each wrote last."""
        reports: list[AgentReport | None] = []
        with suppress(OSError):
            reports = [find_report(self._run_dir, node) for node in list_reports(self._run_dir)]
        return {one.node: _turn_of(one) for one in reports if one is not None and not one.has_left}


def why_another_check(own: Sequence[str], asked: Sequence[str]) -> str:
    """Empty where an agent may run its check for this order; an order of before names no words."""
    if not asked or tuple(own) == tuple(asked):
        return ""
    words, wanted = shlex.join(own), shlex.join(asked)
    return f"its agent's check is `{words}`, and the policy's is `{wanted}`; start the agent with that one (--check)"


def _turn_of(report: AgentReport) -> str:
    return f"{report.life} {report.turn}"


def _as_reply(answer: AgentAnswer) -> NodeReply:
    """An agent has judged already what its check means."""
    match answer.outcome:
        case "done":
            return NodeReply(0, answer.text)
        case "sick":
            return NodeReply(1, answer.text)
    return NodeReply(None, "", answer.text or f"its agent answered {answer.outcome}")
