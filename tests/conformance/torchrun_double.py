"""torchrun in small: a session of its own per worker, a look every 0.1 s, SIGTERM and 30 s for the rest, status 1, a table.

Every one of these habits was measured on torch 2.13, and tests that have ranks run against the real torchrun as well.
"""

import os
import subprocess
import sys
import time

CLOSE_S = 30.0
JOB_S_MAX = 150.0  # longer than any rank of the tests lives: then the job is given up as if a rank had failed


def main() -> int:
    world_size, program = int(sys.argv[1]), sys.argv[2:]
    workers = []
    for rank in range(world_size):
        environment = os.environ | {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(world_size)}
        workers.append(subprocess.Popen(program, env=environment, start_new_session=True))
    give_up_s = time.monotonic() + JOB_S_MAX
    while any(worker.poll() is None for worker in workers) and time.monotonic() < give_up_s:
        if any(worker.poll() not in (None, 0) for worker in workers):
            break
        time.sleep(0.1)
    failed = [rank for rank, worker in enumerate(workers) if worker.poll() not in (None, 0)]
    first = failed or [rank for rank, worker in enumerate(workers) if worker.poll() is None]
    for worker in workers:
        if worker.poll() is None:
            worker.terminate()
    deadline = time.monotonic() + CLOSE_S
    for worker in workers:
        try:
            worker.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            worker.kill()
            worker.wait()
    if not first:
        return 0
    print_table(workers, first[0])
    return 1


def print_table(workers, root):
    failed = [rank for rank, worker in enumerate(workers) if worker.returncode != 0 and rank != root]
    rest = "\n".join(entry(workers, rank) for rank in failed) or "  <NO_OTHER_FAILURES>"
    lines = ["=" * 60, "rank_double.py FAILED", "-" * 60, "Failures:", rest, "-" * 60]
    lines += ["Root Cause (first observed failure):", entry(workers, root), "=" * 60]
    print("\n".join(lines), file=sys.stderr, flush=True)


def entry(workers, rank):
    code, pid = workers[rank].returncode, workers[rank].pid
    said = f"Signal {-code} (SIG) received by PID {pid}" if code < 0 else "To enable traceback see: ..."
    return (
        f"[{rank}]:\n  time      : 2026-11-20_15:54:00\n  host      : localhost\n  rank      : {rank} (local_rank: {rank})\n"
        f"  exitcode  : {code} (pid: {pid}) \n  error_file: <N/A>\n  traceback : {said}"
    )


sys.exit(main())
