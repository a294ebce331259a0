"""The options of the launcher `slurm`. Light: whoever asks which launchers there are imports it."""

from __future__ import annotations

import os
import shlex
from dataclasses import dataclass

from sentinel.errors import UsageError
from sentinel.launcher.checks import check_command, check_durations
from sentinel.policy.quantities import parse_positive_duration

# Options of srun that say which step it is, and where its tasks run: those are the launcher's. One of another name, or on other
# nodes, would not be found again.
OWN_OPTIONS = (
    "--job-name", "--jobid", "--nodes", "--nodelist", "--nodefile", "--exclude", "--ntasks", "--ntasks-per-node",
    "--ntasks-per-gpu", "--het-group", "--clusters", "--no-allocate", "--test-only", "--multi-prog", "--pty",
)  # fmt: skip
OWN_LETTERS = "JNwFxnMZ"


@dataclass(frozen=True, slots=True)
class Wanted:
    """How many nodes an attempt is to have. `nodes` None: all of the job's but `spares`. `least`: to how few it may shrink; None:
    not at all."""

    nodes: int | None = None
    spares: int = 0
    least: int | None = None


@dataclass(frozen=True, slots=True)
class SlurmSettings:
    """`nodes`: how many take part; empty: all of the allocation but `spares`. `least`: to how few the world may shrink; empty:
    not at all. `ranks_per_node`: tasks on each. `srun`: further words for it. `every`: how often squeue is asked; `timeout`: how
    long one question may take; `probe`: within which a node must answer before a launch.

    Raises:
        ValueError: one of them makes no sense.
    """

    nodes: str = ""
    spares: str = "0"
    least: str = ""
    ranks_per_node: str = "1"
    srun: str = ""
    every: str = "5s"
    timeout: str = "20s"
    probe: str = "8s"

    def __post_init__(self) -> None:
        for name, lowest in (("nodes", 1), ("spares", 0), ("least", 1), ("ranks_per_node", 1)):
            value = getattr(self, name)
            may_lack = name in ("nodes", "least")
            if not (may_lack and not value) and not (value.isascii() and value.isdigit() and int(value) >= lowest):
                raise ValueError(f"--launcher-option {name}={value}: write a whole number from {lowest} on")
        if self.nodes and self.least and int(self.least) > int(self.nodes):
            raise ValueError(f"--launcher-option least={self.least}: is more than nodes={self.nodes}; write at most that")
        check_durations({name: getattr(self, name) for name in ("every", "timeout", "probe")})
        try:
            words = shlex.split(self.srun)
        except ValueError as error:
            raise ValueError(f"--launcher-option srun={self.srun}: {error}; write it as for a shell") from None
        own = next((word for word in words if _is_own(word)), None)
        if own is not None:
            raise ValueError(
                f"--launcher-option srun={self.srun}: {own} is the launcher's own word; leave it out (nodes, spares and "
                f"ranks_per_node say how many take part)"
            )

    @property
    def wanted(self) -> Wanted:
        return Wanted(int(self.nodes) if self.nodes else None, int(self.spares), int(self.least) if self.least else None)

    @property
    def every_s(self) -> float:
        return parse_positive_duration(self.every)

    @property
    def timeout_s(self) -> float:
        return parse_positive_duration(self.timeout)

    @property
    def probe_s(self) -> float:
        return parse_positive_duration(self.probe)


def _is_own(word: str) -> bool:
    """Also one that is cut short, as getopt allows (`--job-n`). An ending that is ambiguous, srun refuses itself."""
    if not word.startswith("--"):
        return word[:1] == "-" and word[1:2] in tuple(OWN_LETTERS)
    name = word.partition("=")[0]
    return len(name) > len("--") and any(option.startswith(name) for option in OWN_OPTIONS)


def check_allocation(command: tuple[str, ...], cwd: str, settings: SlurmSettings) -> None:
    """Raises UsageError."""
    job = os.environ.get("SLURM_JOB_ID", "")
    if not job.isdecimal():
        why = f"SLURM_JOB_ID={job} is no number of a job" if job else "SLURM_JOB_ID is not set"
        raise UsageError(
            f"--launcher slurm: this is no Slurm allocation ({why}); start it in a batch script (sbatch "
            "deploy/slurm/steps.sbatch), or on a login node by deploy/slurm/login.sh, which holds a job (docs/launchers.md)"
        )
    held = os.environ.get("SLURM_JOB_NUM_NODES", "")
    asked = int(settings.least or settings.nodes or 1)
    if held.isdecimal() and asked > int(held):
        raise UsageError(
            f"--launcher-option {'least' if settings.least else 'nodes'}={asked}: this job has {held} nodes; ask for more with "
            f"#SBATCH --nodes, or for fewer here"
        )
    if held.isdecimal() and not settings.nodes and int(settings.spares) >= int(held):
        raise UsageError(
            f"--launcher-option spares={settings.spares}: this job has {held} nodes, and none would be left to train; ask for "
            f"more with #SBATCH --nodes, or keep fewer in reserve"
        )
    check_command(command, cwd)
