#!/bin/bash
# node_on.sh nK: power a node on (again), with a new boot id. slurmd is the only child of pid 1 of the namespace: when the process
# that made the namespace is killed, everything on the node dies, as at a power cut.
R=${R:?the folder that nodes_up.sh was given} n=$1
cat /proc/sys/kernel/random/uuid >"$R/boot/$n"
setsid unshare --pid --uts --mount --fork --kill-child --mount-proc bash -c "
    hostname $n
    mount --bind $R/boot/$n /proc/sys/kernel/random/boot_id
    PATH=\$PATH:/usr/sbin:/sbin exec slurmd -D -N $n -c -f $R/slurm.conf" >>"$R/log/node.$n.out" 2>&1 </dev/null &
echo $! >"$R/node.$n.pid"
