"""Which job of a cluster's scheduler this process belongs to, by its environment.

Slurm numbers its jobs and counts how often it has put one back in the queue (sbatch(1): SLURM_JOB_ID, SLURM_RESTART_COUNT,
SLURM_CLUSTER_NAME). It starts a job anew only when the start before has ended, or when it has given the node up. So a job that
was started again need not wait for the lease of its own earlier start.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class ClusterJob:
    """`id`: of one job, on whichever node. `restarts`: how often the scheduler has started it anew, from 0."""

    id: str
    restarts: int

    def succeeds(self, other: ClusterJob) -> bool:
        """Whether this is a later start of the same job."""
        return self.id == other.id and self.restarts > other.restarts


def read_job(environ: Mapping[str, str]) -> ClusterJob | None:
    """None outside of Slurm, and where what it says is no number."""
    number, restarts = environ.get("SLURM_JOB_ID", ""), environ.get("SLURM_RESTART_COUNT", "0")
    if not (number.isdecimal() and restarts.isdecimal()):
        return None
    return ClusterJob(f"slurm/{environ.get('SLURM_CLUSTER_NAME', '')}/{number}", int(restarts))


def job_to_json(job: ClusterJob | None) -> dict[str, Any]:
    """The key `job` of a document, where there is one."""
    return {} if job is None else {"job": {"id": job.id, "restarts": job.restarts}}


def job_of_json(value: Mapping[str, Any]) -> ClusterJob | None:
    """Of such a document; None where it names none, or makes no sense."""
    job = value.get("job")
    if not isinstance(job, dict) or not isinstance(job.get("id"), str) or type(job.get("restarts")) is not int:
        return None
    return ClusterJob(job["id"], job["restarts"])


def has_started_anew(job: ClusterJob | None, environ: Mapping[str, str]) -> bool:
    """Whether this process is of a later start of that job: then nothing of the start before lives on a node that it may use."""
    own = read_job(environ)
    return job is not None and own is not None and own.succeeds(job)


def is_of_another_cluster(job: ClusterJob | None, environ: Mapping[str, str]) -> bool:
    """Whether the schedulers of that job and of this process are two: job numbers of one say nothing at the other."""
    own = read_job(environ)
    names = [one.id.split("/")[1] for one in (job, own) if one is not None and one.id.count("/") == 2]
    return len(names) == 2 and all(names) and names[0] != names[1]


def is_on_cluster(environ: Mapping[str, str]) -> bool:
    """Whether a scheduler may have moved this run here from another machine. Kubernetes tells every pod where its API is."""
    return bool(environ.get("SLURM_JOB_ID") or environ.get("KUBERNETES_SERVICE_HOST"))
