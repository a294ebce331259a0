"""kubectl as it is called. Doubles that are shell scripts; what a call asks of the API is in its words."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from sentinel.errors import UsageError
from sentinel.launcher import asking
from sentinel.launcher.asking import Reply
from sentinel.launcher.kubernetes.answers import read_jobsets, read_refusal
from sentinel.launcher.kubernetes.calls import RealKube
from sentinel.launcher.kubernetes.cluster_check import check_cluster
from sentinel.launcher.kubernetes.settings import KubernetesSettings
from sentinel.launcher.registry import find_row
from sentinel.launcher.slurm.answers import Unclear
from tests.unit.launcher.kube_double import TEMPLATE, KubeBench

ROLE = Path(__file__).resolve().parents[3] / "deploy" / "kubernetes" / "role.yaml"


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(asking, "LEAVE_S", 0.2)
    return tmp_path


def write(programs: Path, body: str) -> None:
    (programs / "kubectl").write_text(f"#!/bin/sh\n{body}\n")
    (programs / "kubectl").chmod(0o755)


def role() -> set[tuple[str, str]]:
    (found,) = [one for one in yaml.safe_load_all(ROLE.read_text()) if one["kind"] == "Role"]
    assert not any("*" in rule["resources"] + rule["verbs"] for rule in found["rules"])
    return {(verb, resource) for rule in found["rules"] for resource in rule["resources"] for verb in rule["verbs"]}


def test_what_is_given_to_kubectl(programs: Path) -> None:
    write(programs, f'echo "$@" >>{programs}/words; cat >>{programs}/words')
    kube = RealKube(7.5, ("--context=prod",))
    kube.jobsets("training", "sentinel/run=big")
    kube.jobset("training", "s-big-1")
    kube.pods("training", "sentinel/run=big")
    kube.log("training", "s-big-1-node-0-0-x", "trainer")
    kube.create("training", "{}")
    kube.create("training", "{}", is_trial=True)
    kube.delete("training", "s-big-1", "77")
    place = "/apis/jobset.x-k8s.io/v1alpha2/namespaces/training/jobsets"
    front = "--context=prod"
    assert (programs / "words").read_text() == "\n".join(
        [
            f"{front} get --raw {place}?labelSelector=sentinel%2Frun%3Dbig",
            f"{front} get --raw {place}?fieldSelector=metadata.name%3Ds-big-1",
            f"{front} get --raw /api/v1/namespaces/training/pods?labelSelector=sentinel%2Frun%3Dbig",
            f"{front} get --raw /api/v1/namespaces/training/pods/s-big-1-node-0-0-x/log"
            "?container=trainer&tailLines=2000&limitBytes=262144",
            f"{front} create --raw {place} --filename -",
            "{}" + f"{front} create --raw {place}?dryRun=All --filename -",
            "{}" + f"{front} delete --raw {place}/s-big-1 --filename -",
            '{"kind":"DeleteOptions","apiVersion":"v1","propagationPolicy":"Foreground","preconditions":{"uid":"77"}}',
        ]
    )


def test_a_server_that_is_frozen_ends_the_call_by_its_deadline(programs: Path) -> None:
    write(programs, "trap : TERM; while :; do sleep 600; done")
    reply = RealKube(0.2).jobsets("training", "a=b")
    assert reply.status is None
    assert isinstance(read_jobsets(reply), Unclear)


def test_secrets_do_not_reach_kubectl(programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(programs, "env")
    for name in ("SECRET", "KUBECONFIG"):
        monkeypatch.setenv(name, "x")
    output = RealKube(20.0, (), frozenset({"SECRET"})).pods("training", "a=b").output
    assert "SECRET=" not in output
    assert "KUBECONFIG=x" in output


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (Reply(1, "", 'Error from server (AlreadyExists): jobsets "x" already exists'), "AlreadyExists"),
        (Reply(1, "", "The connection to the server 127.0.0.1:1 was refused"), ""), (Reply(0, "Error from server (X)"), ""),
        (Reply(None, "", "Error from server (X)"), ""),
    ],
)  # fmt: skip
def test_why_the_api_refused(reply: Reply, reason: str) -> None:
    assert read_refusal(reply) == reason


@pytest.mark.parametrize(
    ("refusal", "is_refused"),
    [("Forbidden", True), ("Invalid", True), ("NotFound", True), ("Timeout", False), ("InternalError", False), ("", False)],
)
def test_what_the_api_refuses_for_good_is_refused_before_there_is_a_run(programs: Path, refusal: str, is_refused: bool) -> None:
    """What may pass, and an API that does not answer, is no reason against a run."""
    (programs / "jobset.yaml").write_text(TEMPLATE)
    word = f"Error from server ({refusal}): no" if refusal else "The connection to the server was refused"
    write(programs, f'cat >/dev/null; echo "{word}" >&2; exit 1')
    settings = KubernetesSettings("jobset.yaml")
    if is_refused:
        with pytest.raises(UsageError, match=rf"jobset\.yaml: the API server does not take it: .*{refusal}"):
            check_cluster(("python",), str(programs), settings)
    else:
        check_cluster(("python",), str(programs), settings)


def test_a_bad_template_and_a_missing_kubectl_are_refused_before_there_is_a_run(
    programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (programs / "jobset.yaml").write_text(TEMPLATE.replace("JobSet", "Job"))
    monkeypatch.setenv("PATH", str(programs))
    with pytest.raises(UsageError, match="kubectl is not on the PATH"):
        check_cluster(("python",), str(programs), KubernetesSettings("jobset.yaml"))
    write(programs, "exit 0")
    with pytest.raises(UsageError, match=r"jobset\.yaml:2:1: kind: is 'Job'"):
        check_cluster(("python",), str(programs), KubernetesSettings("jobset.yaml"))


def test_the_role_allows_what_is_asked_and_nothing_else(tmp_path: Path) -> None:
    """The whole life of an attempt, and what goes wrong in it."""
    bench: Any = KubeBench(tmp_path)
    bench.launcher().ensure_started(bench.spec())
    bench.launcher().ensure_stopped(1)
    bench.launcher().ensure_started(bench.spec(2))
    bench.kube.end(bench.name(2), 1, 1)
    bench.launcher().observe(2)
    bench.launcher().ensure_stopped(2)
    assert bench.kube.asked == role()


def test_its_calls_are_of_these_verbs(programs: Path) -> None:
    """kubectl's own words are the API's verbs: a GET of a collection is list, of a log it is get."""
    write(programs, f'echo "$1 $3" >>{programs}/words; cat >/dev/null')
    kube = RealKube(5.0)
    for call in (kube.jobsets, kube.pods):
        call("n", "a=b")
    kube.jobset("n", "x")
    kube.log("n", "p", "c")
    kube.create("n", "{}")
    kube.delete("n", "x", "1")
    used = set()
    for line in (programs / "words").read_text().splitlines():
        word, path = line.split()
        parts = re.sub(r"\?.*", "", path).split("/namespaces/n/")[1].split("/")
        resource = "/".join((parts[0], *parts[2:]))
        used.add(("list" if word == "get" and len(parts) == 1 else word, resource))
    assert used == role()


def test_nodes_are_left_out_without_a_word_of_the_user() -> None:
    assert find_row("kubernetes").capabilities == ("exclude",)
