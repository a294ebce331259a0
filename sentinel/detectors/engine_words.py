"""What Slurm's commands say when they could not start anything: the scheduler's trouble, and none of the run's.

`srun: error: Unable to create step for job 71: Requested nodes are busy`: the words before the last colon say that nothing was
started, those behind it why. Both are Slurm's own: src/srun, src/sbatch, src/api/step_launch.c and the table of
src/common/slurm_errno.c of versions 17.11 to 24.05, which agree in them; the binaries of Debian's 22.05.8 hold each but that of
the prolog; and public logs show them. A reason counts only where it can pass by itself. `Invalid account or account/partition
combination specified` does not, and is a crash like any other. What srun only remarks while it tries on ("step creation
temporarily disabled, retrying (Requested nodes are busy)") is no error, and does not count either.

What it does not see: a scheduler other than Slurm, and trouble that nobody printed.
"""

from __future__ import annotations

from collections.abc import Sequence

from sentinel.client.late_regex import late_regex

LINE_CHARS = 400
OF_THE_ENGINE = late_regex(r"(?:\[[\d:T.\-]+\] )?(?:srun|sbatch|salloc|slurmstepd(?:-[\w.\-]+)?): ")
# Before the reason: nothing of this launch was started, or what was has been ended by srun itself.
NOT_STARTED = (
    r"(?:srun|sbatch|salloc): error: (?:Unable to confirm allocation for job \S+|Unable to create (?:job )?step(?: for job \S+)?"
    r"|Unable to allocate resources|(?:SBATCH: )?Batch job submission failed|Job submit/allocate failed"
    r"|Task launch for \S+ ?failed on node \S+|Application launch failed): "
)
# Reasons that pass by themselves: the controller or a node's daemon does not answer, or answers that it is not the time.
PASSES = (
    r"(?:Unable to contact slurm controller \(\w+ failure\)|Communication (?:connection|shutdown) failure"
    r"|Message (?:send|receive) failure|Socket timed out on send/recv operation|Zero Bytes were transmitted or received"
    r"|Unexpected message received|Protocol authentication error|Slurm backup controller in standby mode"
    r"|Connection (?:refused|timed out|reset by peer)|Transport endpoint is not connected|No route to host"
    r"|Resource temporarily unavailable|Can't find an address, check slurm\.conf|Requested nodes are busy"
    r"|Required ports are in use|Switch resources currently not available|Requested operation is presently disabled"
    r"|SlurmctldProlog is still running|Unable to create job record, try again|I/O error writing script/environment to file"
    r"|Required node not available|Requested partition configuration not available now"
    r"|Job can not be altered now, try again later|Job/step already completing or completed"
    r"|Job credential (?:expired|revoked|replayed)|Error generating job credential)"
)
REFUSED = NOT_STARTED + PASSES
_REFUSED = late_regex(REFUSED)
# Words after which an older refusal counts no more: a later launch of the same command was refused for good, or its tasks ran.
# Tasks that srun itself has killed say only that, and "Application launch failed" repeats what stands before it.
_OVERTAKES = late_regex(
    rf"(?:{NOT_STARTED})(?<!Application launch failed: )(?!{PASSES})|srun: error: \S+: tasks? [\d,\- ]+: (?!Killed|Terminated)"
)


def find_refusal(lines: Sequence[str], *, is_alone: bool = False) -> str:
    """The line at the end of what a launcher printed in which Slurm says that it could not start anything now; empty where there
    is none. Only Slurm's own lines may stand behind it: a program that printed something later was started after all. `is_alone`:
    nothing else may have been printed at all."""
    found = ""
    for line in reversed(lines):
        text = line[:LINE_CHARS].strip()
        if not text:
            continue
        if OF_THE_ENGINE.match(text) is None:
            return "" if is_alone else found
        if _OVERTAKES.search(text) is not None:
            return found
        found = text if _REFUSED.search(text) is not None else found
    return found
