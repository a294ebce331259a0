#!/bin/sh
# In front of sentinel, in its pod: sh supervise.sh sentinel run …
#
# A pod that is drained, or a new version, is asked to end by SIGTERM. To sentinel that would mean: stop the training. So it is killed
# instead. The training goes on in pods of its own, and the next sentinel adopts it when the lease has run out. Who wants an end asks for
# one: kubectl exec deploy/sentinel -- sentinel stop /runs/big
#
# A Deployment starts again whatever ends. A run that has finished, has failed or was stopped is over: this waits until a person
# has looked (kubectl rollout restart deploy/sentinel goes on with it).
trap 'if [ -n "$!" ]; then kill -KILL "$!"; fi; exit 0' TERM INT

"$@" &
wait "$!"
code=$?
echo "sentinel left with $code"
case $code in
    0 | 1 | 130)
        trap 'exit 0' TERM INT
        while :; do
            sleep 3600 &
            wait $!
        done
        ;;
esac
exit "$code"
