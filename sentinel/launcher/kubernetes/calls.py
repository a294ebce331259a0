"""kubectl, each call with a deadline. It speaks the API's own paths (`--raw`): no discovery, no cache, no rights beside those of
the call itself, and the answer is the API's. What it says is judged elsewhere (`answers`)."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import quote, urlencode

from sentinel.client.strict_json import dumps
from sentinel.launcher.asking import AskLimits, Reply, ask, without
from sentinel.launcher.contract import Hold, unheld
from sentinel.launcher.kubernetes.template import API

LIST_BYTES_MAX = 1 << 26  # a pod is 5 to 10 kB
LOG_BYTES, LOG_LINES = 1 << 18, 2000  # of one pod


class KubeCalls(Protocol):
    """What is asked of the API. No call raises, each ends by its deadline."""

    def jobsets(self, namespace: str, labels: str) -> Reply:
        """Those with these labels: `a=b,c=d`."""
        ...

    def jobset(self, namespace: str, name: str) -> Reply:
        """As a list of at most one."""
        ...

    def pods(self, namespace: str, labels: str) -> Reply: ...

    def log(self, namespace: str, pod: str, container: str) -> Reply:
        """The end of it."""
        ...

    def create(self, namespace: str, jobset: str, is_trial: bool = False) -> Reply:
        """`jobset`: as JSON. `is_trial`: the API checks it, and creates nothing."""
        ...

    def delete(self, namespace: str, name: str, uid: str) -> Reply:
        """The JobSet of that name that has that uid, once everything that it made is gone."""
        ...


@dataclass(frozen=True, slots=True)
class RealKube:
    """`timeout_s`: of a call. `words`: further ones for kubectl, as --context. `withheld`: variables that nobody inherits.
    `hold`: asked before a JobSet is created or deleted; what it raises is the one thing that comes out of a call."""

    timeout_s: float
    words: tuple[str, ...] = ()
    withheld: frozenset[str] = frozenset()
    hold: Hold = unheld

    def jobsets(self, namespace: str, labels: str) -> Reply:
        return self._ask(["get", "--raw", f"{_jobsets(namespace)}?{urlencode({'labelSelector': labels})}"])

    def jobset(self, namespace: str, name: str) -> Reply:
        return self._ask(["get", "--raw", f"{_jobsets(namespace)}?{urlencode({'fieldSelector': f'metadata.name={name}'})}"])

    def pods(self, namespace: str, labels: str) -> Reply:
        return self._ask(["get", "--raw", f"{_pods(namespace)}?{urlencode({'labelSelector': labels})}"])

    def log(self, namespace: str, pod: str, container: str) -> Reply:
        query = urlencode({"container": container, "tailLines": LOG_LINES, "limitBytes": LOG_BYTES})
        return self._ask(["get", "--raw", f"{_pods(namespace)}/{quote(pod)}/log?{query}"])

    def create(self, namespace: str, jobset: str, is_trial: bool = False) -> Reply:
        path = f"{_jobsets(namespace)}{'?dryRun=All' if is_trial else ''}"
        self.hold()
        return self._ask(["create", "--raw", path, "--filename", "-"], jobset)

    def delete(self, namespace: str, name: str, uid: str) -> Reply:
        options = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Foreground", "preconditions": {"uid": uid}}
        self.hold()
        return self._ask(["delete", "--raw", f"{_jobsets(namespace)}/{quote(name)}", "--filename", "-"], dumps(options))

    def _ask(self, words: Sequence[str], body: str = "") -> Reply:
        # Without --request-timeout: with it kubectl (1.32) no longer finds the API of the cluster in whose pod it runs.
        command = ["kubectl", *self.words, *words]
        limits = AskLimits(self.timeout_s, bytes_max=LIST_BYTES_MAX)
        return ask(command, without(os.environ, self.withheld), limits, body.encode())


def _jobsets(namespace: str) -> str:
    return f"/apis/{API}/namespaces/{quote(namespace)}/jobsets"


def _pods(namespace: str) -> str:
    return f"/api/v1/namespaces/{quote(namespace)}/pods"
