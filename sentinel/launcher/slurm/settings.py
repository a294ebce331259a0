"""The options of the launcher `slurm`, and the command of a step."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from sentinel.errors import UsageError
from sentinel.launcher.checks import check_command, check_durations
from sentinel.launcher.slurm.attempt import LaunchedStep, began_path, tasks_folder
from sentinel.launcher.slurm.nodes import Wanted
from sentinel.policy.quantities import parse_positive_duration
from sentinel.run_files.attempt_files import AttemptFiles

# Options of srun that say which step it is, and where its tasks run: those are the launcher's. One of another name, or on other
# nodes, would not be found again.
OWN_OPTIONS = (
    "--job-name", "--jobid", "--nodes", "--nodelist", "--nodefile", "--exclude", "--ntasks", "--ntasks-per-node",
    "--ntasks-per-gpu", "--het-group", "--clusters", "--no-allocate", "--test-only", "--multi-prog", "--pty",
)  # fmt: skip
OWN_LETTERS = "JNwFxnMZ"

# In front of each task, on its node: who it is, where the ranks meet, and how it ended. It does not exec: only a shell that
# stays can say how the training command ended when srun's word is that of the whole step.
FRONT = (
    "export RANK=$SLURM_PROCID WORLD_SIZE=$SLURM_STEP_NUM_TASKS LOCAL_RANK=$SLURM_LOCALID; "
    "trap : TERM INT HUP QUIT USR1 USR2; "
    'folder=$1; export LOCAL_WORLD_SIZE=$2 MASTER_ADDR=$3 MASTER_PORT=$4; shift 4; "$@"; code=$?; umask 077; '
    'place=$folder/$(printf "rank-%05d.json" "$RANK"); '
    'printf \'{"code": %d}\\n\' "$code" >"$place.new" && mv "$place.new" "$place"; '
    'exit "$code"'
)
# In front of srun: that it began. It hands on the lock, which srun holds for as long as it lives.
CLIENT = ': >"$1"; shift; exec "$@"'


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


def step_command(files: AttemptFiles, launched: LaunchedStep, settings: SlurmSettings, argv: Sequence[str]) -> list[str]:
    """What starts the step."""
    logs = str(files.logs).replace("%", "%%")
    words = ["sh", "-c", CLIENT, "sentinel", str(began_path(files)), "srun", "--jobid", launched.job, "--overlap"]
    words += ["--job-name", launched.name, "--nodes", str(len(launched.nodes)), "--nodelist", ",".join(launched.nodes)]
    words += ["--ntasks", str(launched.tasks), "--ntasks-per-node", settings.ranks_per_node]
    # When a rank is lost, the launcher ends the others. srun would ask them by SIGTERM, which to a trainer means: save and leave;
    # whoever waits for the lost rank then lives for KillWait, and until then no SIGKILL reaches it (Slurm 22.05).
    words += ["--kill-on-bad-exit=0", "--wait=0", "--export=ALL"]  # all: what a job submitted with --export=NONE would leave out
    words += ["--output", f"{logs}/rank-%5t.out", "--error", f"{logs}/rank-%5t.err", *shlex.split(settings.srun)]
    front = [str(tasks_folder(files)), settings.ranks_per_node, launched.nodes[0], str(launched.port)]
    return [*words, "sh", "-c", FRONT, "sentinel", *front, *argv]


def check_allocation(command: tuple[str, ...], cwd: str, settings: SlurmSettings) -> None:
    """Raises UsageError."""
    if not os.environ.get("SLURM_JOB_ID", "").isdecimal():
        raise UsageError(
            "--launcher slurm: this is no Slurm allocation (SLURM_JOB_ID is not set); start it in a batch script (sbatch "
            "deploy/slurm/steps.sbatch), or from a login node with --launcher command (docs/launchers.md)"
        )
    held = os.environ.get("SLURM_JOB_NUM_NODES", "")
    asked = int(settings.least or settings.nodes or 1)
    if held.isdecimal() and asked > int(held):
        raise UsageError(
            f"--launcher-option {'least' if settings.least else 'nodes'}={asked}: this job has {held} nodes; ask for more with "
            f"#SBATCH --nodes, or for fewer here"
        )
    check_command(command, cwd)
