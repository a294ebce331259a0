#!/bin/bash
# login.sh SALLOC_OPTIONS... -- sentinel run ...: Sentinel on a login node (in tmux, or as a service there), training in a job that it holds.
#
#   bash login.sh --nodes=9 --gpus-per-node=8 --time=14-00:00:00 -- \
#       sentinel run --run-dir /shared/runs/big --launcher slurm --launcher-option spares=1 --launcher-option ranks_per_node=8 -- python train.py
#
# No node of the job is needed by the supervisor, so none of them can take it along. When Sentinel leaves with 75 (its job is about to
# end, or has ended), the next job is asked for, and the run goes on there: a chain of jobs, for as long as it takes. SIGUSR1 to this
# script asks for that by hand, SIGTERM and Ctrl-C end the run. The job is given back in every case.
options=()
while [ $# -gt 0 ] && [ "$1" != -- ]; do options+=("$1"); shift; done
if [ $# -lt 2 ]; then
    echo "usage: login.sh SALLOC_OPTIONS... -- sentinel run --launcher slurm ..." >&2
    exit 2
fi
shift

job='' sentinel='' holder='' signalled='' ends='' nodes=''
of_job() { # what squeue says of it in one word; status 1 where it says nothing that counts
    local said id word
    said=$(squeue --noheader --states all --jobs "$job" --Format "jobid:32,$1" 2>/dev/null) || return 1
    while read -r id word; do if [ "$id" = "$job" ]; then echo "$word" && return 0; fi; done <<<"$said"
    return 1
}
is_over() { # by the controller's word alone; one that does not answer says nothing
    case $(of_job state:32) in
        CANCELLED | COMPLETED | COMPLETING | FAILED | TIMEOUT | NODE_FAIL | OUT_OF_MEMORY | PREEMPTED | BOOT_FAIL | DEADLINE) return 0 ;;
        *) return 1 ;;
    esac
}
allocate() { # waits in the queue
    local said
    said=$(salloc --no-shell --no-kill "${options[@]}" 2>&1) || { echo "$said" >&2; return 1; }
    job=$(sed -n 's/.*Granted job allocation \([0-9]\{1,\}\).*/\1/p' <<<"$said" | tail -n 1)
    [ -n "$job" ] || { echo "salloc has named no job: $said" >&2; return 1; }
    ends=$(of_job endtime:32) && [ -n "$ends" ] && ends=$(date --date="$ends" +%s 2>/dev/null) || ends=''
    nodes=$(of_job numnodes:32) # as granted: a node that dies leaves the job, and its place is the spare's to take
    echo "job $job is held$([ -n "$ends" ] && date --date="@$ends" '+, until %F %T')"
}
hold() { # a step that says nothing: of a job that lists no step at all Slurm proves nothing. When its node dies, it is begun on another
    while ! is_over; do
        srun --jobid "$job" --overlap --nodes=1 --ntasks=1 --job-name=hold sleep infinity >/dev/null 2>&1
        sleep "${HOLD_EVERY:-5}"
    done
    echo "job $job is over"
    kill -USR1 "$1" 2>/dev/null # nothing of it trains any more: Sentinel leaves with 75
}
give_back() {
    [ -z "$holder" ] || { pkill -TERM -P "$holder"; kill "$holder"; } 2>/dev/null
    [ -z "$job" ] || scancel "$job"
    holder='' job=''
}
pass_on() {
    signalled=1
    if [ -n "$sentinel" ]; then kill -"$1" "$sentinel"; else give_back && exit 130; fi
}
trap 'pass_on USR1' USR1
trap 'pass_on TERM' TERM
trap 'pass_on INT' INT

code=75
while [ "$code" -eq 75 ] || [ "$code" -eq 138 ]; do # 138: SIGUSR1 before sentinel's first line; nothing was launched
    allocate || exit 1
    SLURM_JOB_ID=$job SLURM_JOB_NUM_NODES=$nodes SLURM_JOB_END_TIME=$ends "$@" &
    sentinel=$!
    hold "$sentinel" &
    holder=$!
    while :; do # a signal ends `wait` early, with a code above 128
        wait "$sentinel"
        code=$?
        if [ -z "$signalled" ] || [ "$code" -le 128 ]; then break; fi
        signalled=''
    done
    sentinel=''
    echo "sentinel left with $code"
    give_back
done
exit "$code"
