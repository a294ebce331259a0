"""A run under the launcher kubernetes, on a real API."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from sentinel.launcher.kubernetes.attempt import jobset_name, run_label
from tests.cluster.cluster_kit import LOOP, Run
from tests.kubernetes.api_server import NAMESPACE, ROOT, ApiServer
from tests.kubernetes.controllers import Controllers

TEMPLATE = f"""\
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {{namespace: {NAMESPACE}}}
spec:
  replicatedJobs:
  - name: node
    template:
      spec:
        parallelism: 3
        template:
          spec:
            terminationGracePeriodSeconds: 2
            containers: [{{name: trainer, image: none}}]
"""


class KubeRun(Run):
    """Its supervisor is a process of this machine, with the rights of deploy/kubernetes/role.yaml."""

    def __init__(self, run_dir: Path, server: ApiServer, steps: int, step_s: float = 0.05) -> None:
        self.run_dir, self.job = run_dir, ""
        self.log = run_dir.with_suffix(".log")
        template = run_dir.with_suffix(".yaml")
        template.write_text(TEMPLATE)
        self.options = {"template": str(template), "every": "1s", "timeout": "5s", "kubectl": f"--kubeconfig={server.kubeconfig}"}
        words = [sys.executable, "-m", "sentinel", "run", "--run-dir", str(run_dir), "--policy", "demo"]
        words += ["--listen", "off", "--launcher", "kubernetes"]
        words += [word for name, value in self.options.items() for word in ("--launcher-option", f"{name}={value}")]
        self.words = [*words, "--", *LOOP, str(steps), str(step_s)]
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def status(self) -> int | None:
        return None if self.process is None else self.process.poll()

    def start(self) -> None:
        environ = os.environ | {"HOME": str(self.run_dir.parent)}
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                self.words, cwd=ROOT, env=environ, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )

    def signal(self, number: int) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def close(self, server: ApiServer, controllers: Controllers) -> None:
        """Of what a test leaves behind."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()
        for node in list(controllers.off):
            controllers.give_up(node)
            del controllers.off[node]
        server.kubectl("delete", "jobsets", "--all", f"--namespace={NAMESPACE}", "--cascade=foreground")

    def name(self, attempt: int) -> str:
        return jobset_name(run_label(self.run_dir), attempt)

    def hosts(self, attempt: int) -> set[str]:
        """As the heartbeats name them."""
        folder = self.run_dir / "attempts" / f"{attempt:04d}" / "heartbeats"
        return {place.read_text().partition('"host":"')[2].partition('"')[0] for place in folder.glob("rank-*.json")}
