#!/bin/bash
# login.sh SALLOC_OPTIONS... -- sentinel run ...: Sentinel on a login node (in tmux, or as a service there), training in a job that it holds.
#
#   bash login.sh --nodes=9 --gpus-per-node=8 --time=14-00:00:00 -- \
#       sentinel run --run-dir /shared/runs/big --launcher slurm --launcher-option spares=1 --launcher-option ranks_per_node=8 -- python train.py
#
# No node of the job is needed by the supervisor, so none of them can take it along. When Sentinel leaves with 75 (its job is about to
# end, or has ended), the next job is asked for, and the run goes on there: a chain of jobs, for as long as it takes. SIGUSR1 to this
# script asks for that by hand, SIGTERM and Ctrl-C end the run, also while a job is waited for. A terminal that goes away ends nothing.
# The job is given back in every case; but one whose Sentinel was killed is kept, and Sentinel is started again in it.
options=()
while [ $# -gt 0 ] && [ "$1" != -- ]; do options+=("$1"); shift; done
if [ $# -lt 2 ]; then
    echo "usage: login.sh SALLOC_OPTIONS... -- sentinel run --launcher slurm ..." >&2
    exit 2
fi
shift

job='' sentinel='' holder='' waiting='' stops='' missed='' ends='' nodes='' held='' brief=0
pauses=(0 0 5 30 120 600) # seconds before the next job, by how many in a row came to nothing
of_job() { # what squeue says of it in one word; status 1 where it says nothing that counts
    local said id word
    said=$(timeout 60 squeue --noheader --states all --jobs "$job" --Format "jobid:32,$1" 2>/dev/null) || return 1
    while read -r id word; do if [ "$id" = "$job" ]; then echo "$word" && return 0; fi; done <<<"$said"
    return 1
}
is_over() { # by the controller's word alone; one that does not answer says nothing
    case $(of_job state:32) in
        CANCELLED | COMPLETED | COMPLETING | FAILED | TIMEOUT | NODE_FAIL | OUT_OF_MEMORY | PREEMPTED | BOOT_FAIL | DEADLINE) return 0 ;;
        *) return 1 ;;
    esac
}
until_ended() { # a child; its status. `wait` alone loses it where two signals come as it ends (bash 5.2), and then never returns
    while kill -0 "$1" 2>/dev/null; do sleep "${LOOK_EVERY:-0.5}"; done
    wait "$1"
}
until_passed() { # so many seconds, or until an end is asked for
    sleep "$1" &
    waiting=$!
    [ -z "$stops" ] || kill "$waiting" 2>/dev/null
    until_ended "$waiting"
    waiting=''
}
allocate() { # waits in the queue. salloc in the background: in the foreground no signal would be heard for as long as that takes
    local file said code
    file=$(mktemp) || return 1
    set -m # a process group of its own, here and below: Ctrl-C is passed on once, and is not ignored
    salloc --no-shell --no-kill "${options[@]}" >"$file" 2>&1 </dev/null &
    waiting=$!
    set +m
    [ -z "$stops" ] || kill "$waiting" 2>/dev/null
    until_ended "$waiting"
    code=$?
    waiting='' said=$(cat "$file")
    rm -f "$file"
    job=$(sed -n -E 's/.*(Granted|Pending) job allocation ([0-9]+).*/\2/p' <<<"$said" | tail -n 1)
    if [ "$code" -ne 0 ] || [ -n "$stops" ]; then # it may have got the job, and have died with it
        echo "$said" >&2
        give_back
        return 1
    fi
    [ -n "$job" ] || { echo "salloc has named no job: $said" >&2; return 1; }
    ends=$(of_job endtime:32) && [ -n "$ends" ] && ends=$(date --date="$ends" +%s 2>/dev/null) || ends=''
    nodes=$(of_job numnodes:32) # as granted: a node that dies leaves the job, and its place is the spare's to take
    held=$SECONDS
    echo "job $job is held$([ -n "$ends" ] && date --date="@$ends" '+, until %F %T')"
}
hold() { # a step that says nothing: of a job that lists no step at all Slurm proves nothing. When its node dies, it is begun on another
    while ! is_over; do
        srun --jobid "$job" --overlap --nodes=1 --ntasks=1 --job-name=hold sleep infinity >/dev/null 2>&1
        sleep "${HOLD_EVERY:-5}"
    done
    echo "job $job is over"
    while kill -USR1 $$ 2>/dev/null; do sleep "${HOLD_EVERY:-5}"; done # nothing of it trains any more: Sentinel leaves with 75
}
give_back() {
    local said try
    [ -z "$holder" ] || kill -- "-$holder" 2>/dev/null
    holder=''
    [ -n "$job" ] || return 0
    for try in 1 2 3 4 5 6 7 8 9 10 11 12; do # a controller that is started anew hears the next one
        said=$(timeout 60 scancel "$job" 2>&1) && break
        case $said in *"Invalid job id"* | *"already complet"*) break ;; esac
        if is_over; then break; fi
        [ "$try" -lt 12 ] || { echo "job $job is NOT given back: $said; do it by hand: scancel $job" >&2; break; }
        sleep "${HOLD_EVERY:-5}"
    done
    job=''
}
supervise() { # the status of sentinel
    set -m
    SLURM_JOB_ID=$job SLURM_JOB_NUM_NODES=$nodes SLURM_JOB_END_TIME=$ends "$@" </dev/null &
    sentinel=$!
    set +m
    [ -z "$missed" ] || kill -"$missed" "$sentinel" 2>/dev/null # it came before the line above
    until_ended "$sentinel"
    code=$?
    sentinel=''
    echo "sentinel left with $code"
}
pass_on() {
    [ "$1" = USR1 ] || stops=$1
    if [ -n "$sentinel" ]; then
        kill -"$1" "$sentinel" 2>/dev/null
    elif [ -n "$stops" ]; then
        missed=$stops
        [ -z "$waiting" ] || kill "$waiting" 2>/dev/null
    fi
}
trap 'pass_on USR1' USR1
trap 'pass_on TERM' TERM
trap 'pass_on INT' INT
trap '' HUP

while [ -z "$stops" ]; do
    if allocate; then
        set -m
        hold &
        holder=$!
        set +m
        supervise "$@"
        # Killed, by want of memory for one: what it watched trains on, and is adopted. 138: SIGUSR1 before its first line.
        for _ in 1 2 3 4 5; do
            if [ -n "$stops" ] || [ "$code" -le 128 ] || [ "$code" -eq 130 ] || [ "$code" -eq 138 ]; then break; fi
            until_passed "${HOLD_EVERY:-5}"
            [ -n "$stops" ] || supervise "$@"
        done
        give_back
        if [ "$code" -ne 75 ] && [ "$code" -ne 138 ]; then exit "$code"; fi
        if [ $((SECONDS - held)) -lt 60 ]; then brief=$((brief + 1)); else brief=0; fi
    elif [ -z "$held" ] && [ -z "$stops" ]; then
        exit 1
    else # there was a job before, so its options are right: the controller may be back in a while
        brief=$((brief > 1 ? brief + 1 : 2))
    fi
    brief=$((brief < 5 ? brief : 5))
    if [ "${pauses[brief]}" -gt 0 ] && [ -z "$stops" ]; then
        echo "the next job is asked for in ${pauses[brief]} s: $brief in a row came to nothing"
        until_passed "${pauses[brief]}"
    fi
done
exit 130
