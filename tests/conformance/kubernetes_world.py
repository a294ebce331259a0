"""The launcher `kubernetes`, over a double of kubectl that starts real processes on this machine."""

from __future__ import annotations

import json
import os
import sys
import threading
from dataclasses import asdict
from pathlib import Path

from sentinel.launcher.kubernetes.jobsets import KubernetesLauncher
from sentinel.launcher.registry import LaunchPlace, open_launcher
from sentinel.model.attempts import AttemptSpec, SettingsInForce
from tests.conformance.command_world import CommandWorld
from tests.conformance.launcher_world import DEADLINE_S, HERE, Job, LocalWorld, wait_for

TEMPLATE = """\
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {{namespace: training}}
spec:
  replicatedJobs:
  - name: node
    template:
      spec:
        parallelism: {ranks}
        template: {{spec: {{containers: [{{name: trainer, image: none}}]}}}}
"""


class KubernetesWorld(CommandWorld):
    """No keeper. A rank is a pod: torchrun is not needed to have two."""

    kind = "kubernetes"

    def __init__(self, run_dir: Path, real_torchrun: bool = False) -> None:
        LocalWorld.__init__(self, run_dir, real_torchrun)
        self._launchers = []
        self._template = run_dir / "jobset.yaml"
        self._before = {name: os.environ.get(name) for name in ("PATH", "KUBE_DOUBLE")}
        for folder in ("bin", "jobsets", "pods", "deletions", "logs", "new"):
            (run_dir / "kube" / folder).mkdir(parents=True)
        program = run_dir / "kube" / "bin" / "kubectl"
        program.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S {HERE}/kubectl_program.py "$@"\n')
        program.chmod(0o755)
        os.environ.update({"PATH": f"{program.parent}:{os.environ['PATH']}", "KUBE_DOUBLE": str(run_dir / "kube")})
        self._write_template(1)

    @property
    def options(self) -> dict[str, str]:
        return {"template": str(self._template), "every": "0.05s"}

    def launcher(self) -> KubernetesLauncher:  # type: ignore[override]
        launcher = open_launcher(self.kind, self.options, LaunchPlace(self.run_dir, supervises=True))
        assert isinstance(launcher, KubernetesLauncher)
        return launcher

    def spec(self, attempt: int, job: Job) -> AttemptSpec:
        self._attempts.add(attempt)
        self._write_template(job.ranks)
        program = (sys.executable, "-I", "-S", str(HERE / "rank_double.py"), json.dumps(asdict(job)))
        return AttemptSpec(attempt, program, str(self.run_dir), None, SettingsInForce())

    def close(self) -> None:
        try:
            for attempt in self._attempts:
                self.launcher().ensure_stopped(attempt)
            for thread in threading.enumerate():  # a question under way has a child, which it reaps
                if thread.name == "slurm":
                    thread.join(DEADLINE_S)
            for name in os.listdir(self.run_dir / "kube" / "jobsets"):  # what has ended stays until somebody removes it
                (self.run_dir / "kube" / "deletions" / name).write_text("{}")
            wait_for(lambda: not os.listdir(self.run_dir / "kube" / "jobsets"), "no JobSet")
            super().close()
        finally:
            for name, value in self._before.items():
                if value is None:
                    os.environ.pop(name, None)
                else:
                    os.environ[name] = value

    def _write_template(self, ranks: int) -> None:
        self._template.write_text(TEMPLATE.format(ranks=ranks))
