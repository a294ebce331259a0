"""A user's JobSet: what Sentinel puts into it, and what it refuses with the line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sentinel.launcher.kubernetes.cluster_check import read_settings
from sentinel.launcher.kubernetes.settings import KubernetesSettings
from sentinel.launcher.kubernetes.template import TemplateError, WantedJobSet, build_jobset, read_template
from tests.unit.launcher.kube_double import TEMPLATE

ROOT = Path(__file__).resolve().parents[3]
READY = ROOT / "deploy" / "kubernetes" / "jobset.yaml"
WANTED = WantedJobSet(
    "s-big-ab-7", "big-ab", 7, "word", ("torchrun", "--node-rank=$(RANK)"), {"SENTINEL_RUN_DIR": "/runs/big"}, (), 15001
)


def built(text: str = TEMPLATE, **changed: Any) -> dict[str, Any]:
    wanted = {name: getattr(WANTED, name) for name in WANTED.__slots__} | changed
    return build_jobset(read_template(text, "jobset.yaml"), WantedJobSet(**wanted))


def pod_of(jobset: dict[str, Any]) -> dict[str, Any]:
    return dict(jobset["spec"]["replicatedJobs"][0]["template"]["spec"]["template"])


def test_what_is_set() -> None:
    jobset = built()
    labels = {"sentinel/run": "big-ab", "sentinel/attempt": "7", "sentinel/launch": "word"}
    assert jobset["metadata"] == {"namespace": "training", "name": "s-big-ab-7", "labels": {"team": "pre"} | labels}
    assert jobset["spec"]["failurePolicy"] == {"maxRestarts": 0}
    job = jobset["spec"]["replicatedJobs"][0]["template"]["spec"]
    assert (job["backoffLimit"], job["completionMode"], job["completions"], job["parallelism"]) == (0, "Indexed", 3, 3)
    pod = pod_of(jobset)
    assert pod["metadata"]["labels"] == labels
    assert pod["spec"]["restartPolicy"] == "Never"
    assert "affinity" not in pod["spec"]
    (container,) = pod["spec"]["containers"]
    assert container["command"] == ["torchrun", "--node-rank=$(RANK)"]
    env = {
        one["name"]: one.get("value", one.get("valueFrom", {}).get("fieldRef", {}).get("fieldPath")) for one in container["env"]
    }
    index = "metadata.annotations['batch.kubernetes.io/job-completion-index']"
    first = "s-big-ab-7-node-0-0.s-big-ab-7"
    assert env == {
        "SENTINEL_RUN_DIR": "/runs/big", "SENTINEL_NODE": "spec.nodeName", "HOME": "/tmp", "LOCAL_RANK": "0",
        "MASTER_ADDR": first, "MASTER_PORT": "15001", "RANK": index, "WORLD_SIZE": "3",
        "PET_NNODES": "3", "PET_NODE_RANK": index, "PET_MASTER_ADDR": first, "PET_MASTER_PORT": "15001",
    }  # fmt: skip


def test_where_ranks_meet_is_the_files_and_who_they_are_is_sentinels() -> None:
    text = TEMPLATE.replace("env: [", "env: [{name: MASTER_PORT, value: '1'}, {name: SENTINEL_RUN_DIR, value: /else}, ")
    env = pod_of(built(text))["spec"]["containers"][0]["env"]
    assert [one["value"] for one in env if one["name"] == "MASTER_PORT"] == ["1"]
    assert [one["value"] for one in env if one["name"] == "SENTINEL_RUN_DIR"] == ["/runs/big"]


def test_an_excluded_node_is_kept_off_in_every_term_of_the_file() -> None:
    """One term must hold, so that a term without it would be a way in."""
    terms = "[{matchExpressions: [{key: gpu, operator: In, values: [h100]}]}, {matchExpressions: [{key: gpu, operator: Exists}]}]"
    affinity = "affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: TERMS}}}"
    text = TEMPLATE.replace("            containers:", f"            {affinity.replace('TERMS', terms)}\n            containers:")
    pod = pod_of(built(text, exclude=("gpu-1", "gpu-2")))["spec"]
    found = pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    fields = [{"key": "metadata.name", "operator": "NotIn", "values": [name]} for name in ("gpu-1", "gpu-2")]
    assert [term["matchFields"] for term in found] == [fields, fields]
    assert [len(term["matchExpressions"]) for term in found] == [1, 1]


def test_the_container_that_trains_comes_first() -> None:
    text = TEMPLATE.replace(
        "            - name: trainer", "            - {name: logs, image: x, command: [tail]}\n            - name: trainer"
    )
    template = read_template(text, "jobset.yaml", "trainer")
    assert template.trains == "trainer"
    containers = pod_of(build_jobset(template, WANTED))["spec"]["containers"]
    assert [(one["name"], one["command"][0]) for one in containers] == [("trainer", "torchrun"), ("logs", "tail")]


def test_the_template_is_left_as_it_was() -> None:
    template = read_template(TEMPLATE, "jobset.yaml")
    before = json.dumps(template.value)
    build_jobset(template, WANTED)
    assert json.dumps(template.value) == before


def test_the_ready_file_is_a_template() -> None:
    template = read_template(READY.read_text(), "jobset.yaml")
    assert (template.pods, template.trains) == (8, "trainer")


JOB = "spec.replicatedJobs[0].template.spec"
POD = f"{JOB}.template.spec"
REFUSED = [
    ("kind: JobSet", "kind: Job", r"2:1: kind: is 'Job'; write kind: JobSet"),
    ("v1alpha2", "v1", r"1:1: apiVersion: is 'jobset.x-k8s.io/v1'; write apiVersion: jobset.x-k8s.io/v1alpha2"),
    ("replicatedJobs:", "replicatedJob:", r"4:1: spec.replicatedJobs: is missing"),
    ("  - name: node", "  - name: node\n  - name: other", r"spec.replicatedJobs: has 2 jobs; write one"),
    ("  - name: node", "  - name: node\n    replicas: 4", rf"7:5: {'spec.replicatedJobs[0]'}.replicas: is 4; write 1"),
    ("parallelism: 3", "parallelism: 0", rf"9:9: {JOB}.parallelism: is 0; write a whole number"),
    ("parallelism: 3", "parallelism: 3\n        completions: 6", rf"{JOB}.completions: is 6, and parallelism is 3"),
    ("parallelism: 3", "parallelism: 3\n        backoffLimit: 6", rf"10:9: {JOB}.backoffLimit: is 6; write 0"),
    ("parallelism: 3", "parallelism: 3\n        backoffLimitPerIndex: 1", r"would start, end or remove pods beside"),
    ("spec:\n  replicated", "spec:\n  ttlSecondsAfterFinished: 5\n  replicated", r"5:3: spec.ttlSecondsAfterFinished: keeps"),
    ("spec:\n  replicated", "spec:\n  failurePolicy: {maxRestarts: 3}\n  replicated", r"spec.failurePolicy: would start pods"),
    ("            containers:", "            restartPolicy: OnFailure\n            containers:", rf"12:13: {POD}.restartPolicy"),
    ("image: example/trainer", "image: x\n              command: [python]", rf"15:15: {POD}.containers[0].command: is what"),
    ("image: example/trainer", "image: x\n              args: [a]", r"remove it: the command is what stands after --"),
    ("env: [{name: HOME, value: /tmp}]", "env: {HOME: /tmp}", rf"{POD}.containers[0].env: is not a list of variables"),
    ("            - name: trainer", "            - {name: a, image: b}\n            - name: trainer", "container=a"),
    ("            - name: trainer\n              image", "            - image", r"has a container without a name"),
    ("metadata: {namespace: training, labels: {team: pre}}", "metadata: {labels: [a]}", r"is not shaped as a JobSet"),
    ("parallelism: 3", "parallelism: 3\n        parallelism: 4", r"10:9: .*'parallelism' is written twice"),
    ("parallelism: 3", "parallelism: [", r"not YAML"),
    ("  - name: node", "  - name: " + "n" * 60, r"s-x-00000000-1-n+-0-2-xxxxx, and 63 characters are allowed"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "words"), REFUSED)
def test_what_is_refused_names_the_place_and_the_remedy(old: str, new: str, words: str) -> None:
    assert old in TEMPLATE
    place = words.replace("[0]", r"\[0\]") if "[0]" in words else words
    with pytest.raises(TemplateError, match=rf"(?s){place}"):
        read_template(TEMPLATE.replace(old, new), "jobset.yaml")


def test_a_container_that_is_not_there() -> None:
    with pytest.raises(TemplateError, match="has no container 'x'; name one of trainer with --launcher-option container"):
        read_template(TEMPLATE, "jobset.yaml", "x")


def test_the_namespace_is_the_options_then_the_files_then_the_pods_own(tmp_path: Path) -> None:
    (tmp_path / "jobset.yaml").write_text(TEMPLATE)
    (tmp_path / "bare.yaml").write_text(TEMPLATE.replace("namespace: training, ", ""))
    assert read_settings(KubernetesSettings("jobset.yaml"), str(tmp_path))[1] == "training"
    assert read_settings(KubernetesSettings("jobset.yaml", namespace="else"), str(tmp_path))[1] == "else"
    with pytest.raises(TemplateError, match=r"bare\.yaml: metadata\.namespace: is missing; write it there, or --launcher-option"):
        read_settings(KubernetesSettings("bare.yaml"), str(tmp_path))
    with pytest.raises(TemplateError, match=r"--launcher-option template=none\.yaml: cannot be read"):
        read_settings(KubernetesSettings("none.yaml"), str(tmp_path))


@pytest.mark.parametrize(
    ("options", "words"),
    [({"template": " "}, "name a file with a JobSet"), ({"template": "a", "every": "often"}, "launcher-option every"),
     ({"template": "a", "kubectl": "'"}, "write it as for a shell")],
)  # fmt: skip
def test_an_option_that_makes_no_sense(options: dict[str, str], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        KubernetesSettings(**options)
