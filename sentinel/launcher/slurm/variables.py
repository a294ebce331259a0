"""Which variables Slurm's commands are given. Most options of srun have one, and a batch script hands on what sbatch was told."""

from __future__ import annotations

from collections.abc import Mapping

# By which a person has questions hide lines, or ask back.
PERSONAL = ("SQUEUE_", "SCANCEL_")
# Of a step in which the supervisor runs (a standby does): how its own task was placed. srun takes it for how the ranks shall be:
# all of them bound to the one core of the standby.
PLACING = ("SLURM_CPU_BIND", "SLURM_MEM_BIND", "SLURM_DISTRIBUTION")
# srun refuses them beside the number of ranks on each node, which the launcher names.
CONTRADICTING = ("SLURM_NTASKS_PER_GPU", "SLURM_NTASKS_PER_TRES")
# Which Slurm, and by which right.
SITE = ("SLURM_CONF", "SLURM_CONF_SERVER", "SLURM_CLUSTERS", "SLURM_WORKING_CLUSTER", "SLURM_JWT")


def for_question(environ: Mapping[str, str], withheld: frozenset[str]) -> dict[str, str]:
    """Where Slurm is, and nothing of the job's: no label in front of an answer (SLURM_LABELIO), none that goes to a file
    (SLURM_STDOUTMODE), no node that cannot start the question (SLURM_EXPORT_ENV=NONE, SRUN_CPUS_PER_TASK)."""
    return {
        name: value
        for name, value in environ.items()
        if name not in withheld and not name.startswith(PERSONAL) and (name in SITE or not name.startswith(("SLURM_", "SRUN_")))
    }


def for_client(environ: Mapping[str, str], withheld: frozenset[str]) -> dict[str, str]:
    """What the job was submitted with holds for its ranks, too."""
    left_out = (*PERSONAL, *CONTRADICTING, *(PLACING if "SLURM_STEP_ID" in environ else ()))
    return {name: value for name, value in environ.items() if name not in withheld and not name.startswith(left_out)}
