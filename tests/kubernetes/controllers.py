"""What a cluster has beside its API server, played by one thread: the JobSet and the Job controller, the garbage collector, the
scheduler, the node controller, and the kubelets of three nodes. Pods are real objects of the API; a container is a real process.

As in a cluster: a Job makes pods once, and when one fails it is over, and those that run are asked to end. A deleted JobSet stays
until its pods are gone. A pod is gone when its kubelet has seen its container end and says so; of a node that is off nobody
says anything, and its pods stay in the list until somebody gives the node up.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.kubernetes.api_server import JOBSETS, PODS, ROOT, ApiServer

TURN_S = 0.1
INDEX = "batch.kubernetes.io/job-completion-index"
NODES = ("gpu-1", "gpu-2", "gpu-3", "gpu-4")
NODE_GRACE_S = 2.0  # until the node controller notices; 40 s by default


def now_text() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


@dataclass
class Container:
    """One pod's, on its node."""

    process: subprocess.Popen[bytes]
    node: str
    index: int
    asked_s: float | None = None
    is_told: bool = False  # that it ended


class Controllers:
    """`off`: nodes without power, and since when."""

    def __init__(self, server: ApiServer, logs: Path) -> None:
        self._server, self._logs = server, logs
        self.off: dict[str, float] = {}
        self.containers: dict[str, Container] = {}
        self._made: set[str] = set()  # uids of JobSets
        self.is_queueing = False  # the scheduler finds no room
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._is_over.set()
        self._thread.join()
        for container in self.containers.values():
            with suppress(ProcessLookupError):
                os.killpg(container.process.pid, signal.SIGKILL)
            container.process.wait()

    def cut_power(self, node: str) -> None:
        self.off[node] = time.monotonic()
        for container in list(self.containers.values()):
            if container.node == node:
                with suppress(ProcessLookupError):
                    os.killpg(container.process.pid, signal.SIGKILL)

    def give_up(self, node: str) -> None:
        """Its Node is deleted: the garbage collector of pods removes them, by force."""
        for pod in self._server.pods():
            if pod["spec"].get("nodeName") == node:
                self._remove(pod)

    def kill(self, index: int, number: int = signal.SIGKILL) -> None:
        """A signal to the rank of this index that runs."""
        pod = next(name for name, one in self.containers.items() if one.index == index and one.process.poll() is None)
        os.killpg(self.containers[pod].process.pid, number)

    def _run(self) -> None:
        while not self._is_over.wait(TURN_S):
            jobsets, pods = (self._server.ask("GET", path, may_fail=True) for path in (JOBSETS, PODS))
            if jobsets is None or pods is None:
                continue
            with suppress(OSError):  # the server was stopped in between: the next turn goes on
                self._turn(jobsets["items"], pods["items"])

    def _turn(self, jobsets: list[dict[str, Any]], pods: list[dict[str, Any]]) -> None:
        for jobset in jobsets:
            own = [pod for pod in pods if pod["metadata"]["ownerReferences"][0]["uid"] == jobset["metadata"]["uid"]]
            if jobset["metadata"].get("deletionTimestamp"):
                self._collect(jobset, own)
            elif jobset["metadata"]["uid"] not in self._made and not self.is_queueing:
                self._make_pods(jobset)
            else:
                self._judge(jobset, own)
        for pod in pods:
            if pod["spec"].get("nodeName") in self.off:
                self._mark_unready(pod)
            else:
                self._tend(pod)

    # --- controllers

    def _make_pods(self, jobset: dict[str, Any]) -> None:
        metadata, job = jobset["metadata"], jobset["spec"]["replicatedJobs"][0]
        template = job["template"]["spec"]["template"]
        owner = {"apiVersion": jobset["apiVersion"], "kind": "JobSet", "name": metadata["name"], "uid": metadata["uid"]}
        free = [node for node in NODES if node not in self.off and node not in _excluded(template["spec"])]
        for index in range(job["template"]["spec"]["completions"]):
            name = f"{metadata['name']}-{job['name']}-0-{index}-{metadata['uid'][:5]}"
            meta = {"name": name, "labels": template["metadata"]["labels"], "annotations": {INDEX: str(index)}}
            pod = {"apiVersion": "v1", "kind": "Pod", "metadata": meta | {"ownerReferences": [owner]}}
            self._server.ask("POST", PODS, pod | {"spec": template["spec"] | {"nodeName": free[index]}}, may_fail=False)
        self._made.add(metadata["uid"])

    def _judge(self, jobset: dict[str, Any], pods: list[dict[str, Any]]) -> None:
        phases = [pod.get("status", {}).get("phase") for pod in pods]
        word = "Failed" if "Failed" in phases else "Completed" if pods and set(phases) == {"Succeeded"} else ""
        if not word or jobset.get("status", {}).get("conditions"):
            return
        conditions = [{"type": word, "status": "True", "reason": f"Jobs{word}", "message": "by the double"}]
        self._server.ask("PATCH", f"{JOBSETS}/{jobset['metadata']['name']}/status", {"status": {"conditions": conditions}})
        for pod in pods:
            if pod["status"]["phase"] == "Running":
                self._server.ask("DELETE", f"{PODS}/{pod['metadata']['name']}", may_fail=True)

    def _collect(self, jobset: dict[str, Any], pods: list[dict[str, Any]]) -> None:
        for pod in pods:
            if not pod["metadata"].get("deletionTimestamp"):
                self._server.ask("DELETE", f"{PODS}/{pod['metadata']['name']}", may_fail=True)
        if not pods:
            path = f"{JOBSETS}/{jobset['metadata']['name']}"
            self._server.ask("PATCH", path, {"metadata": {"finalizers": None}}, may_fail=True)

    def _mark_unready(self, pod: dict[str, Any]) -> None:
        conditions = pod.get("status", {}).get("conditions", [])
        is_late = time.monotonic() - self.off[pod["spec"]["nodeName"]] > NODE_GRACE_S
        if is_late and any(one["type"] == "Ready" and one["status"] == "True" for one in conditions):
            self._patch_status(pod, {"conditions": [{"type": "Ready", "status": "False"}]})

    # --- kubelets

    def _tend(self, pod: dict[str, Any]) -> None:
        name, metadata = pod["metadata"]["name"], pod["metadata"]
        container = self.containers.get(name)
        if container is None:
            if metadata.get("deletionTimestamp"):
                self._remove(pod)
            else:
                self._start(pod)
            return
        status = container.process.poll()
        if status is not None and not container.is_told:
            container.is_told = True
            self._tell_end(pod, status if status >= 0 else 128 - status)
        elif metadata.get("deletionTimestamp"):
            self._end(pod, container)

    def _start(self, pod: dict[str, Any]) -> None:
        metadata, trains = pod["metadata"], pod["spec"]["containers"][0]
        fields = {f"metadata.annotations['{INDEX}']": metadata["annotations"][INDEX], "spec.nodeName": pod["spec"]["nodeName"]}
        environ = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
        environ |= {"PYTHONPATH": str(ROOT), "KUBERNETES_POD": metadata["name"]}
        for one in trains["env"]:
            environ[one["name"]] = one["value"] if "value" in one else fields[one["valueFrom"]["fieldRef"]["fieldPath"]]
        with open(self._logs / metadata["name"], "ab") as log:
            process = subprocess.Popen(trains["command"], env=environ, stdout=log, stderr=log, start_new_session=True)
        node, index = pod["spec"]["nodeName"], int(metadata["annotations"][INDEX])
        self.containers[metadata["name"]] = Container(process, node, index)
        state = {"running": {"startedAt": now_text()}}
        self._patch_status(
            pod, {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]} | _status(trains, state)
        )

    def _tell_end(self, pod: dict[str, Any], code: int) -> None:
        state = {"terminated": {"exitCode": code, "reason": "Error" if code else "Completed", "finishedAt": now_text()}}
        unready = {"type": "Ready", "status": "False", "reason": "PodCompleted"}
        words = {"phase": "Failed" if code else "Succeeded", "conditions": [unready]}
        self._patch_status(pod, words | _status(pod["spec"]["containers"][0], state))

    def _end(self, pod: dict[str, Any], container: Container) -> None:
        """SIGTERM, SIGKILL when the grace is over, and then the word that it is gone."""
        if container.process.poll() is not None:
            self._remove(pod)
            return
        if container.asked_s is None:
            container.asked_s = time.monotonic()
            os.killpg(container.process.pid, signal.SIGTERM)
        elif time.monotonic() - container.asked_s > pod["metadata"]["deletionGracePeriodSeconds"]:
            os.killpg(container.process.pid, signal.SIGKILL)

    def _remove(self, pod: dict[str, Any]) -> None:
        options = {"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0}
        self._server.ask("DELETE", f"{PODS}/{pod['metadata']['name']}", options, may_fail=True)

    def _patch_status(self, pod: dict[str, Any], status: dict[str, Any]) -> None:
        self._server.ask("PATCH", f"{PODS}/{pod['metadata']['name']}/status", {"status": status}, may_fail=True)


def _status(container: dict[str, Any], state: dict[str, Any]) -> dict[str, Any]:
    one = {"name": container["name"], "image": container["image"], "imageID": "x", "ready": "running" in state, "restartCount": 0}
    return {"containerStatuses": [one | {"state": state}]}


def _excluded(spec: dict[str, Any]) -> set[str]:
    """As the scheduler reads the affinity."""
    node = spec.get("affinity", {}).get("nodeAffinity", {}).get("requiredDuringSchedulingIgnoredDuringExecution", {})
    terms = node.get("nodeSelectorTerms", [])
    fields = [field for term in terms for field in term.get("matchFields", []) if field["operator"] == "NotIn"]
    return {name for field in fields for name in field["values"]}
