"""What the Kubernetes API says of one pod, and what follows from it. Pure: an object of the API in, a `Pod` out.

A pod that is listed may live, whatever is asked of it: only the kubelet of its node lets it go from the list, and behind a broken
network that kubelet is not heard.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sentinel.launcher.asking import REASON_CHARS_MAX
from sentinel.model.amounts import time_words

RUN, ATTEMPT, LAUNCH = "sentinel/run", "sentinel/attempt", "sentinel/launch"
INDEX = "batch.kubernetes.io/job-completion-index"
# A pod that was asked to end and is there so long after its grace is over: its node's kubelet does not answer.
OVERDUE_S = 30.0
# What a container waits for that does not come by itself; kubelet's words. Others (ContainerCreating) do.
STUCK = frozenset(
    {
        "ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName", "CreateContainerConfigError",
        "CreateContainerError", "RunContainerError",
    }
)  # fmt: skip
NEVER_RAN = frozenset({"StartError", "ContainerCannotRun"})
_NODE_SILENT = frozenset({"NodeLost", "NodeNotReady", "NodeStatusUnknown", "DeletionByTaintManager", "DeletionByPodGC"})


@dataclass(frozen=True, slots=True)
class ContainerEnd:
    """How the training command ended, by the node's kubelet. `at_s`: Unix time, None where it does not say."""

    code: int
    reason: str = ""
    message: str = ""
    at_s: float | None = None

    @property
    def has_run(self) -> bool:
        return self.reason not in NEVER_RAN


@dataclass(frozen=True, slots=True)
class Pod:
    """As the API lists one. `index`: its completion index, None of a pod that is no rank's. `end`: of the container that
    trains. `has_ended`: all its containers have, by its kubelet. `was_asked`: to end, before it had.
    `waits`: for what, before it runs. `lost`: why its node's word is missing. `evicted`: who took it away, and why."""

    name: str
    attempt: int | None
    launch: str
    index: int | None
    node: str
    has_started: bool = False
    has_ended: bool = False
    end: ContainerEnd | None = None
    was_asked: bool = False
    waits: str = ""
    is_stuck: bool = False
    lost: str = ""
    evicted: str = ""


def read_pod(item: Mapping[str, Any], now_s: float) -> Pod:
    """`now_s`: Unix time. Raises KeyError, TypeError, ValueError, AttributeError for what is no pod."""
    metadata, spec, status = item["metadata"], item.get("spec") or {}, item.get("status") or {}
    labels, conditions = metadata.get("labels") or {}, {one["type"]: one for one in status.get("conditions") or []}
    index = (metadata.get("annotations") or {}).get(INDEX, labels.get(INDEX))
    # The container that trains comes first (template.py); sidecars behind it are the user's.
    name = next((one["name"] for one in spec.get("containers") or []), "")
    state = next((one.get("state") or {} for one in status.get("containerStatuses") or [] if one["name"] == name), {})
    waits, is_stuck = _waits(state, conditions)
    end, asked_s = _end(state.get("terminated")), _time(metadata.get("deletionTimestamp"))
    if asked_s is not None:
        asked_s -= metadata.get("deletionGracePeriodSeconds") or 0
    ended_before = end is not None and end.at_s is not None and asked_s is not None and end.at_s < asked_s
    return Pod(
        name=str(metadata["name"]),
        attempt=as_number(labels.get(ATTEMPT)),
        launch=str(labels.get(LAUNCH, "")),
        index=as_number(index),
        node=str(spec.get("nodeName") or ""),
        has_started="running" in state,
        has_ended=_has_ended(status),
        end=end,
        was_asked=asked_s is not None and not ended_before,
        waits=waits,
        is_stuck=is_stuck,
        lost=_lost(metadata, status, conditions, now_s),
        evicted=_evicted(status, conditions),
    )


def _has_ended(status: Mapping[str, Any]) -> bool:
    """A phase alone is no proof: others than the kubelet may set it, too."""
    states = [one.get("state") or {} for one in status.get("containerStatuses") or []]
    return status.get("phase") in ("Succeeded", "Failed") and bool(states) and all("terminated" in state for state in states)


def _waits(state: Mapping[str, Any], conditions: Mapping[str, Any]) -> tuple[str, bool]:
    """For what it waits, and whether that comes by itself no more."""
    waiting = state.get("waiting")
    if isinstance(waiting, dict):
        return as_words(waiting.get("reason"), waiting.get("message")), waiting.get("reason") in STUCK
    placed = conditions.get("PodScheduled")
    if placed is not None and placed["status"] != "True":
        return as_words(placed.get("reason"), placed.get("message")), False
    return "", False


def _lost(metadata: Mapping[str, Any], status: Mapping[str, Any], conditions: Mapping[str, Any], now_s: float) -> str:
    """Why nobody hears of it from its node; empty where its node speaks."""
    ready = conditions.get("Ready") or {}
    if status.get("reason") in _NODE_SILENT or status.get("phase") == "Unknown":
        return as_words("its node is not reachable", status.get("reason"), status.get("message"))
    # The cluster's node controller takes readiness away and gives no reason; a kubelet always gives one.
    if ready.get("status") == "False" and ready.get("reason") in (None, "", *_NODE_SILENT):
        return as_words("its node is not reachable", ready.get("reason"), ready.get("message"))
    asked_s = _time(metadata.get("deletionTimestamp"))  # when its grace is over
    if asked_s is not None and now_s - asked_s > OVERDUE_S:
        late = f"its grace was over {time_words(now_s - asked_s)} ago"
        return f"it was asked to end, {late}, and its node does not say that it has ended"
    return ""


def _evicted(status: Mapping[str, Any], conditions: Mapping[str, Any]) -> str:
    taken = conditions.get("DisruptionTarget")
    if taken is not None and taken["status"] == "True":
        return as_words(taken.get("reason"), taken.get("message"))
    return as_words(status.get("reason"), status.get("message")) if status.get("reason") == "Evicted" else ""


def _end(ended: Mapping[str, Any] | None) -> ContainerEnd | None:
    if ended is None:
        return None
    return ContainerEnd(
        int(ended["exitCode"]), str(ended.get("reason") or ""), str(ended.get("message") or "")[:REASON_CHARS_MAX],
        _time(ended.get("finishedAt")),
    )  # fmt: skip


def _time(text: object) -> float | None:
    try:
        return datetime.fromisoformat(text).timestamp() if isinstance(text, str) else None
    except ValueError:
        return None


def as_number(text: object) -> int | None:
    return int(text) if isinstance(text, str) and text.isascii() and text.isdigit() else None


def as_words(*parts: object) -> str:
    return ": ".join(str(part) for part in parts if part)[:REASON_CHARS_MAX]
