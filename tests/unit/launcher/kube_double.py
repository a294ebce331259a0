"""A Kubernetes API that does what the tests say: JobSets and pods in memory, time that passes only when somebody waits.

What it does not leave out: a JobSet's pods are made by others, a moment later; a deleted one stays until its pods are gone, and a
pod is gone when the kubelet of its node has said so.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sentinel.launcher.asking import Reply
from sentinel.launcher.kubernetes.attempt import jobset_name, run_label
from sentinel.launcher.kubernetes.jobsets import KubernetesLauncher
from sentinel.launcher.kubernetes.pods import ATTEMPT, INDEX, LAUNCH
from sentinel.launcher.kubernetes.settings import KubernetesSettings
from sentinel.launcher.slurm.steps import Passing
from sentinel.model.attempts import AttemptSpec, SettingsInForce

FROZEN = Reply(None, "", "Unable to connect to the server: net/http: request canceled (Client.Timeout exceeded)")
TEMPLATE = """\
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {namespace: training, labels: {team: pre}}
spec:
  replicatedJobs:
  - name: node
    template:
      spec:
        parallelism: 3
        template:
          spec:
            containers:
            - name: trainer
              image: example/trainer
              env: [{name: HOME, value: /tmp}]
"""


def now_text() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


class KubeDouble:
    """`off`: nodes whose kubelet is not heard. `is_slow`: pods take their time to end."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.jobset_items: dict[str, dict[str, Any]] = {}
        self.pod_items: dict[str, dict[str, Any]] = {}
        self.created: list[str] = []
        self.bodies: list[dict[str, Any]] = []
        self.deleted: list[str] = []
        self.asked: set[tuple[str, str]] = set()
        self.off: set[str] = set()
        self.is_frozen = self.is_slow = self.is_queued = False
        self.refusal = ""
        self.answers_create = True  # else it does it, and nobody hears of it
        self.logs: dict[str, str] = {}
        self.uids = 0

    # --- KubeCalls

    def jobsets(self, namespace: str, labels: str) -> Reply:
        return self._list("jobsets", "JobSetList", self.jobset_items, labels)

    def jobset(self, namespace: str, name: str) -> Reply:
        found = {key: one for key, one in self.jobset_items.items() if key == name}
        return self._list("jobsets", "JobSetList", found, "")

    def pods(self, namespace: str, labels: str) -> Reply:
        return self._list("pods", "PodList", self.pod_items, labels)

    def log(self, namespace: str, pod: str, container: str) -> Reply:
        self.asked.add(("get", "pods/log"))
        return FROZEN if self.is_frozen else Reply(0, self.logs.get(pod, f"{container} of {pod}\n"))

    def create(self, namespace: str, jobset: str, is_trial: bool = False) -> Reply:
        self.asked.add(("create", "jobsets"))
        if self.is_frozen:
            return FROZEN
        value = json.loads(jobset)
        name = value["metadata"]["name"]
        if self.refusal:
            return Reply(1, "", f"Error from server ({self.refusal}): no")
        if name in self.jobset_items:
            return Reply(1, "", f'Error from server (AlreadyExists): jobsets.jobset.x-k8s.io "{name}" already exists')
        self.uids += 1
        value["metadata"] |= {"uid": f"uid-{self.uids}"}
        self.jobset_items[name] = value
        self.created.append(name)
        self.bodies.append(value)
        if not self.is_queued:
            self.make_pods(name)
        return Reply(0, jobset) if self.answers_create else FROZEN

    def delete(self, namespace: str, name: str, uid: str) -> Reply:
        self.asked.add(("delete", "jobsets"))
        if self.is_frozen:
            return FROZEN
        found = self.jobset_items.get(name)
        if found is None or found["metadata"]["uid"] != uid:
            return Reply(1, "", "Error from server (Conflict): the UID in the precondition does not match")
        self.deleted.append(uid)
        found["metadata"]["deletionTimestamp"] = now_text()
        for pod in self.pods_of(name):
            pod["metadata"] |= {"deletionTimestamp": now_text(), "deletionGracePeriodSeconds": 30}
        return Reply(0)

    def _list(self, resource: str, kind: str, items: dict[str, dict[str, Any]], labels: str) -> Reply:
        self.asked.add(("list", resource))
        if self.is_frozen:
            return FROZEN
        wanted = dict(part.split("=") for part in labels.split(",") if part)
        found = [one for one in items.values() if wanted.items() <= one["metadata"].get("labels", {}).items()]
        return Reply(0, json.dumps({"kind": kind, "metadata": {"resourceVersion": "7"}, "items": found}))

    # --- what controllers and kubelets do

    def make_pods(self, name: str) -> None:
        jobset = self.jobset_items[name]
        job = jobset["spec"]["replicatedJobs"][0]
        template = job["template"]["spec"]["template"]
        for index in range(job["template"]["spec"]["completions"]):
            pod = f"{name}-{job['name']}-0-{index}-abcde"
            self.pod_items[pod] = {
                "metadata": {"name": pod, "labels": template["metadata"]["labels"], "annotations": {INDEX: str(index)}},
                "spec": template["spec"] | {"nodeName": f"gpu-{index + 1}"},
                "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
                | {"containerStatuses": [{"name": template["spec"]["containers"][0]["name"], "state": {"running": {}}}]},
            }

    def pods_of(self, name: str) -> list[dict[str, Any]]:
        labels = self.jobset_items[name]["metadata"]["labels"]
        own = (labels[ATTEMPT], labels[LAUNCH])
        return [
            pod
            for pod in self.pod_items.values()
            if (pod["metadata"]["labels"].get(ATTEMPT), pod["metadata"]["labels"].get(LAUNCH)) == own
        ]

    def end(self, name: str, index: int, code: int, reason: str = "Error", message: str = "") -> None:
        """A container ends by itself, and the Job with it, as `backoffLimit: 0` has it."""
        pod = self.pods_of(name)[index]
        ended = {"exitCode": code, "reason": reason, "message": message, "finishedAt": now_text()}
        pod["status"] |= {"phase": "Failed" if code else "Succeeded"}
        pod["status"]["containerStatuses"][0]["state"] = {"terminated": ended}

    def finish(self, name: str, word: str, message: str = "") -> None:
        self.jobset_items[name]["status"] = {"conditions": [{"type": word, "status": "True", "message": message}]}

    def let_pass(self, pause_s: float) -> None:
        self.now_s += pause_s
        for name in [name for name, one in self.jobset_items.items() if one["metadata"].get("deletionTimestamp")]:
            for pod in self.pods_of(name):
                if not self.is_slow and pod["spec"]["nodeName"] not in self.off:
                    del self.pod_items[pod["metadata"]["name"]]
            if not self.pods_of(name):
                del self.jobset_items[name]

    @property
    def passing(self) -> Passing:
        return Passing(lambda: self.now_s, self.let_pass, lambda work: work())


@dataclass
class KubeBench:
    """A run directory, its cluster, and supervisors that remember nothing."""

    run_dir: Path
    kube: KubeDouble = field(default_factory=KubeDouble)

    def __post_init__(self) -> None:
        (self.run_dir / "run.json").write_text('{"digest_key": "ab12"}')
        (self.run_dir / "jobset.yaml").write_text(TEMPLATE)

    def launcher(self, **options: str) -> KubernetesLauncher:
        settings = KubernetesSettings(**({"template": "jobset.yaml"} | options))
        return KubernetesLauncher(self.run_dir, settings, supervises=True, calls=self.kube, passing=self.kube.passing)

    def spec(self, attempt: int = 1, *exclude: str, launch: str | None = None) -> AttemptSpec:
        word = launch if launch is not None else f"launch{attempt}"
        argv = ("torchrun", "train.py")
        return AttemptSpec(attempt, argv, str(self.run_dir), None, SettingsInForce(), exclude_nodes=exclude, launch=word)

    def name(self, attempt: int = 1) -> str:
        return jobset_name(run_label(self.run_dir), attempt)

    def folder(self, attempt: int = 1) -> Path:
        return self.run_dir / "attempts" / f"{attempt:04d}"

    def beat(self, rank: int, step: int, host: str, attempt: int = 1) -> None:
        folder = self.folder(attempt) / "heartbeats"
        (folder / f"rank-{rank:05d}.json").write_text(f'{{"step": {step}, "phase": "forward", "pid": 9, "host": "{host}"}}')
