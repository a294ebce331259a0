"""kubectl in small, and behind it the API, the controllers and a kubelet of one node: JobSets and pods are files, a pod's
container is a real process.

    python kubectl_program.py WORDS...

A pod belongs to its kubelet and not to whoever asked for it, so that it outlives them, and is listed until its process has ended.
Standard library only, so that each call is up in 20 ms.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from urllib.parse import parse_qs, urlsplit

ROOT = os.environ["KUBE_DOUBLE"]
INDEX = "batch.kubernetes.io/job-completion-index"
NODE = "gpu-1"
GRACE_S = 1
POD_S_MAX = 150.0  # longer than any rank of the tests lives


def write(path: str, value: object) -> None:
    with open(f"{path}.{os.getpid()}", "w") as file:
        json.dump(value, file)
    os.rename(f"{path}.{os.getpid()}", path)


def read(path: str) -> dict | None:
    try:
        with open(path) as file:
            return json.load(file)
    except FileNotFoundError:
        return None


def place(resource: str, name: str = "") -> str:
    return os.path.join(ROOT, resource, name)


def get(path: str) -> int:
    url = urlsplit(path)
    resource = url.path.split("/")[-1]
    if resource == "log":
        with open(place("logs", url.path.split("/")[-2])) as log:
            sys.stdout.write(log.read())
        return 0
    query = {key: value[0] for key, value in parse_qs(url.query).items()}
    items = [item for name in sorted(os.listdir(place(resource))) if (item := read(place(resource, name))) is not None]
    for part in filter(None, query.get("labelSelector", "").split(",")):
        key, _, value = part.partition("=")
        items = [item for item in items if item["metadata"].get("labels", {}).get(key) == value]
    if "fieldSelector" in query:
        items = [item for item in items if item["metadata"]["name"] == query["fieldSelector"].partition("=")[2]]
    kind = {"jobsets": "JobSetList", "pods": "PodList"}[resource]
    print(json.dumps({"kind": kind, "metadata": {"resourceVersion": "1"}, "items": items}))
    return 0


def create(path: str) -> int:
    jobset = json.load(sys.stdin)
    name = jobset["metadata"]["name"]
    jobset["metadata"]["uid"] = f"{os.getpid()}-{time.time_ns()}"
    aside = place("new", name)
    write(aside, jobset)
    try:
        os.link(aside, place("jobsets", name))
    except FileExistsError:
        print(f'Error from server (AlreadyExists): jobsets.jobset.x-k8s.io "{name}" already exists', file=sys.stderr)
        return 1
    words = [sys.executable, "-I", "-S", __file__, "controller", name]
    subprocess.Popen(words, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return 0


def delete(path: str) -> int:
    name = urlsplit(path).path.split("/")[-1]
    jobset, options = read(place("jobsets", name)), json.load(sys.stdin)
    if jobset is None or jobset["metadata"]["uid"] != options["preconditions"]["uid"]:
        print("Error from server (NotFound): no such JobSet", file=sys.stderr)
        return 1
    write(place("deletions", name), options)
    return 0


def controller(name: str) -> int:
    """Of one JobSet, with its pods' kubelet: until it was deleted and nothing of it is left."""
    jobset = read(place("jobsets", name))
    assert jobset is not None
    job = jobset["spec"]["replicatedJobs"][0]["template"]["spec"]
    pods = [Kubelet(name, job["template"], index) for index in range(job["completions"])]
    end, is_asked = time.monotonic() + POD_S_MAX, False
    while time.monotonic() < end:
        for pod in pods:
            pod.look()
        codes = [pod.code for pod in pods]
        if any(code not in (None, 0) for code in codes):  # `backoffLimit: 0`
            for pod in pods:
                pod.ask()
        if all(code == 0 for code in codes):
            over = "Completed"
        else:
            over = "Failed" if any(code not in (None, 0) for code in codes) else ""
        if over and "status" not in jobset:
            jobset["status"] = {"conditions": [{"type": over, "status": "True"}]}
            write(place("jobsets", name), jobset)
        if os.path.exists(place("deletions", name)) and not is_asked:
            is_asked = True
            for pod in pods:
                pod.end()
        if is_asked and None not in codes:
            break
        time.sleep(0.02)
    for pod in pods:
        pod.forget()
    os.unlink(place("jobsets", name))
    with contextlib.suppress(FileNotFoundError):
        os.unlink(place("deletions", name))
    return 0


class Kubelet:
    """One pod. `code`: with which its container ended, None while it runs."""

    def __init__(self, jobset: str, template: dict, index: int) -> None:
        self.name, self.code, self.asked_s = f"{jobset}-node-0-{index}-x", None, None
        container = template["spec"]["containers"][0]
        self.pod = {
            "metadata": {"name": self.name, "labels": template["metadata"]["labels"], "annotations": {INDEX: str(index)}},
            "spec": template["spec"] | {"nodeName": NODE},
            "status": {"phase": "Running", "containerStatuses": [{"name": container["name"], "state": {"running": {}}}]},
        }
        fields = {f"metadata.annotations['{INDEX}']": str(index), "spec.nodeName": NODE}
        environ = {"PATH": os.environ["PATH"], "SCHEDULED": jobset}
        for one in container["env"]:
            environ[one["name"]] = one["value"] if "value" in one else fields[one["valueFrom"]["fieldRef"]["fieldPath"]]
        self.process = None
        with open(place("logs", self.name), "ab") as log:
            try:
                self.process = subprocess.Popen(
                    container["command"], cwd="/", env=environ, stdout=log, stderr=log, start_new_session=True
                )
            except OSError as error:
                self.ended(128, "StartError", str(error))
        write(place("pods", self.name), self.pod)

    def ended(self, code: int, reason: str, message: str = "") -> None:
        self.code = code
        at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        state = {"terminated": {"exitCode": code, "reason": reason, "message": message, "finishedAt": at}}
        self.pod["status"] |= {"phase": "Failed" if code else "Succeeded"}
        self.pod["status"]["containerStatuses"][0]["state"] = state

    def look(self) -> None:
        if self.code is None and self.process is not None and (status := self.process.poll()) is not None:
            self.ended(status if status >= 0 else 128 - status, "Completed" if status == 0 else "Error")
            write(place("pods", self.name), self.pod)

    def ask(self) -> None:
        """By SIGTERM, and by SIGKILL when the grace is over."""
        if self.code is not None or self.process is None:
            return
        if self.asked_s is None:
            self.asked_s = time.monotonic()
            at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + GRACE_S))
            self.pod["metadata"] |= {"deletionTimestamp": at, "deletionGracePeriodSeconds": GRACE_S}
            write(place("pods", self.name), self.pod)
            self.send(signal.SIGTERM)
        elif time.monotonic() - self.asked_s > GRACE_S:
            self.send(signal.SIGKILL)

    def end(self) -> None:
        """The tests do not wait for the grace of a stop."""
        self.ask()
        self.send(signal.SIGKILL)

    def send(self, number: int) -> None:
        if self.code is None and self.process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, number)

    def forget(self) -> None:
        with contextlib.suppress(ProcessLookupError):  # what its process has left behind, in the same session
            if self.process is not None:
                os.killpg(self.process.pid, signal.SIGKILL)
        os.unlink(place("pods", self.name))


words = sys.argv[1:]
if words[0] == "controller":
    sys.exit(controller(words[1]))
sys.exit({"get": get, "create": create, "delete": delete}[words[0]](words[2]))
