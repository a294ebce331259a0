"""The launcher `kubernetes` on a real API server, with the rights of deploy/kubernetes/role.yaml and no others. `make
kubernetes-test` runs it. Pods are played by a double (`controllers`)."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml

from sentinel.errors import UsageError
from sentinel.launcher.kubernetes.cluster_check import check_cluster
from sentinel.launcher.kubernetes.jobsets import KubernetesLauncher
from sentinel.launcher.kubernetes.settings import KubernetesSettings
from sentinel.model import facts as f
from sentinel.model.attempts import Alive, AttemptSpec, Exited, SettingsInForce
from sentinel.model.findings import Kind
from tests.cluster.cluster_kit import LOOP, wait_for
from tests.kubernetes.api_server import JOBSETS, PODS, ROOT, SENTINEL_TOKEN, ApiServer
from tests.kubernetes.controllers import INDEX, Controllers
from tests.kubernetes.kube_kit import KubeRun

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]
Start = Callable[..., KubeRun]


@pytest.fixture
def start(server: ApiServer, controllers: Controllers, tmp_path: Path) -> Iterator[Start]:
    """A run of so many steps, started unless it is said otherwise; ended with the test."""
    runs: list[KubeRun] = []

    def begin(steps: int, *, starts: bool = True) -> KubeRun:
        run = KubeRun(tmp_path / "run", server, steps)
        runs.append(run)
        if starts:
            run.start()
        return run

    yield begin
    server.thaw()
    controllers.is_queueing = False
    for run in runs:
        run.close(server, controllers)
    wait_for("empty cluster", lambda: not server.jobsets() and not server.pods(), 60)


def attempts_overlap(run: KubeRun) -> bool:
    spans = sorted(run.spans().items())
    return any(later[1][0] < earlier[1][1] for earlier, later in pairwise(spans))


def tell(name: str, **figures: float) -> None:
    """What was measured, for whoever reads the output."""
    print(f"\n{name}: " + ", ".join(f"{key} {value:.1f} s" for key, value in figures.items()))


def test_three_pods_from_start_to_finish(server: ApiServer, start: Start) -> None:
    run = start(40)
    assert run.until_left() == 0, run.tail()
    assert [fact.outcome for fact in run.of(f.AttemptEnded)] == ["finished"]
    assert len(run.processes(1)) == 3
    assert run.hosts(1) == {"gpu-1", "gpu-2", "gpu-3"}, "a heartbeat names the node, and not the pod"
    (kept,) = server.jobsets()
    assert kept["status"]["conditions"][0]["type"] == "Completed", "what finished stays to be looked at"
    assert not run.of(f.IncidentOpened)


def running(server: ApiServer) -> list[dict[str, Any]]:
    return [pod for pod in server.pods() if pod["status"]["phase"] == "Running"]


def test_a_stop_leaves_no_pod_that_runs(server: ApiServer, start: Start) -> None:
    run = start(5000)
    run.until_step(1, 20)
    began_s = time.time()
    run.signal(signal.SIGINT)
    assert run.until_left() == 130, run.tail()
    tell("stop", until_left=time.time() - began_s)
    assert [fact.outcome for fact in run.of(f.AttemptEnded)] == ["stopped"]
    assert running(server) == []


def test_a_rank_that_is_killed_is_blamed_and_costs_one_rung(controllers: Controllers, start: Start) -> None:
    run = start(2000)
    run.until_step(1, 30)
    killed_s = time.time()
    controllers.kill(1)
    run.until_step(2, 30)
    tell("rank killed", until_launched=run.time_of(f.AttemptLaunched) - killed_s)
    incidents = [fact.incident for fact in run.of(f.IncidentOpened)]
    assert [(incident.kind, incident.blamed_rank, incident.blamed_node) for incident in incidents] == [(Kind.CRASH, 1, "gpu-2")]
    assert len(run.of(f.RungTaken)) == 1
    assert len(run.of(f.AttemptLaunched)) == 2
    assert not run.of(f.CheckpointCondemned)
    assert not attempts_overlap(run)


def test_a_hang_is_ended_before_the_next_attempt_is_started(controllers: Controllers, start: Start) -> None:
    run = start(2000)
    run.until_step(1, 30)
    stopped_s = time.time()
    controllers.kill(2, signal.SIGSTOP)
    run.until_step(2, 30)
    tell("hang", until_launched=run.time_of(f.AttemptLaunched) - stopped_s)
    assert [fact.incident.kind for fact in run.of(f.IncidentOpened)] == [Kind.HANG]
    assert not attempts_overlap(run)


def test_a_frozen_api_leads_to_no_fact_and_no_act(server: ApiServer, start: Start) -> None:
    run = start(5000)
    run.until_step(1, 30)
    before, asked = len(run.facts()), len(server.audited())
    server.freeze()
    frozen_s = time.time()
    wait_for("a while", lambda: time.time() - frozen_s > 20.0, 40)
    assert run.newest_step(1) > 100, "it trains on"
    server.thaw()
    run.until_step(1, run.newest_step(1) + 60)
    kinds = {type(entry.fact).__name__ for entry in run.facts()[before:]}
    assert kinds <= {"SourceChanged", "CheckpointCommitted"}, kinds
    assert len(run.of(f.AttemptLaunched)) == 1
    assert not [verb for verb, _, _ in server.audited()[asked:] if verb in ("create", "delete")]


def test_a_rank_killed_behind_a_frozen_api_is_one_incident(server: ApiServer, controllers: Controllers, start: Start) -> None:
    run = start(2000)
    run.until_step(1, 30)
    server.freeze()
    frozen_s = time.time()
    controllers.kill(1)
    wait_for("a while", lambda: time.time() - frozen_s > 20.0, 40)
    assert len(run.of(f.AttemptLaunched)) == 1, "nothing is started while nobody knows whether attempt 1 lives"
    server.thaw()
    run.until_step(2, 30, 120)
    tell("frozen for 20 s with a rank killed", until_launched_after_it=run.time_of(f.AttemptLaunched) - frozen_s - 20.0)
    (incident,) = [fact.incident for fact in run.of(f.IncidentOpened)]
    # Its heartbeats alone are seen meanwhile: they may have stopped at the step of all others, and then nobody is blamed.
    assert (incident.blamed_rank, incident.blamed_node) in ((1, "gpu-2"), (None, ""))
    (ended,) = run.of(f.AttemptEnded)
    assert [(rank.rank, rank.signal) for rank in ended.ranks if not rank.lost_peers] == [(1, 9)], "its pod tells, in the end"
    assert len(run.of(f.RungTaken)) == 1
    assert not attempts_overlap(run)


def test_a_pod_on_a_node_without_power_is_waited_for(server: ApiServer, controllers: Controllers, start: Start) -> None:
    run = start(2000)
    run.until_step(1, 30)
    off_s = time.time()
    controllers.cut_power("gpu-3")
    wait_for("the doubt", lambda: run.of(f.AttemptUnseen), 120)
    wait_for("a while", lambda: time.time() - off_s > 20.0, 40)
    assert len(run.of(f.AttemptLaunched)) == 1, "its rank may live"
    assert [pod["spec"]["nodeName"] for pod in server.pods()] == ["gpu-3"], "of the others nothing is left"
    assert "gpu-3: its node is not reachable" in run.of(f.AttemptUnseen)[-1].reason
    given_up_s = time.time()
    controllers.give_up("gpu-3")
    run.until_step(2, 30, 120)
    tell("node given up", until_launched=run.time_of(f.AttemptLaunched) - given_up_s)
    assert "gpu-3" not in run.hosts(2)
    assert [fact.incident.blamed_node for fact in run.of(f.IncidentOpened)] == ["gpu-3"]
    assert len(run.of(f.RungTaken)) == 1
    assert not attempts_overlap(run)


def test_a_pod_that_is_drained_has_its_grace_to_save(server: ApiServer, start: Start) -> None:
    """An eviction asks by SIGTERM; the ranks leave with 6 behind a checkpoint, and the run goes on elsewhere."""
    run = start(2000)
    run.until_step(1, 30)
    (pod,) = [one for one in server.pods() if one["metadata"]["annotations"][INDEX] == "0"]
    server.ask("DELETE", f"{PODS}/{pod['metadata']['name']}")
    run.until_step(2, 60, 120)
    ended = run.of(f.AttemptEnded)[0]
    assert ended.outcome == "preempted", ended
    assert run.of(f.FirstStep)[-1].step == ended.last_step + 1, "no step is lost"
    assert not attempts_overlap(run)


def test_a_jobset_of_another_run_with_that_name_is_left_alone(server: ApiServer, start: Start) -> None:
    run = start(40, starts=False)
    run.run_dir.mkdir()
    key = "5f" * 16
    (run.run_dir / "key").write_text(key)
    launcher = launcher_of(run, key)
    labels = {"sentinel/run": "other-1", "sentinel/attempt": "1", "sentinel/launch": "theirs"}
    value = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": {"name": run.name(1), "labels": labels}}
    server.ask("POST", JOBSETS, value | {"spec": {"suspend": True, "replicatedJobs": [NO_POD]}})
    with pytest.raises(Exception, match="of the run other-1, launch theirs; it is left alone"):
        launcher.ensure_started(spec_of(run))
    assert [one["metadata"]["labels"]["sentinel/launch"] for one in server.jobsets()] == ["theirs"]


def test_a_second_create_is_refused_by_the_api_and_counts_as_started(server: ApiServer, start: Start) -> None:
    """Two who are at it at once: a supervisor that was taken for dead, and its successor."""
    run = start(5000, starts=False)
    run.run_dir.mkdir()
    first, second = launcher_of(run, "77" * 16), launcher_of(run, "77" * 16)
    assert isinstance(first.ensure_started(spec_of(run)), Alive)
    launched = json.loads((run.run_dir / "attempts/0001/kubernetes.json").read_text())
    jobset = (run.run_dir / "attempts/0001/jobset.json").read_text()
    reply = second._calls.create(launched["namespace"], jobset)
    assert "AlreadyExists" in reply.errors
    assert isinstance(second.ensure_started(spec_of(run)), Alive)
    assert len(server.jobsets()) == 1
    assert isinstance(second.ensure_stopped(1), Exited)
    assert server.jobsets() == server.pods() == []


def test_excluded_nodes_get_no_pod(server: ApiServer, start: Start) -> None:
    run = start(5000, starts=False)
    run.run_dir.mkdir()
    launcher = launcher_of(run, "99" * 16)
    assert isinstance(launcher.ensure_started(spec_of(run, "gpu-2")), Alive)
    assert {pod["spec"]["nodeName"] for pod in server.pods()} == {"gpu-1", "gpu-3", "gpu-4"}
    assert isinstance(launcher.ensure_stopped(1), Exited)


def test_a_job_that_waits_in_a_queue_is_trouble_of_the_cluster(controllers: Controllers, start: Start) -> None:
    controllers.is_queueing = True
    run = start(40)
    wait_for("engine trouble", lambda: run.of(f.EngineTrouble), 120)
    assert "0 of 3 pods are there" in run.of(f.EngineTrouble)[0].line
    controllers.is_queueing = False
    assert run.until_left() == 0, run.tail()
    assert not run.of(f.IncidentOpened)
    assert len(run.processes(1)) == 3


# What is there in the attempt's folder when the supervisor dies, and how long after that.
MOMENTS = [("spec.json", 0.0), ("jobset.json", 0.0), ("kubernetes.json", 0.0), ("kubernetes.json", 0.05), ("pods.json", 0.0)]


@pytest.mark.parametrize(("place", "after_s"), MOMENTS)
def test_a_supervisor_killed_in_mid_launch_leaves_one_jobset(server: ApiServer, start: Start, place: str, after_s: float) -> None:
    """By SIGKILL; it is started again."""
    asked = len(server.audited())
    run = start(40)
    path = run.run_dir / "attempts" / "0001" / place
    end = time.monotonic() + 60
    while not path.exists():  # without a pause: the moment counts
        assert time.monotonic() < end, run.tail()
    time.sleep(after_s)
    run.signal(signal.SIGKILL)
    assert run.process is not None
    run.process.wait()
    run.start()
    assert run.until_left() == 0, run.tail()
    assert len(run.processes(1)) == 3, f"one JobSet of attempt 1, three ranks: {run.processes(1)}"
    assert server.audited()[asked:].count(("create", "jobsets", 201)) == 1
    assert not run.of(f.IncidentOpened)


def test_a_template_that_the_api_refuses_is_refused_before_there_is_a_run(server: ApiServer, tmp_path: Path) -> None:
    run = KubeRun(tmp_path / "run", server, 10)
    settings = KubernetesSettings(**run.options | {"namespace": "nowhere"})
    with pytest.raises(UsageError, match="Forbidden"):
        check_cluster(("python",), str(ROOT), settings)
    check_cluster(("python",), str(ROOT), KubernetesSettings(**run.options))
    assert server.jobsets() == []


IN_A_POD = """
mount -t tmpfs none /run && folder=/run/secrets/kubernetes.io/serviceaccount && mkdir -p $folder
printf %s "$1" >$folder/token; printf %s "$2" >$folder/namespace; cp "$3" $folder/ca.crt
exec "$4" -c 'from sentinel.launcher.kubernetes.calls import RealKube; print(RealKube(5.0).jobsets("training", "a=b"))'
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="a mount of its own needs root (unshare)")
def test_in_a_pod_kubectl_finds_the_api_of_its_cluster(server: ApiServer) -> None:
    """By the files of its service account, which are put into a mount namespace of its own."""
    environ = {"PATH": os.environ["PATH"], "HOME": "/nowhere", "PYTHONPATH": str(ROOT)}
    environ |= {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": str(server.port)}
    words = [
        "unshare",
        "--mount",
        "sh",
        "-c",
        IN_A_POD,
        "pod",
        SENTINEL_TOKEN,
        "training",
        str(server.certificate),
        sys.executable,
    ]
    done = subprocess.run(words, env=environ, capture_output=True, text=True, timeout=60, check=False)
    assert '"kind":"JobSetList"' in done.stdout, done.stdout + done.stderr


def test_z_only_the_roles_rights_were_used_and_all_of_them(server: ApiServer) -> None:
    """Last of this file: by the server's own audit log."""
    text = (ROOT / "deploy" / "kubernetes" / "role.yaml").read_text()
    (role,) = [one for one in yaml.safe_load_all(text) if one["kind"] == "Role"]
    allowed = {(verb, resource) for rule in role["rules"] for resource in rule["resources"] for verb in rule["verbs"]}
    assert {(verb, resource) for verb, resource, _ in server.audited()} == allowed
    assert not [one for one in server.audited() if one[2] == 403]


NO_POD = {"name": "node", "template": {"spec": {"completions": 0, "template": {"metadata": {"labels": {}}, "spec": {}}}}}


def launcher_of(run: KubeRun, key: str) -> KubernetesLauncher:
    (run.run_dir / "run.json").write_text(json.dumps({"digest_key": key}))
    return KubernetesLauncher(run.run_dir, KubernetesSettings(**run.options), supervises=True)


def spec_of(run: KubeRun, *exclude: str) -> AttemptSpec:
    argv: Any = (*LOOP, "5000", "0.05")
    return AttemptSpec(1, argv, str(ROOT), None, SettingsInForce(), exclude_nodes=exclude, launch="mine")
