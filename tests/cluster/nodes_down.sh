#!/bin/bash
# Ends everything that nodes_up.sh and node_on.sh started.
R=${R:?the folder that nodes_up.sh was given}
export SLURM_CONF=$R/slurm.conf
timeout 5 scancel --user "$(id -un)" 2>/dev/null
for pid in "$R"/node.*.pid "$R/slurmctld.pid" "$R/munge/munged.pid"; do [ -f "$pid" ] && kill -9 "$(cat "$pid")" 2>/dev/null; done
kept=$(grep -v ' # sentinel-cluster$' /etc/hosts) && echo "$kept" >/etc/hosts # it cannot be replaced in a container
exit 0
