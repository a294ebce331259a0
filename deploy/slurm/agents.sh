#!/bin/bash
# agents.sh RUN_DIR COMMAND...: an agent on every node of the job (docs/agents.md) for as long as COMMAND lives, which takes the place of
# this script and so gets its signals. In steps.sbatch: command=(bash agents.sh "/shared/runs/$SLURM_JOB_NAME" sentinel run ...); the
# standby then starts agents as well.
#
# --no-kill: when a node dies the agents of the others go on. When all have ended, they are started again on the nodes that the job still
# has; one that finds another agent on its node leaves, and the others stay. AGENT_OPTIONS: --check "/usr/sbin/health", for example.
# AGENT_LOGS: the folder of what they print; by default where the job was submitted.
run_dir=$1
shift
keep_agents() {
    local nodes count client
    while kill -0 $$ 2>/dev/null; do
        nodes=$(squeue --noheader --jobs "$SLURM_JOB_ID" --format %N) && count=$(scontrol show hostnames "$nodes" | wc -l) || count=0
        if [ "$count" -gt 0 ]; then
            # shellcheck disable=SC2086
            srun --overlap --no-kill --nodes="$count" --ntasks="$count" --ntasks-per-node=1 --nodelist="$nodes" --kill-on-bad-exit=0 \
                --job-name=agent --output="${AGENT_LOGS:-.}/agent-%j.%t.out" --open-mode=append sentinel agent $AGENT_OPTIONS "$run_dir" &
            client=$!
            while kill -0 $$ 2>/dev/null && kill -0 "$client" 2>/dev/null; do sleep 5; done
            kill "$client" 2>/dev/null
            wait "$client"
        fi
        sleep "${AGENTS_EVERY:-30}"
    done
}
keep_agents &
exec "$@"
