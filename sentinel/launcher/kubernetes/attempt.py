"""What an attempt leaves in its folder on Kubernetes, beside what every attempt does.

kubernetes.json  which JobSet it is: written before the JobSet is asked for, and again when the API first listed it
jobset.json      what was asked for
pods.json        of each pod, on which node it was and how it ended, by the API: it outlives the pods
tasks/           of each pod, the status with which the training command ended, by its kubelet
seen.json        the launcher's last view, for those who only look
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from sentinel.client.atomic_file import write_atomically
from sentinel.client.closed_files import closed
from sentinel.client.run_layout import RUN_FILE_NAME, rank_file
from sentinel.client.strict_json import dumps
from sentinel.launcher.exit_report import ORDERLY_EXITS, read_object
from sentinel.launcher.job_names import mark_of
from sentinel.launcher.kubernetes.pods import Pod
from sentinel.launcher.slurm.attempt import LaunchedStep, build_end, tasks_folder
from sentinel.model.attempts import ExitReport
from sentinel.run_files.attempt_files import AttemptFiles

RUN_CHARS = 20  # of the run's name, in that of a pod
PODS_NAMED = 4


@dataclass(frozen=True, slots=True)
class LaunchedJobSet:
    """kubernetes.json. `launch`: a word that no other launch has. `pods`: how many train. `container`: in each. `port`: at which
    they meet. `is_listed`: the API has listed it; `uid`: then, which one it is."""

    namespace: str
    name: str
    run: str
    launch: str
    pods: int = 0
    container: str = ""
    port: int = 0
    is_listed: bool = False
    uid: str = ""


def run_label(run_dir: Path) -> str:
    """The run, as no other in whatever namespace is called: two volumes may be mounted at one path. By a key that is in run.json
    from its beginning on. Raises OSError."""
    key = (read_object(run_dir / RUN_FILE_NAME) or {}).get("digest_key")
    secret = key if isinstance(key, str) and key else str(run_dir)
    return f"{_plain(run_dir.name)}-{mark_of(f'kubernetes {secret}')}"


def jobset_name(run: str, attempt: int) -> str:
    return f"s-{run}-{attempt}"


def write_launched_jobset(files: AttemptFiles, launched: LaunchedJobSet) -> None:
    """Raises OSError."""
    write_atomically(_record(files), dumps({"v": 1} | asdict(launched)).encode() + b"\n")


def read_launched_jobset(files: AttemptFiles) -> LaunchedJobSet | None:
    """None where none was written. Raises OSError, and ValueError naming the file where it makes no sense."""
    value = read_object(_record(files))
    if value is None:
        if _record(files).exists():
            raise ValueError(f"{_record(files)}: is not a JSON object")
        return None
    texts = {key: value.get(key) for key in ("namespace", "name", "run", "launch")}
    if not all(isinstance(text, str) and text for text in texts.values()):
        raise ValueError(f"{_record(files)}: names no JobSet")
    return LaunchedJobSet(
        namespace=str(texts["namespace"]),
        name=str(texts["name"]),
        run=str(texts["run"]),
        launch=str(texts["launch"]),
        pods=pods if type(pods := value.get("pods")) is int else 0,
        container=str(value.get("container") or ""),
        port=port if type(port := value.get("port")) is int else 0,
        is_listed=value.get("is_listed") is True,
        uid=str(value.get("uid") or ""),
    )


def mark_jobset_listed(files: AttemptFiles, launched: LaunchedJobSet, uid: str) -> LaunchedJobSet:
    """Raises OSError."""
    if not launched.is_listed or (uid and uid != launched.uid):
        launched = replace(launched, is_listed=True, uid=uid or launched.uid)
        write_launched_jobset(files, launched)
    return launched


def keep_jobset(files: AttemptFiles, jobset: Mapping[str, Any]) -> None:
    """For people. Raises OSError."""
    write_atomically(files.folder / "jobset.json", dumps(jobset).encode() + b"\n")


def keep_pods(files: AttemptFiles, pods: Iterable[Pod]) -> None:
    """What the API tells of them now, over what it told before. A pod that was asked to end, and did not leave as it should, died
    of that: its status is no failure, and not kept. Raises OSError."""
    known = read_pods_kept(files)
    found = dict(known)
    for pod in pods:
        before = found.get(pod.name, {})
        words = {"index": pod.index, "node": pod.node, "lost": pod.lost, "evicted": pod.evicted}
        kept = {key: value for key, value in words.items() if value not in ("", None)}
        is_own = pod.end is not None and (not pod.was_asked or pod.end.code in ORDERLY_EXITS)
        if pod.end is not None and is_own and "code" not in before:
            kept |= {"code": pod.end.code, "reason": pod.end.reason, "message": pod.end.message}
            _keep_end(files, pod)
        found[pod.name] = {key: value for key, value in before.items() if key != "lost"} | kept
    if found != known:
        write_atomically(_pods(files), dumps({"v": 1, "pods": found}).encode() + b"\n")


def read_pods_kept(files: AttemptFiles) -> dict[str, dict[str, Any]]:
    """By name. Raises OSError."""
    kept = (read_object(_pods(files)) or {}).get("pods")
    return {name: one for name, one in kept.items() if isinstance(one, dict)} if isinstance(kept, dict) else {}


def build_pods_end(files: AttemptFiles, launched: LaunchedJobSet, reason: str, *, was_killed: bool = False) -> ExitReport:
    """From the ranks' own records and what the API told of the pods. Raises OSError."""
    kept = read_pods_kept(files)
    lost = tuple(sorted({str(one["node"]) for one in kept.values() if one.get("lost") and one.get("node")}))
    as_step = LaunchedStep(job=launched.namespace, name=launched.name, tasks=launched.pods)
    words = "; ".join([reason, *_remarks(kept)])
    return build_end(files, as_step, words, lost=lost, was_killed=was_killed)


def write_pod_log(files: AttemptFiles, pod: Pod, text: str) -> None:
    """As the node of a Slurm task does. Raises OSError."""
    name = f"rank-{pod.index:05d}.err" if pod.index is not None else "launcher.err"
    with open(files.logs / name, "a", encoding="utf-8", errors="replace", opener=closed) as file:
        file.write(text)


def _remarks(kept: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """What stands out, in words."""
    words = []
    for name, one in kept.items():
        what = one.get("lost") or one.get("evicted") or (one.get("reason") if one.get("reason") not in _PLAIN else "")
        if what:
            words.append(f"pod {name} on {one.get('node', 'no node')}: {what}")
    more = [f"{len(words) - PODS_NAMED} more pods"] if len(words) > PODS_NAMED else []
    return words[:PODS_NAMED] + more


_PLAIN = (None, "", "Completed", "Error")  # of containers that ended by themselves


def _keep_end(files: AttemptFiles, pod: Pod) -> None:
    """For the report, which goes by when the first one failed."""
    if pod.end is None or pod.index is None or not pod.end.has_run:
        return
    path = rank_file(tasks_folder(files), pod.index)
    write_atomically(path, dumps({"code": pod.end.code}).encode() + b"\n")
    if pod.end.at_s is not None:
        os.utime(path, (pod.end.at_s, pod.end.at_s))


def _plain(name: str) -> str:
    """As a name in DNS may be."""
    safe = "".join(c if c.isascii() and c.isalnum() else "-" for c in name.casefold())[:RUN_CHARS].strip("-")
    return safe or "run"


def _record(files: AttemptFiles) -> Path:
    return files.folder / "kubernetes.json"


def _pods(files: AttemptFiles) -> Path:
    return files.folder / "pods.json"
