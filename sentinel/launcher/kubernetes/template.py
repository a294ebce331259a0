"""The JobSet of an attempt, from the one that the user wrote. Pure: text in, an object for the API out.

The user's file says how a pod looks: image, volumes, devices, resources, tolerations. Sentinel sets the rest, and refuses a file
that says it otherwise, with the line:

- the name, the labels `sentinel/…` of the JobSet and of its pods;
- that nothing starts a pod again but Sentinel: `maxRestarts: 0`, `backoffLimit: 0`, `restartPolicy: Never`;
- the command of the training container, which is what stands after `--`, and variables of its environment;
- that no pod is placed on an excluded node (node affinity).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sentinel.client.machine import NODE_VARIABLE
from sentinel.client.strict_json import dumps, loads
from sentinel.errors import Problem
from sentinel.launcher.kubernetes.pods import ATTEMPT, INDEX, LAUNCH, RUN

API, KIND = "jobset.x-k8s.io/v1alpha2", "JobSet"
NAME_CHARS_MAX = 63  # in DNS, where a pod has its name; Kubernetes adds six to it
PODS_MAX = 10_000
_JOB = "spec.replicatedJobs[0]"
_POD = f"{_JOB}.template.spec.template.spec"


class TemplateError(ValueError):
    """The file is no template: the sentence names the place and the remedy."""


@dataclass(frozen=True, slots=True)
class Template:
    """A file that was read and checked. `container`: which one trains, `trains`: its name. `namespace`: may be empty."""

    value: Mapping[str, Any]
    job: str
    pods: int
    container: int
    trains: str
    namespace: str


@dataclass(frozen=True, slots=True)
class WantedJobSet:
    """What an attempt adds. `environment`: of the training container; those of `defaults` only where the file has none."""

    name: str
    run: str
    attempt: int
    launch: str
    argv: tuple[str, ...]
    environment: Mapping[str, str]
    exclude: tuple[str, ...] = ()
    port: int = 29500


def read_template(text: str, source: str, container: str = "") -> Template:
    """`source`: the file's name, for people. `container`: the one that trains; empty: the only one. Raises TemplateError."""
    from sentinel.policy_files.yaml_positions import read_yaml  # YAML is read by those alone who have a template

    read = read_yaml(text)
    problem = read.problems[0] if read.problems else next(_problems(read.value, container), None)
    if problem is not None:
        placed = read.locate(problem)
        remedy = f"; {placed.remedy}" if placed.remedy else ""
        raise TemplateError(f"{source}:{placed.line}:{placed.column}: {placed.path}: {placed.message}{remedy}")
    value: Any = read.value
    job = value["spec"]["replicatedJobs"][0]
    spec = job["template"]["spec"]
    names = [one["name"] for one in spec["template"]["spec"]["containers"]]
    template = Template(
        value=value,
        job=job["name"],
        pods=spec.get("completions", spec.get("parallelism", 1)),
        container=names.index(container) if container else 0,
        trains=container or names[0],
        namespace=value.get("metadata", {}).get("namespace", ""),
    )
    try:
        build_jobset(template, WantedJobSet("s-x-00000000-1", "x", 1, "x", ("x",), {}, ("x",)))
    except (AttributeError, TypeError, KeyError) as error:
        raise TemplateError(
            f"{source}: is not shaped as a {KIND}: {error}; compare it with deploy/kubernetes/jobset.yaml"
        ) from None
    return template


def build_jobset(template: Template, wanted: WantedJobSet) -> dict[str, Any]:
    """What is created. Raises TemplateError where a pod's name would be too long."""
    longest = f"{wanted.name}-{template.job}-0-{template.pods - 1}-xxxxx"
    if len(longest) > NAME_CHARS_MAX:
        raise TemplateError(
            f"{_JOB}.name: a pod would be called {longest}, and {NAME_CHARS_MAX} characters are allowed; write a shorter name"
        )
    jobset: dict[str, Any] = loads(dumps(template.value))
    labels = {RUN: wanted.run, ATTEMPT: str(wanted.attempt), LAUNCH: wanted.launch}
    metadata = jobset.setdefault("metadata", {})
    metadata.pop("generateName", None)
    metadata["name"] = wanted.name
    metadata["labels"] = metadata.get("labels", {}) | labels
    spec = jobset["spec"]
    spec["failurePolicy"] = {"maxRestarts": 0}
    job = spec["replicatedJobs"][0]["template"]["spec"]
    job |= {"backoffLimit": 0, "completionMode": "Indexed", "completions": template.pods, "parallelism": template.pods}
    pod = job["template"]
    pod["metadata"] = pod.get("metadata", {}) | {"labels": pod.get("metadata", {}).get("labels", {}) | labels}
    pod["spec"]["restartPolicy"] = "Never"
    if wanted.exclude:
        _exclude(pod["spec"], wanted.exclude)
    containers = pod["spec"]["containers"]
    trains = containers.pop(template.container)
    containers.insert(0, trains)  # answers.py reads the first
    trains["command"] = list(wanted.argv)  # Kubernetes puts variables in the place of $(NAME), as docs/launchers.md says
    subdomain = spec.get("network", {}).get("subdomain", wanted.name)
    _set_environment(trains, template, wanted, f"{wanted.name}-{template.job}-0-0.{subdomain}")
    return jobset


def _set_environment(container: dict[str, Any], template: Template, wanted: WantedJobSet, first: str) -> None:
    """A variable of Sentinel's own takes the place of the file's; one that the ranks meet by is the file's where it has one."""
    index = {"valueFrom": {"fieldRef": {"fieldPath": f"metadata.annotations['{INDEX}']"}}}
    own: dict[str, Any] = {name: {"value": value} for name, value in wanted.environment.items()}
    own[NODE_VARIABLE] = {"valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}
    port, pods = {"value": str(wanted.port)}, {"value": str(template.pods)}
    # A plain command is the rank of its pod. torchrun gives its workers others, and finds its own under PET_ (torch 2).
    meet = {"MASTER_ADDR": {"value": first}, "MASTER_PORT": port, "RANK": index, "WORLD_SIZE": pods}
    meet |= {"LOCAL_RANK": {"value": "0"}, "PET_NNODES": pods, "PET_NODE_RANK": index}
    meet |= {"PET_MASTER_ADDR": {"value": first}, "PET_MASTER_PORT": port}
    listed = [one for one in container.get("env", []) if one["name"] not in own]
    known = {one["name"] for one in listed}
    added = own | {name: value for name, value in meet.items() if name not in known}
    container["env"] = [*({"name": name} | value for name, value in added.items()), *listed]


def _exclude(pod: dict[str, Any], nodes: Sequence[str]) -> None:
    """To each of the file's terms, one of which must hold."""
    node = pod.setdefault("affinity", {}).setdefault("nodeAffinity", {})
    required = node.setdefault("requiredDuringSchedulingIgnoredDuringExecution", {"nodeSelectorTerms": []})
    terms = required["nodeSelectorTerms"] or [{}]
    fields = [{"key": "metadata.name", "operator": "NotIn", "values": [name]} for name in nodes]  # the API takes one value each
    required["nodeSelectorTerms"] = [term | {"matchFields": [*term.get("matchFields", []), *fields]} for term in terms]


def _problems(value: Any, container: str) -> Iterator[Problem]:
    """Every reason for which a file is no template, each found only when those before it were none."""
    if not isinstance(value, dict):
        yield Problem("document", "is not an object", f"write kind: {KIND}")
        return
    for key, word in (("apiVersion", API), ("kind", KIND)):
        if value.get(key) != word:
            yield Problem(key, f"is {value.get(key)!r}", f"write {key}: {word}")
    yield from _misfits(value, (("spec", dict), ("spec.replicatedJobs", list)))
    if not isinstance(value.get("metadata", {}), dict):
        yield Problem("metadata", "is not an object", "write metadata: {namespace: …}")
    jobs = value["spec"]["replicatedJobs"]
    if len(jobs) != 1:
        yield Problem("spec.replicatedJobs", f"has {len(jobs)} jobs", "write one, whose pods all train")
    template = f"{_JOB}.template"
    objects = (template, f"{template}.spec", f"{template}.spec.template", _POD)
    shapes = [(_JOB, dict), (f"{_JOB}.name", str), *((path, dict) for path in objects), (f"{_POD}.containers", list)]
    yield from _misfits(value, shapes)
    yield from _refused(value, jobs[0])
    yield from _misfit_containers(jobs[0]["template"]["spec"]["template"]["spec"]["containers"], container)


def _refused(value: Any, job: Any) -> Iterator[Problem]:
    """What Sentinel sets, or what would start a pod beside it."""
    spec = job["template"]["spec"]
    if job.get("replicas", 1) != 1:
        yield Problem(f"{_JOB}.replicas", f"is {job['replicas']!r}", "write 1, and the number of pods as parallelism")
    for key in ("parallelism", "completions"):
        count = spec.get(key, 1)
        if type(count) is not int or not 1 <= count <= PODS_MAX:
            yield Problem(f"{_JOB}.template.spec.{key}", f"is {count!r}", f"write a whole number from 1 to {PODS_MAX}")
    if spec.get("completions", spec.get("parallelism", 1)) != spec.get("parallelism", spec.get("completions", 1)):
        message = f"is {spec['completions']}, and parallelism is {spec['parallelism']}"
        yield Problem(f"{_JOB}.template.spec.completions", message, "write the same: all pods train at once")
    restarts = value["spec"].get("failurePolicy", {})
    if not isinstance(restarts, dict) or restarts.get("maxRestarts", 0) != 0 or set(restarts) - {"maxRestarts"}:
        yield Problem("spec.failurePolicy", "would start pods beside Sentinel", "remove it; Sentinel writes maxRestarts: 0")
    for key in ("ttlSecondsAfterFinished", "successPolicy", "managedBy"):
        if key in value["spec"]:
            yield Problem(f"spec.{key}", "keeps Sentinel from seeing how the pods ended", "remove it")
    for key in ("backoffLimitPerIndex", "podFailurePolicy", "ttlSecondsAfterFinished", "successPolicy", "podReplacementPolicy"):
        if key in spec:
            yield Problem(f"{_JOB}.template.spec.{key}", "would start, end or remove pods beside Sentinel", "remove it")
    if spec.get("backoffLimit", 0) != 0:
        remedy = "write 0: Sentinel starts the next attempt"
        yield Problem(f"{_JOB}.template.spec.backoffLimit", f"is {spec['backoffLimit']!r}", remedy)
    if spec["template"]["spec"].get("restartPolicy", "Never") != "Never":
        yield Problem(f"{_POD}.restartPolicy", "is another than Never", "write Never: Sentinel starts the next attempt")


def _misfit_containers(containers: list[Any], container: str) -> Iterator[Problem]:
    place = f"{_POD}.containers"
    names = [one["name"] for one in containers if isinstance(one, dict) and isinstance(one.get("name"), str)]
    if not containers or len(names) != len(containers):
        yield Problem(place, "has a container without a name", "write a list of containers, each with name and image")
        return
    if container and container not in names:
        listed = ", ".join(names)
        yield Problem(place, f"has no container {container!r}", f"name one of {listed} with --launcher-option container")
        return
    if not container and len(names) > 1:
        yield Problem(place, f"has {len(names)} containers", f"say which trains: --launcher-option container={names[0]}")
        return
    at = names.index(container) if container else 0
    for key in ("command", "args"):
        if key in containers[at]:
            remedy = "remove it: the command is what stands after -- in sentinel run"
            yield Problem(f"{place}[{at}].{key}", "is what Sentinel sets", remedy)
    env = containers[at].get("env", [])
    if not isinstance(env, list) or not all(isinstance(one, dict) and isinstance(one.get("name"), str) for one in env):
        yield Problem(f"{place}[{at}].env", "is not a list of variables", "write - {name: …, value: …}")


def _misfits(value: Any, shapes: Sequence[tuple[str, type]]) -> Iterator[Problem]:
    """The first path at which something else stands than it should."""
    from sentinel.policy.problems import location_of

    words: dict[type, str] = {dict: "an object", list: "a list", str: "text"}
    for path, shape in shapes:
        here = value
        for part in location_of(path):
            here = _below(here, part)
        if not isinstance(here, shape):
            yield Problem(path, "is missing" if here is None else f"is not {words[shape]}", f"write {words[shape]} there")
            return


def _below(value: Any, part: str | int) -> Any:
    if isinstance(part, str):
        return value.get(part) if isinstance(value, dict) else None
    return value[part] if isinstance(value, list) and part < len(value) else None
