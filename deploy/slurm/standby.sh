#!/bin/bash
# standby.sh COMMAND...: runs on a second node of the job (steps.sbatch starts it there), and takes the place of the batch script when that
# dies with its node. With --no-kill such a job lives on, its allocation held and nobody in it (Slurm 22.05).
#
# Only the controller's word counts: the batch script's node is no longer among the job's. A controller that does not answer says
# nothing. Sentinel itself waits until the lease of the one before has run out, and looks for the step that still trains.
batch_host=${BATCH_HOST:?the node of the batch script} nodes=''
of_job() { # what squeue says of this job in one word; in an array it may list other tasks, too
    local said
    said=$(squeue --noheader --jobs "$SLURM_JOB_ID" --Format "jobid:32,$1") || return 1
    while read -r job word; do [ "$job" != "$SLURM_JOB_ID" ] || echo "$word"; done <<<"$said"
}
lives() { # or nobody knows
    nodes=$(of_job nodelist:65536) || return 0
    [ -n "$nodes" ] && [ "${#nodes}" -lt 65536 ] || return 0
    local hosts
    hosts=$(scontrol show hostnames "$nodes") || return 0
    grep -qx "$batch_host" <<<"$hosts"
}

while :; do
    while lives; do sleep "${STANDBY_EVERY:-10}"; done
    echo "standby on $SLURMD_NODENAME: the job has lost $batch_host, and its batch script with it"
    # The warning before the time limit goes to the batch script, which is no more: Sentinel goes by the time itself.
    # An empty time is midnight to `date`, and midnight is over.
    end=$(of_job endtime:32) && [ -n "$end" ] && end=$(date --date="$end" +%s 2>/dev/null) &&
        export SLURM_JOB_END_TIME="${SLURM_JOB_END_TIME:-$end}"
    "$@"
    code=$?
    echo "sentinel left with $code"
    # Refused: whoever held the run renews its lease, behind a network that has lost it. Its training is not ended for that.
    [ "$code" -eq 2 ] || break
    sleep "${STANDBY_EVERY:-10}"
done
if [ "$code" -eq 75 ]; then scontrol requeue "$SLURM_JOB_ID"; else scancel "$SLURM_JOB_ID"; fi
exit "$code"
