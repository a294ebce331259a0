"""Which job of a scheduler a process belongs to, by its environment alone."""

from __future__ import annotations

import pytest

from sentinel.run_files.cluster_job import ClusterJob, is_on_cluster, read_job


@pytest.mark.parametrize(
    ("environ", "job"),
    [
        ({}, None),
        ({"SLURM_JOB_ID": "7"}, ClusterJob("slurm//7", 0)),
        ({"SLURM_JOB_ID": "7", "SLURM_RESTART_COUNT": "3", "SLURM_CLUSTER_NAME": "big"}, ClusterJob("slurm/big/7", 3)),
        ({"SLURM_JOB_ID": "seven"}, None),
        ({"SLURM_JOB_ID": "7", "SLURM_RESTART_COUNT": "-1"}, None),
        ({"SLURM_RESTART_COUNT": "3"}, None),
    ],
)
def test_a_job_is_read_from_the_environment(environ: dict[str, str], job: ClusterJob | None) -> None:
    assert read_job(environ) == job


def test_only_a_later_start_of_the_same_job_succeeds() -> None:
    first, second, other = ClusterJob("a", 0), ClusterJob("a", 1), ClusterJob("b", 5)
    assert second.succeeds(first)
    assert not first.succeeds(second)
    assert not first.succeeds(first)
    assert not other.succeeds(first)


@pytest.mark.parametrize(
    ("environ", "on_cluster"), [({}, False), ({"SLURM_JOB_ID": "7"}, True), ({"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, True)]
)
def test_where_a_run_may_have_been_moved_here(environ: dict[str, str], on_cluster: bool) -> None:
    assert is_on_cluster(environ) is on_cluster
