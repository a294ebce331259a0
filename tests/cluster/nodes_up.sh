#!/bin/bash
# Slurm on one machine whose nodes are isolated: each slurmd in its own pid, uts and mount namespace (its own /proc, host name and boot
# id), so that what one node cannot see of another is really not seen. Needs root, slurm-wlm and munge. The network is shared
# (127.0.0.1), and so is the filesystem.
#   R=SCRATCH NODES=3 BASE=18000 nodes_up.sh ; then export SLURM_CONF=SCRATCH/slurm.conf
set -eu
PATH=$PATH:/usr/sbin:/sbin
R=$(readlink -f "${R:?a scratch folder}") N=${NODES:-3} B=${BASE:-18000} H=$(hostname -s) U=$(id -un)
here=$(dirname "$(readlink -f "$0")")
mkdir -p "$R"/{state,spool,log,munge,boot}
chmod 755 "$R" "$R/munge"
[ -f "$R/munge/munge.key" ] || (umask 077; head -c 1024 /dev/urandom >"$R/munge/munge.key")
munged --force --socket="$R/munge/sock" --key-file="$R/munge/munge.key" --log-file="$R/munge/munged.log" \
    --pid-file="$R/munge/munged.pid" --seed-file="$R/munge/munged.seed"
cat >"$R/slurm.conf" <<CONF
ClusterName=iso
SlurmctldHost=$H(127.0.0.1)
SlurmctldPort=$((B + 817))
SlurmdPort=$((B + 818))
AuthType=auth/munge
AuthInfo=socket=$R/munge/sock,cred_expire=5
CryptoType=crypto/munge
SlurmUser=$U
SlurmdUser=$U
StateSaveLocation=$R/state
SlurmdSpoolDir=$R/spool/%n
SlurmctldPidFile=$R/slurmctld.pid
SlurmdPidFile=$R/slurmd.%n.pid
SlurmctldLogFile=$R/log/slurmctld.log
SlurmdLogFile=$R/log/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=sched_interval=2,bf_interval=2,requeue_delay=5
MpiDefault=none
ReturnToService=2
SlurmctldTimeout=60
SlurmdTimeout=10
KillWait=5
MinJobAge=3600
MessageTimeout=10
JobRequeue=1
SlurmdParameters=config_overrides
CONF
for i in $(seq "$N"); do
    echo "NodeName=n$i NodeHostname=n$i NodeAddr=127.0.0.1 Port=$((B + i)) CPUs=2 RealMemory=2000 State=UNKNOWN" >>"$R/slurm.conf"
done
cat >>"$R/slurm.conf" <<CONF
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
PartitionName=main Nodes=n[1-$N] Default=YES MaxTime=INFINITE State=UP PriorityTier=1 GraceTime=10
PartitionName=urgent Nodes=n[1-$N] MaxTime=INFINITE State=UP PriorityTier=9
CONF
export SLURM_CONF=$R/slurm.conf R
for i in $(seq "$N"); do
    grep -q " n$i # sentinel-cluster\$" /etc/hosts || echo "127.0.0.1 n$i # sentinel-cluster" >>/etc/hosts
done
slurmctld -c -f "$R/slurm.conf"
for i in $(seq "$N"); do "$here/node_on.sh" "n$i"; done
for k in $(seq 200); do
    [ "$(timeout 5 sinfo --noheader --Node --partition main --states idle --format %N 2>/dev/null | wc -l)" = "$N" ] && exit 0
    sleep 0.1
done
echo "not all $N nodes came up; see $R/log" >&2
exit 1
