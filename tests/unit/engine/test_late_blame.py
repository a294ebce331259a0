"""A hang is found before the scheduler gives the dead node up: the end of the attempt says whom it is to be blamed on."""

from __future__ import annotations

from typing import Any

import pytest

from sentinel.model import facts as f
from sentinel.model.attempts import Exited, ExitReport, RankExit
from sentinel.model.findings import Kind
from sentinel.model.readings import Heartbeat
from sentinel.terminal.words import describe
from tests.builders import Bench, build_policy

RULES: list[dict[str, Any]] = [
    {"alert": name, "on": name.lower(), "labels": {"severity": "critical"}, "playbook": "restart"} for name in ("Crash", "Hang")
]
PLAYBOOK = [{"resume": {"from": "newest"}}, {"page": {"severity": "critical"}, "then": "stop_now"}]
LOST = (
    RankExit(0, 1, None, "record", "a peer is gone", lost_peers=True),
    RankExit(1, None, None, "unknown"),
)


def hanging(**spec: Any) -> Bench:
    """Two ranks on two nodes, silent for so long that the attempt is being ended."""
    bench = Bench(build_policy(playbooks={"restart": PLAYBOOK}, rules=RULES, without=("numeric", "non_finite", "call"), **spec))
    bench.launched()
    bench.steps(1, 30).checkpoint(20)
    for rank, host in enumerate(("n1.site.org", "n2.site.org")):
        bench.tell(Heartbeat(bench.number, rank, 30, "forward", bench.now_s, host=host))
    bench.tick(400)
    assert (bench.incident.kind, bench.incident.blamed_node) == (Kind.HANG, "")
    bench.done("capture").done("kill")
    return bench


def ended(bench: Bench, first: int | None, *lost: str) -> None:
    bench.seen(Exited(bench.number, ExitReport(None, LOST, first, "stopped by sentinel", lost_nodes=lost)))


def test_a_node_that_was_given_up_while_the_hang_was_repaired_is_blamed() -> None:
    bench = hanging()
    opened = bench.incident.reason
    ended(bench, 1, "n2")
    incident, why = bench.incident, "rank 1 went with its node: the scheduler has given up n2"
    assert (incident.blamed_rank, incident.blamed_node) == (1, "n2.site.org"), "the node as the heartbeats call it"
    assert incident.reason == f"{opened}; {why}"
    assert bench.of(f.AttemptEnded)[-1].reason == f"stop was requested; {why}"
    (found,) = bench.of(f.BlameFound)
    line = describe(found, 0.0, bench.state)
    assert line is not None
    assert line.text == f"incident 1 is blamed on rank 1 on node n2.site.org: {why}"
    assert not bench.of(f.NodeBlamed), "the policy has no check of nodes"


def test_it_counts_for_the_check_of_nodes() -> None:
    bench = hanging(node_check={"command": ["check"], "when": ["suspicion"]})
    ended(bench, 1, "n2")
    assert bench.of(f.NodeBlamed) == [f.NodeBlamed("n2.site.org", 1, 1, 1)]


@pytest.mark.parametrize(("first", "lost"), [(None, ("n2",)), (1, ()), (None, ())])
def test_the_word_of_the_scheduler_alone_counts(first: int | None, lost: tuple[str, ...]) -> None:
    """What ranks leave that were ended just now tells of that, and not of the hang."""
    bench = hanging()
    ended(bench, first, *lost)
    assert bench.incident.blamed_rank is None
    assert not bench.of(f.BlameFound)


def test_a_blame_that_was_found_before_stands() -> None:
    bench = Bench(build_policy(playbooks={"restart": PLAYBOOK}, rules=RULES, without=("numeric", "non_finite", "call")))
    bench.launched()
    bench.steps(1, 30).checkpoint(20)
    bench.tell(Heartbeat(bench.number, 0, 30, "forward", bench.now_s, host="n1"))
    bench.tell(Heartbeat(bench.number, 1, 28, "data", bench.now_s, host="n2"))
    bench.tick(400)
    assert bench.incident.blamed_rank == 1
    bench.done("capture").done("kill")
    bench.seen(Exited(bench.number, ExitReport(None, (*LOST[:1], LOST[1]), 1, "", lost_nodes=("n9",))))
    assert not bench.of(f.BlameFound)
