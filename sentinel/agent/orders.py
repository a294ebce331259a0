"""What the supervisor asks of this node, carried out and answered.

An order is done once, by its id, also by an agent that was started anew: it finds its own answers in its report. What ends
processes may be begun again, since there are only as many to end. A signal is not: one that was begun and not answered is
answered `unknown`. An order to end an attempt stands for as long as it is in the file: what of it comes up later is ended too.

What may take long (ends, the check) runs in a thread, so that the report goes on. The thread keeps its answer for the next turn.
"""

from __future__ import annotations

import os
import queue
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from sentinel.agent.node_ranks import NodeRanks, with_sight
from sentinel.client.flight_pipe import ask_for_dump
from sentinel.launcher.agent_reach import why_another_check
from sentinel.launcher.asking import AskLimits, Beside, ask, in_a_thread, without
from sentinel.launcher.marked import MarkedProcess, find_marked
from sentinel.launcher.node_reach import OUTPUT_BYTES_MAX, as_node_reply
from sentinel.launcher.process_tree import Process, find_descendants, kill_until_none, read_processes, send_signal
from sentinel.launcher.process_waits import describe_stuck
from sentinel.model.agents import AgentAnswer, AgentOrder, BeatOnNode, Outcome, RankOnNode
from sentinel.model.readings import Doing
from sentinel.plan.node_check import judge_replies, one_line
from sentinel.run_files.agent_orders import AgentOrders, read_orders
from sentinel.run_files.attempt_files import ATTEMPT_VARIABLE, RUN_DIR_VARIABLE, AttemptFiles, is_same_host
from sentinel.telemetry.rank_look import SPIES_MAX, RankLook, dump_places

END_S = 20.0  # for processes to end by SIGKILL
NAMED_MAX = 4


@dataclass(frozen=True, slots=True)
class CheckCommand:
    """The node's own check; what its end means, `plan.node_check` says. `words` empty: there is none."""

    words: tuple[str, ...] = ()
    timeout_s: float = 300.0


class NodeOrders:
    """For one node. `answers`: by id, of orders that are still in the file."""

    def __init__(
        self, run_dir: Path, node: str, ranks: NodeRanks, check: CheckCommand = CheckCommand(), beside: Beside = in_a_thread
    ) -> None:
        self._run_dir, self._node, self._ranks, self._check, self._beside = run_dir, node, ranks, check, beside
        self._orders = AgentOrders()
        self._ended: queue.SimpleQueue[AgentAnswer] = queue.SimpleQueue()
        self._looks: dict[tuple[int, int], tuple[RankLook, BeatOnNode | None]] = {}
        self.answers: dict[str, AgentAnswer] = {}
        self.trouble = ""  # why orders cannot be read; empty where they can

    def remember(self, answers: Mapping[str, AgentAnswer]) -> None:
        """Those of the agent before this one on this node. What it had begun and may be done again is left out."""
        self.answers = {name: one for name, one in answers.items() if one.outcome != "begun" or name.startswith("signal/")}

    def turn(self) -> tuple[AgentOrder, ...]:
        """Read what is asked; the orders that begin now, each noted as begun. A supervisor that has been followed by another is
        not obeyed."""
        while not self._ended.empty():
            answer = self._ended.get()
            self.answers[answer.id] = answer
        try:
            asked = read_orders(self._run_dir)
            self.trouble = ""
        except (OSError, ValueError) as error:
            self.trouble = f"orders cannot be read: {error}"
            return ()
        if asked.epoch >= self._orders.epoch:
            self._orders = asked
        orders = {one.id: one for one in self._orders.orders if self._is_meant(one)}
        self.answers = {name: one for name, one in self.answers.items() if name in orders}
        for name, one in self.answers.items():
            if one.outcome == "begun" and orders[name].word == "signal":
                self.answers[name] = replace(one, outcome="unknown", text="its agent was started anew while it was sent")
        fresh = [one for one in orders.values() if one.id not in self.answers or self._must_end_again(one)]
        self.answers |= {one.id: AgentAnswer(one.id, "begun") for one in fresh}
        return tuple(fresh)

    def put_off(self, orders: Sequence[AgentOrder]) -> None:
        """That they begin could not be written down: nothing of them was done, and the next turn begins them."""
        for order in orders:
            del self.answers[order.id]

    def carry_out(self, order: AgentOrder, ranks: Sequence[RankOnNode]) -> None:
        """`ranks`: as just seen."""
        match order.word:
            case "stacks":
                self._begin_looks(order, ranks)
            case "signal":
                self._signal(order, ranks)
            case "kill" | "clean":
                self._beside(lambda: self._ended.put(self._end_processes(order)))
            case "check":
                self._beside(lambda: self._ended.put(self._run_check(order)))

    def look_closer(self, ranks: Sequence[RankOnNode], now_s: float) -> tuple[RankOnNode, ...]:
        """The ranks, those that were asked about as `RankLook` sees them, until they are heard again."""
        beats = {(one.attempt, one.rank): one.beat for one in ranks}
        for key in [key for key, (_, beat) in self._looks.items() if beats.get(key) != beat]:
            self._looks.pop(key)[0].close()
        return tuple(with_sight(one, self._sight(one, now_s)) for one in ranks)

    def close(self) -> None:
        for look, _ in self._looks.values():
            look.close()
        self._looks.clear()

    def _is_meant(self, order: AgentOrder) -> bool:
        is_named = not order.nodes or any(is_same_host(node, self._node) for node in order.nodes)
        return is_named and not (order.spares and is_same_host(order.spares, self._node))

    def _must_end_again(self, order: AgentOrder) -> bool:
        """What was ended has come up since: its start was under way."""
        is_over = order.word == "kill" and self.answers[order.id].outcome in ("done", "failed")
        return is_over and self._ranks.has_walked and any(_is_of(one, order) for one in self._ranks.marked.values())

    def _begin_looks(self, order: AgentOrder, ranks: Sequence[RankOnNode]) -> None:
        asked = [one for one in ranks if one.attempt == order.attempt and (not order.ranks or one.rank in order.ranks)]
        for one in asked:
            before = self._looks.pop((one.attempt, one.rank), None)
            if before is not None:
                before[0].close()
            self._looks[one.attempt, one.rank] = RankLook(0.0), one.beat
        if order.with_dumps and asked:
            _, pipes = dump_places(AttemptFiles(self._run_dir, order.attempt), [asked[0].pid])
            for pipe in pipes:
                for one in asked:
                    ask_for_dump(pipe, one.rank)
        self._answer(order, "done", f"{len(asked)} ranks are looked at", len(asked))

    def _sight(self, one: RankOnNode, now_s: float) -> tuple[Doing, str] | None:
        found = self._looks.get((one.attempt, one.rank))
        if found is None:
            return None
        number = None if one.beat is None else one.beat.stack_signal
        may_spy = sum(look.dump is not None for look, _ in self._looks.values()) < SPIES_MAX
        files = AttemptFiles(self._run_dir, one.attempt)
        return found[0].see(files, one.rank, one.pid, number, now_s, may_spy=may_spy)

    def _signal(self, order: AgentOrder, ranks: Sequence[RankOnNode]) -> None:
        asked = [one for one in ranks if one.attempt == order.attempt and (not order.ranks or one.rank in order.ranks)]
        processes = [self._ranks.process_of(one.attempt, one.rank) for one in asked]
        sent = sum(process is not None and send_signal(process, order.signal) for process in processes)
        self._answer(order, "done" if sent == len(asked) else "failed", f"sent to {sent} of {len(asked)} ranks", sent)

    def _end_processes(self, order: AgentOrder) -> AgentAnswer:
        """In a thread."""
        try:
            found = {process.pid for process in self._find(order)}
            left = kill_until_none(lambda: self._find(order), END_S)
        except OSError as error:
            return AgentAnswer(order.id, "unknown", f"processes cannot be looked at: {error}")
        if left:
            named = ", ".join(map(describe_stuck, left[:NAMED_MAX]))
            return AgentAnswer(order.id, "failed", f"{len(left)} processes survive SIGKILL: {named}", len(found))
        return AgentAnswer(order.id, "done", f"{len(found)} processes ended, nothing is left", len(found))

    def _find(self, order: AgentOrder) -> tuple[Process, ...]:
        """What lives of what the order is about, and below that."""
        meant = {pid for pid, one in find_marked(self._run_dir, self._node).items() if _is_of(one, order)}
        processes = read_processes() if meant else {}
        meant |= find_descendants(processes, meant)
        return tuple(processes[pid] for pid in sorted(meant - {os.getpid()}) if pid in processes and processes[pid].is_living)

    def _run_check(self, order: AgentOrder) -> AgentAnswer:
        """In a thread."""
        if not self._check.words:
            return AgentAnswer(order.id, "unknown", "no check was named for this node (sentinel agent --check COMMAND)")
        if why := why_another_check(self._check.words, order.words):
            return AgentAnswer(order.id, "unknown", why)
        environment = without(os.environ, frozenset((RUN_DIR_VARIABLE, ATTEMPT_VARIABLE)))
        limits = AskLimits(self._check.timeout_s, bytes_max=OUTPUT_BYTES_MAX, ends_all=True)
        reply = ask(self._check.words, environment, limits)
        found = judge_replies([self._node], {self._node: as_node_reply(reply, self._check.timeout_s)})
        if found.healthy:
            return AgentAnswer(order.id, "done", one_line(reply.output) or "healthy")
        if found.sick:
            return AgentAnswer(order.id, "sick", found.sick[0].reason)
        return AgentAnswer(order.id, "unknown", found.unknown[0].reason)

    def _answer(self, order: AgentOrder, outcome: Outcome, text: str, count: int = 0) -> None:
        self.answers[order.id] = AgentAnswer(order.id, outcome, text, count)


def _is_of(one: MarkedProcess, order: AgentOrder) -> bool:
    """Whether the order, to end an attempt or what came before one, is about this process."""
    if order.word == "clean":
        return one.attempt < order.attempt
    return one.attempt == order.attempt and (order.launch is None or one.launch in (None, order.launch))
