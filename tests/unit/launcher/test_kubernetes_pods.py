"""One pod as the API tells of it."""

from __future__ import annotations

from typing import Any

import pytest

from sentinel.launcher.kubernetes.pods import OVERDUE_S, Pod, read_pod

NOW_S = 1_700_000_000.0
NOW = "2023-11-14T22:13:20Z"  # the same
BEFORE = "2023-11-14T22:12:00Z"


def pod(state: dict[str, Any] | None = None, *, status: dict[str, Any] | None = None, **metadata: Any) -> Pod:
    found = {"containerStatuses": [{"name": "trainer", "state": state}]} if state is not None else {}
    spec = {"nodeName": "gpu-7", "containers": [{"name": "trainer"}, {"name": "logs"}]}
    meta = {"name": "p", "labels": {"sentinel/attempt": "3", "sentinel/launch": "w"}, "annotations": {}}
    return read_pod({"metadata": meta | metadata, "spec": spec, "status": found | (status or {})}, NOW_S)


def test_a_pod_that_runs() -> None:
    found = pod({"running": {}}, status={"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]})
    assert (found.attempt, found.launch, found.node, found.has_started) == (3, "w", "gpu-7", True)
    assert not found.has_ended
    assert not found.lost
    assert not found.waits


READY = {"type": "Ready", "status": "False"}
LOST = [
    {"phase": "Running", "conditions": [READY]}, {"phase": "Unknown"}, {"reason": "NodeLost", "message": "gpu-7 is unresponsive"},
    {"phase": "Running", "conditions": [READY | {"reason": "NodeNotReady"}]},
]  # fmt: skip


@pytest.mark.parametrize("status", LOST)
def test_a_node_that_is_not_reachable(status: dict[str, Any]) -> None:
    assert pod({"running": {}}, status=status).lost.startswith("its node is not reachable")


@pytest.mark.parametrize("reason", ["ContainersNotReady", "PodCompleted", "ReadinessGatesNotReady"])
def test_a_kubelet_that_says_why_a_pod_is_not_ready_is_heard(reason: str) -> None:
    assert pod({"running": {}}, status={"conditions": [READY | {"reason": reason}]}).lost == ""


@pytest.mark.parametrize(("late_s", "is_lost"), [(0, False), (OVERDUE_S, False), (OVERDUE_S + 1, True)])
def test_a_pod_whose_grace_is_long_over(late_s: float, is_lost: bool) -> None:
    found = read_pod(
        {"metadata": {"name": "p", "deletionTimestamp": NOW, "deletionGracePeriodSeconds": 30}, "spec": {}, "status": {}},
        NOW_S + late_s,
    )
    assert found.was_asked
    assert bool(found.lost) is is_lost


@pytest.mark.parametrize(("ended", "was_asked"), [("2023-11-14T22:12:49Z", False), ("2023-11-14T22:12:51Z", True), (None, True)])
def test_what_ended_before_it_was_asked_did_so_by_itself(ended: str | None, was_asked: bool) -> None:
    """It was asked at 22:12:50: the API tells when its grace is over."""
    state = {"terminated": {"exitCode": 1, "finishedAt": ended}}
    assert pod(state, deletionTimestamp=NOW, deletionGracePeriodSeconds=30).was_asked is was_asked


@pytest.mark.parametrize(
    ("phase", "states", "has_ended"),
    [
        ("Failed", [{"terminated": {"exitCode": 1}}, {"terminated": {"exitCode": 0}}], True),
        ("Failed", [{"terminated": {"exitCode": 1}}, {"running": {}}], False), ("Failed", [], False),
        ("Running", [{"terminated": {"exitCode": 1}}], False),
    ],
)  # fmt: skip
def test_it_has_ended_when_every_container_has(phase: str, states: list[dict[str, Any]], has_ended: bool) -> None:
    names = ("trainer", "logs")
    statuses = [{"name": name, "state": state} for name, state in zip(names, states, strict=False)]
    assert pod(status={"phase": phase, "containerStatuses": statuses}).has_ended is has_ended


def test_the_end_is_that_of_the_container_that_trains() -> None:
    states = [{"name": "logs", "state": {"terminated": {"exitCode": 0}}}]
    states.append({"name": "trainer", "state": {"terminated": {"exitCode": 137, "reason": "OOMKilled", "finishedAt": BEFORE}}})
    end = pod(status={"containerStatuses": states}).end
    assert end is not None
    assert (end.code, end.reason, end.at_s) == (137, "OOMKilled", NOW_S - 80)


def test_what_it_waits_for() -> None:
    words = "0/9 nodes are available: 1 node(s) were unschedulable."
    unplaced = {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": words}]}
    assert pod(status=unplaced).waits == f"Unschedulable: {words}"
    assert not pod(status=unplaced).is_stuck
    assert not pod({"waiting": {"reason": "ContainerCreating"}}).is_stuck
    assert pod({"waiting": {"reason": "ErrImagePull", "message": "no"}}).is_stuck


def test_who_took_it_away() -> None:
    taken = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI", "message": "drained"}
    assert pod(status={"conditions": [taken]}).evicted == "EvictionByEvictionAPI: drained"
    assert pod(status={"reason": "Evicted", "message": "The node was low on memory"}).evicted.startswith("Evicted: ")
