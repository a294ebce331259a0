"""What the Kubernetes API says of a run's JobSets and pods, and what follows from it. Pure: replies in, verdicts out.

Unknown is a verdict. A list that failed, was cut or cannot be read says neither that a pod lives nor that it is gone; an empty
list that the API gave says that there is none. A pod that is listed may live, whatever is asked of it: only the kubelet of its
node lets it go from the list, and behind a broken network that kubelet is not heard. docs/design/kubernetes.md has the table
that this file is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sentinel.client.strict_json import loads
from sentinel.launcher.asking import REASON_CHARS_MAX, Reply
from sentinel.launcher.slurm.answers import Unclear
from sentinel.model.attempts import EXIT_FINISHED, EXIT_STOPPED

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
_REFUSED = re.compile(r"Error from server \((\w+)\)")


@dataclass(frozen=True, slots=True)
class JobSet:
    """As the API lists one. `attempt` None: not one of Sentinel's. `over`: its last word, as `Failed: …`; empty until then."""

    name: str
    uid: str
    run: str
    attempt: int | None
    launch: str
    over: str = ""
    is_deleted: bool = False
    is_suspended: bool = False


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
    """As the API lists one. `index`: its completion index, None of a pod that is no rank's. `was_asked`: to end, before it had.
    `waits`: for what, before it runs. `lost`: why its node's word is missing. `evicted`: who took it away, and why."""

    name: str
    attempt: int | None
    launch: str
    index: int | None
    node: str
    has_started: bool = False
    end: ContainerEnd | None = None
    was_asked: bool = False
    waits: str = ""
    is_stuck: bool = False
    lost: str = ""
    evicted: str = ""


@dataclass(frozen=True, slots=True)
class Seen:
    """Everything of one attempt that the API lists."""

    jobset: JobSet | None
    pods: tuple[Pod, ...]

    @property
    def is_gone(self) -> bool:
        return self.jobset is None and not self.pods

    @property
    def lost(self) -> tuple[Pod, ...]:
        return tuple(pod for pod in self.pods if pod.lost)

    @property
    def failed(self) -> tuple[Pod, ...]:
        return tuple(pod for pod in self.pods if pod.end is not None and pod.end.code not in (EXIT_FINISHED, EXIT_STOPPED))

    @property
    def what_is_left(self) -> str:
        """For people: why it is not gone."""
        if self.lost:
            return f"pod {self.lost[0].name} on {self.lost[0].node or 'no node'}: {self.lost[0].lost}"
        if self.pods:
            words = [f"pod {pod.name} on {pod.node or 'no node'}" for pod in self.pods[:3]]
            more = f" and {len(self.pods) - 3} more" if len(self.pods) > 3 else ""
            return f"the API lists {', '.join(words)}{more}"
        return f"the API lists JobSet {self.jobset.name}" if self.jobset is not None else ""


def read_jobsets(reply: Reply) -> tuple[JobSet, ...] | Unclear:
    """From a list of JobSets."""
    items = _items(reply, "JobSetList")
    if isinstance(items, Unclear):
        return items
    try:
        return tuple(_jobset(item) for item in items)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        return Unclear(f"the API listed a JobSet that cannot be read: {error!r}")


def read_pods(reply: Reply, now_s: float) -> tuple[Pod, ...] | Unclear:
    """From a list of pods. `now_s`: Unix time."""
    items = _items(reply, "PodList")
    if isinstance(items, Unclear):
        return items
    try:
        return tuple(_pod(item, now_s) for item in items)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        return Unclear(f"the API listed a pod that cannot be read: {error!r}")


def see(jobsets: tuple[JobSet, ...], pods: tuple[Pod, ...], attempt: int) -> Seen:
    """What of these lists, which are the run's, is the attempt's."""
    found = next((one for one in jobsets if one.attempt == attempt), None)
    return Seen(found, tuple(pod for pod in pods if pod.attempt == attempt))


def find_other_attempts(jobsets: tuple[JobSet, ...], pods: tuple[Pod, ...], attempt: int) -> tuple[int, ...]:
    """Numbers of other attempts of the run of which something is listed."""
    numbers = {one.attempt for one in jobsets} | {pod.attempt for pod in pods}
    return tuple(sorted(number for number in numbers if number is not None and number != attempt))


def read_refusal(reply: Reply) -> str:
    """The reason for which the API refused, as AlreadyExists; empty where it did not say one."""
    found = _REFUSED.search(reply.errors)
    return found[1] if reply.status not in (0, None) and found is not None else ""


def _items(reply: Reply, kind: str) -> list[Any] | Unclear:
    """The objects of a whole list, which the API has dated; anything else is no answer."""
    if reply.trouble:
        return Unclear(f"kubectl: {reply.trouble}")
    try:
        value = loads(reply.output.encode())
    except ValueError:
        return Unclear(f"kubectl printed no JSON: {reply.output[:REASON_CHARS_MAX]!r}")
    metadata = value.get("metadata") if isinstance(value, dict) else None
    if not isinstance(metadata, dict) or value.get("kind") != kind or not metadata.get("resourceVersion"):
        return Unclear(f"kubectl printed no {kind}: {reply.output[:REASON_CHARS_MAX]!r}")
    if metadata.get("continue"):
        return Unclear(f"the API gave a part of its {kind} alone")
    items = value.get("items")
    if items is None or isinstance(items, list):
        return items or []
    return Unclear(f"the API gave a {kind} without a list")


def _jobset(item: Mapping[str, Any]) -> JobSet:
    metadata, labels = item["metadata"], item["metadata"].get("labels") or {}
    conditions = (item.get("status") or {}).get("conditions") or []
    over = next((one for one in conditions if one["type"] in ("Completed", "Failed") and one["status"] == "True"), None)
    return JobSet(
        name=str(metadata["name"]),
        uid=str(metadata["uid"]),
        run=str(labels.get(RUN, "")),
        attempt=_number(labels.get(ATTEMPT)),
        launch=str(labels.get(LAUNCH, "")),
        over="" if over is None else _words(over["type"], over.get("reason"), over.get("message")),
        is_deleted=bool(metadata.get("deletionTimestamp")),
        is_suspended=(item.get("spec") or {}).get("suspend") is True,
    )


def _pod(item: Mapping[str, Any], now_s: float) -> Pod:
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
        attempt=_number(labels.get(ATTEMPT)),
        launch=str(labels.get(LAUNCH, "")),
        index=_number(index),
        node=str(spec.get("nodeName") or ""),
        has_started="running" in state,
        end=end,
        was_asked=asked_s is not None and not ended_before,
        waits=waits,
        is_stuck=is_stuck,
        lost=_lost(metadata, status, conditions, now_s),
        evicted=_evicted(status, conditions),
    )


def _waits(state: Mapping[str, Any], conditions: Mapping[str, Any]) -> tuple[str, bool]:
    """For what it waits, and whether that comes by itself no more."""
    waiting = state.get("waiting")
    if isinstance(waiting, dict):
        return _words(waiting.get("reason"), waiting.get("message")), waiting.get("reason") in STUCK
    placed = conditions.get("PodScheduled")
    if placed is not None and placed["status"] != "True":
        return _words(placed.get("reason"), placed.get("message")), False
    return "", False


def _lost(metadata: Mapping[str, Any], status: Mapping[str, Any], conditions: Mapping[str, Any], now_s: float) -> str:
    """Why nobody hears of it from its node; empty where its node speaks."""
    ready = conditions.get("Ready") or {}
    if status.get("reason") in _NODE_SILENT or status.get("phase") == "Unknown":
        return _words("its node is not reachable", status.get("reason"), status.get("message"))
    # The cluster's node controller takes readiness away and gives no reason; a kubelet always gives one.
    if ready.get("status") == "False" and ready.get("reason") in (None, "", *_NODE_SILENT):
        return _words("its node is not reachable", ready.get("reason"), ready.get("message"))
    asked_s = _time(metadata.get("deletionTimestamp"))  # when its grace is over
    if asked_s is not None and now_s - asked_s > OVERDUE_S:
        return f"it was asked to end, its grace was over {now_s - asked_s:.0f} s ago, and its node does not say that it has ended"
    return ""


def _evicted(status: Mapping[str, Any], conditions: Mapping[str, Any]) -> str:
    taken = conditions.get("DisruptionTarget")
    if taken is not None and taken["status"] == "True":
        return _words(taken.get("reason"), taken.get("message"))
    return _words(status.get("reason"), status.get("message")) if status.get("reason") == "Evicted" else ""


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


def _number(text: object) -> int | None:
    return int(text) if isinstance(text, str) and text.isascii() and text.isdigit() else None


def _words(*parts: object) -> str:
    return ": ".join(str(part) for part in parts if part)[:REASON_CHARS_MAX]
