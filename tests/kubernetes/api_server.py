"""A real kube-apiserver with etcd on the loopback, who may do what on it, and what was asked of it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import ssl
import subprocess
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from sentinel.launcher.store_port import find_port
from tests.cluster.cluster_kit import wait_for

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
BINARIES = Path(os.environ.get("KUBERNETES_DIR", ROOT / ".kubernetes")) / "bin"
NAMESPACE = "training"
SENTINEL = f"system:serviceaccount:{NAMESPACE}:sentinel"  # as whom deploy/kubernetes/deployment.yaml runs it
ADMIN_TOKEN, SENTINEL_TOKEN = "secret-admin", "secret-sentinel"
ANSWER_S = 3.0
JOBSETS = f"/apis/jobset.x-k8s.io/v1alpha2/namespaces/{NAMESPACE}/jobsets"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"

AUDIT = f"""\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules: [{{level: Metadata, users: ["{SENTINEL}"]}}]
"""
CONFIG = """\
apiVersion: v1
kind: Config
clusters: [{{name: c, cluster: {{server: "https://127.0.0.1:{port}", insecure-skip-tls-verify: true}}}}]
users: [{{name: u, user: {{token: {token}}}}}]
contexts: [{{name: c, context: {{cluster: c, user: u}}}}]
current-context: c
"""


def why_not() -> str:
    """Why there can be no such server here; empty where there can."""
    if shutil.which("kubectl") is None:
        return "no kubectl here"
    missing = [name for name in ("etcd", "kube-apiserver") if not (BINARIES / name).exists()]
    return f"no {', '.join(missing)} in {BINARIES}: make kubernetes-test builds them" if missing else ""


class ApiServer:
    """`scratch`: of this server alone."""

    def __init__(self, scratch: Path) -> None:
        self._scratch = scratch
        self.port = find_port()
        self._etcd, self._server = self._start_etcd(), None
        self._server = self._start_server()
        self._context = ssl._create_unverified_context()
        for who, token in (("admin", ADMIN_TOKEN), ("sentinel", SENTINEL_TOKEN)):
            (scratch / f"kubeconfig.{who}").write_text(CONFIG.format(port=self.port, token=token))
        wait_for("API server", self._is_ready, 120)
        self.kubectl("create", "namespace", NAMESPACE)
        self.kubectl("apply", "--validate=false", "-f", str(HERE / "jobset_crd.yaml"))
        self.kubectl("apply", "--validate=false", "-k", str(ROOT / "deploy" / "kubernetes"))
        wait_for("JobSets", lambda: self.ask("GET", JOBSETS, may_fail=True), 60)

    @property
    def kubeconfig(self) -> Path:
        """Of Sentinel, with its rights."""
        return self._scratch / "kubeconfig.sentinel"

    @property
    def certificate(self) -> Path:
        return self._scratch / "certs" / "apiserver.crt"

    def down(self) -> None:
        for process in (self._server, self._etcd):
            if process is not None:
                process.send_signal(signal.SIGCONT)
                process.kill()
                process.wait()

    def freeze(self) -> None:
        assert self._server is not None
        self._server.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        assert self._server is not None
        self._server.send_signal(signal.SIGCONT)

    def kubectl(self, *words: str) -> str:
        """As one who may do everything."""
        command = ["kubectl", f"--kubeconfig={self._scratch}/kubeconfig.admin", *words]
        environ = os.environ | {"HOME": str(self._scratch)}
        done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, f"{words}: {done.stderr}"
        return done.stdout

    def ask(self, method: str, path: str, body: Any = None, *, may_fail: bool = False) -> Any:
        """As one who may do everything. A PATCH is a merge. None where it failed and may."""
        data = None if body is None else json.dumps(body).encode()
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        headers = {"Authorization": f"Bearer {ADMIN_TOKEN}", "Content-Type": kind}
        request = urllib.request.Request(f"https://127.0.0.1:{self.port}{path}", data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=ANSWER_S, context=self._context) as answer:
                return json.loads(answer.read() or b"null")
        except (OSError, urllib.error.HTTPError):
            if may_fail:
                return None
            raise

    def jobsets(self) -> list[dict[str, Any]]:
        return list(self.ask("GET", JOBSETS)["items"])

    def pods(self) -> list[dict[str, Any]]:
        return list(self.ask("GET", PODS)["items"])

    def audited(self) -> list[tuple[str, str, int]]:
        """Verb, resource and status of each request of Sentinel's in its namespace that was no trial."""
        found = []
        for line in (self._scratch / "audit.log").read_text().splitlines():
            event = json.loads(line)
            if event.get("objectRef", {}).get("namespace") != NAMESPACE or "dryRun=" in event["requestURI"]:
                continue  # kubectl asks for the version
            what = event["objectRef"]
            resource = "/".join(filter(None, (what["resource"], what.get("subresource", ""))))
            found.append((event["verb"], resource, event.get("responseStatus", {}).get("code", 0)))
        return found

    def _is_ready(self) -> bool:
        assert self._server is not None
        assert self._server.poll() is None, (self._scratch / "kube-apiserver.log").read_text()[-2000:]
        try:
            request = urllib.request.Request(
                f"https://127.0.0.1:{self.port}/readyz", headers={"Authorization": f"Bearer {ADMIN_TOKEN}"}
            )
            with urllib.request.urlopen(request, timeout=ANSWER_S, context=self._context) as answer:
                return bool(answer.read() == b"ok")
        except OSError:
            return False

    def _start_etcd(self) -> subprocess.Popen[bytes]:
        self._etcd_port, peer = find_port(), find_port()
        client = f"http://127.0.0.1:{self._etcd_port}"
        words = ["etcd", "--data-dir", str(self._scratch / "etcd"), "--unsafe-no-fsync"]
        words += ["--listen-client-urls", client, "--advertise-client-urls", client]
        return self._spawn([*words, "--listen-peer-urls", f"http://127.0.0.1:{peer}"])

    def _start_server(self) -> subprocess.Popen[bytes]:
        scratch, key = self._scratch, self._scratch / "sa.key"
        subprocess.run(["openssl", "genrsa", "-out", str(key), "2048"], check=True, capture_output=True, timeout=60)
        groups = f"system:serviceaccounts,system:serviceaccounts:{NAMESPACE}"
        tokens = f'{ADMIN_TOKEN},admin,1,system:masters\n{SENTINEL_TOKEN},{SENTINEL},2,"{groups}"\n'
        (scratch / "tokens.csv").write_text(tokens)
        (scratch / "audit.yaml").write_text(AUDIT)
        words = ["kube-apiserver", f"--etcd-servers=http://127.0.0.1:{self._etcd_port}", "--bind-address=127.0.0.1"]
        words += [f"--secure-port={self.port}", f"--cert-dir={scratch}/certs", f"--token-auth-file={scratch}/tokens.csv"]
        words += ["--authorization-mode=RBAC", f"--service-account-key-file={key}", f"--service-account-signing-key-file={key}"]
        words += ["--service-account-issuer=https://x", "--service-cluster-ip-range=10.0.0.0/24"]
        words += ["--disable-admission-plugins=ServiceAccount"]
        words += [f"--audit-policy-file={scratch}/audit.yaml", f"--audit-log-path={scratch}/audit.log"]
        return self._spawn(words)

    def _spawn(self, words: list[str]) -> subprocess.Popen[bytes]:
        with open(self._scratch / f"{words[0]}.log", "ab") as log:
            return subprocess.Popen(
                [str(BINARIES / words[0]), *words[1:]], stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
