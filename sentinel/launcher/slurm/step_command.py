"""The command of a step."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from sentinel.launcher.slurm.attempt import LaunchedStep, began_path, tasks_folder
from sentinel.launcher.slurm.settings import SlurmSettings
from sentinel.run_files.attempt_files import AttemptFiles

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
