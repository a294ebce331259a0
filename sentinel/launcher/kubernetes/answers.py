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
from typing import Any

from sentinel.client.strict_json import loads
from sentinel.launcher.asking import REASON_CHARS_MAX, Reply
from sentinel.launcher.kubernetes.pods import ATTEMPT, LAUNCH, RUN, Pod, as_number, as_words, read_pod
from sentinel.launcher.slurm.answers import Unclear
from sentinel.model.attempts import EXIT_FINISHED, EXIT_STOPPED

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
class SeenAttempt:
    """Everything of one attempt that the API lists."""

    jobset: JobSet | None
    pods: tuple[Pod, ...]

    @property
    def is_gone(self) -> bool:
        return self.jobset is None and not self.pods

    @property
    def has_ended(self) -> bool:
        """By the word of every kubelet: nothing of it runs, and nobody starts a pod of it any more. Pods that have left the list
        were let go by theirs."""
        return self.jobset is not None and bool(self.jobset.over) and all(pod.has_ended for pod in self.pods)

    @property
    def is_ending(self) -> str:
        """Why what is left of it is only ending; empty while it goes on."""
        if self.jobset is None:
            return "its JobSet was deleted" if self.pods else ""
        if self.jobset.over or self.jobset.is_deleted:
            return self.jobset.over or "its JobSet is being deleted"
        failed = next(iter(self.failed), None)
        return "" if failed is None or failed.end is None else f"pod {failed.name} ended with {failed.end.code}"

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
        return tuple(read_pod(item, now_s) for item in items)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        return Unclear(f"the API listed a pod that cannot be read: {error!r}")


def see(jobsets: tuple[JobSet, ...], pods: tuple[Pod, ...], attempt: int) -> SeenAttempt:
    """What of these lists, which are the run's, is the attempt's."""
    found = next((one for one in jobsets if one.attempt == attempt), None)
    return SeenAttempt(found, tuple(pod for pod in pods if pod.attempt == attempt))


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
        attempt=as_number(labels.get(ATTEMPT)),
        launch=str(labels.get(LAUNCH, "")),
        over="" if over is None else as_words(over["type"], over.get("reason"), over.get("message")),
        is_deleted=bool(metadata.get("deletionTimestamp")),
        is_suspended=(item.get("spec") or {}).get("suspend") is True,
    )
