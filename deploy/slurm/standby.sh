#!/bin/bash
# standby.sh COMMAND...: runs on a second node of the job (steps.sbatch starts it there), and takes the place of the batch script when that
# dies with its node. With --no-kill such a job lives on, its allocation held and nobody in it (Slurm 22.05).
#
# Only the controller's word counts: the batch script's node is no longer among the job's. A controller that does not answer says
# nothing. Sentinel itself waits until the lease of the one before has run out, and looks for the step that still trains.
batch_host=${BATCH_HOST:?the node of the batch script} nodes=''
lives() { # or nobody knows
    nodes=$(squeue --noheader --jobs "$SLURM_JOB_ID" --Format nodelist:4096) || return 0
    nodes=${nodes//[[:space:]]/}
    [ -n "$nodes" ] || return 0
    local hosts
    hosts=$(scontrol show hostnames "$nodes") || return 0
    grep -qx "$batch_host" <<<"$hosts"
}
while lives; do sleep "${STANDBY_EVERY:-10}"; done

echo "standby on $SLURMD_NODENAME: the job has lost $batch_host, and its batch script with it"
"$@"
code=$?
echo "sentinel left with $code"
if [ "$code" -eq 75 ]; then scontrol requeue "$SLURM_JOB_ID"; else scancel "$SLURM_JOB_ID"; fi
exit "$code"
