"""The files of deploy/kubernetes: what kustomize makes of them, and what only holds where they agree."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from sentinel.cli.root import app
from sentinel.launcher.kubernetes.template import read_template
from sentinel.launcher.registry import find_row, settings_of
from tests.docs.test_deploy_files import check

FOLDER = Path(__file__).resolve().parents[2] / "deploy" / "kubernetes"
SCRIPT = FOLDER / "supervise.sh"


def documents(name: str) -> dict[str, Any]:
    """By kind."""
    return {one["kind"]: one for one in yaml.safe_load_all((FOLDER / name).read_text(encoding="utf-8"))}


DEPLOYMENT = documents("deployment.yaml")["Deployment"]
POD = DEPLOYMENT["spec"]["template"]["spec"]
(SENTINEL,) = POD["containers"]


def test_the_agent_beside_the_trainer_is_of_the_same_run_and_sees_its_processes() -> None:
    pod = documents("jobset.yaml")["JobSet"]["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    (agent,) = pod["initContainers"]
    assert f"--run-dir={agent['command'][-1]}" in SENTINEL["args"]
    assert agent["command"][:2] == ["sentinel", "agent"]
    assert (agent["image"], agent["restartPolicy"]) == (SENTINEL["image"], "Always")
    assert pod["shareProcessNamespace"]
    named = {one["name"]: one for one in agent["env"]}
    assert named["SENTINEL_NODE"]["valueFrom"]["fieldRef"]["fieldPath"] == "spec.nodeName", "as the trainer's heartbeats name it"


def test_kustomize_takes_them() -> None:
    made = {one["kind"]: one for one in yaml.safe_load_all(check(["kubectl", "kustomize", str(FOLDER)]))}
    kinds = {"ServiceAccount", "Role", "RoleBinding", "ConfigMap", "Deployment"}
    assert set(made) == kinds, "nothing outside the namespace, no JobSet, and no volume: to delete these must not delete a run"
    assert {one["metadata"]["namespace"] for one in made.values()} == {"training"}
    assert made["RoleBinding"]["subjects"][0]["namespace"] == "training"
    volumes = made["Deployment"]["spec"]["template"]["spec"]["volumes"]
    assert made["ConfigMap"]["metadata"]["name"] in [one["configMap"]["name"] for one in volumes if "configMap" in one]
    assert set(made["ConfigMap"]["data"]) == {"jobset.yaml", "supervise.sh"}


def test_what_the_kustomization_names_is_there() -> None:
    listed = documents("kustomization.yaml")["Kustomization"]
    named = {*listed["resources"], *listed["configMapGenerator"][0]["files"], "kustomization.yaml", "volume.yaml"}
    assert named == {path.name for path in FOLDER.iterdir()}


def test_one_sentinel_for_one_run_with_its_own_rights() -> None:
    assert (DEPLOYMENT["spec"]["replicas"], DEPLOYMENT["spec"]["strategy"]) == (1, {"type": "Recreate"})
    assert POD["serviceAccountName"] == documents("role.yaml")["ServiceAccount"]["metadata"]["name"]
    assert documents("role.yaml")["RoleBinding"]["subjects"] == [{"kind": "ServiceAccount", "name": "sentinel"}]


def test_its_command_can_be_read() -> None:
    assert SENTINEL["command"] == ["sh", f"/etc/sentinel/{SCRIPT.name}"]
    words = SENTINEL["args"]
    assert words[:2] == ["sentinel", "run"]
    options = [word.partition("=") for word in words[2 : words.index("--")]]
    known = {
        option for parameter in getattr(typer.main.get_command(app), "commands", {})["run"].params for option in parameter.opts
    }
    assert {name for name, _, _ in options} <= known
    pairs = [value.partition("=") for name, _, value in options if name == "--launcher-option"]
    settings = settings_of(find_row("kubernetes"), {name: value for name, _, value in pairs})
    assert settings.template == "/etc/sentinel/jobset.yaml"
    assert {one["mountPath"] for one in SENTINEL["volumeMounts"]} == {"/runs", "/etc/sentinel", "/tmp"}


def test_sentinel_and_the_training_see_one_volume_as_one_user() -> None:
    template: Any = read_template((FOLDER / "jobset.yaml").read_text(encoding="utf-8"), "jobset.yaml").value
    pod = template["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    for key in ("runAsUser", "runAsGroup", "fsGroup"):
        assert pod["securityContext"][key] == POD["securityContext"][key], key
    claims = [one["persistentVolumeClaim"]["claimName"] for one in (*pod["volumes"], *POD["volumes"]) if one["name"] == "runs"]
    assert claims == ["runs", "runs"]
    assert documents("volume.yaml")["PersistentVolumeClaim"]["spec"]["accessModes"] == ["ReadWriteMany"]
    mounts = [one for one in (*pod["containers"][0]["volumeMounts"], *SENTINEL["volumeMounts"]) if one["name"] == "runs"]
    assert [one["mountPath"] for one in mounts] == ["/runs", "/runs"]


Script = Callable[[str], subprocess.Popen[str]]


@pytest.fixture
def run_script(tmp_path: Path) -> Iterator[Script]:
    """The script before a stand-in for sentinel. What it leaves behind ends with the test, as with a pod."""
    running: list[subprocess.Popen[str]] = []

    def start(body: str) -> subprocess.Popen[str]:
        program = tmp_path / "sentinel"
        program.write_text(f"#!/bin/sh\n{body}\n", encoding="utf-8")
        program.chmod(0o755)
        words = ["sh", str(SCRIPT), str(program), "run"]
        running.append(subprocess.Popen(words, stdout=subprocess.PIPE, text=True, start_new_session=True))
        return running[-1]

    yield start
    for one in running:
        with suppress(ProcessLookupError):
            os.killpg(one.pid, signal.SIGKILL)
        one.wait(30)
        assert one.stdout is not None
        one.stdout.close()


@pytest.mark.parametrize("code", [2, 70, 75, 138])
def test_what_is_to_go_on_leaves_so_that_it_is_started_again(run_script: Script, code: int) -> None:
    done = run_script(f"exit {code}")
    assert done.wait(30) == code


@pytest.mark.parametrize("code", [0, 1, 130])
def test_a_run_that_is_over_is_not_started_again(run_script: Script, code: int) -> None:
    done = run_script(f"exit {code}")
    assert done.stdout is not None
    assert done.stdout.readline() == f"sentinel left with {code}\n"
    assert done.poll() is None, "a Deployment would start it"
    done.send_signal(signal.SIGTERM)
    assert done.wait(30) == 0


def test_a_pod_that_is_asked_to_end_never_asks_sentinel_to_stop_the_training(run_script: Script, tmp_path: Path) -> None:
    noted = tmp_path / "asked"
    done = run_script(f"trap 'touch {noted}' TERM\necho $$\nsleep 600 &\nwhile :; do wait $!; done")
    assert done.stdout is not None
    pid = int(done.stdout.readline())
    done.send_signal(signal.SIGTERM)
    assert done.wait(30) == 0
    deadline = time.monotonic() + 30
    while re.search(r"State:\s+[RSD]", read_status(pid)):
        assert time.monotonic() < deadline, "it was to be killed"
        time.sleep(0.01)
    assert not noted.exists()


def read_status(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""
