"""A trainer's rank in small: beats, waits, leaves as told. Standard library only, so that it is up in 20 ms.

Its job is the JSON object in argv[1] (see `launcher_world.Job`). It leaves when attempts/N/leave appears.
"""

import json
import os
import signal
import subprocess
import sys
import time


def write(path: str, value: object) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(f"{path}.{os.getpid()}", "w") as file:
        json.dump(value, file)
    os.rename(f"{path}.{os.getpid()}", path)


def main() -> None:
    job = json.loads(sys.argv[1])
    rank = int(os.environ.get("RANK", "0"))
    folder = os.path.join(os.environ["SENTINEL_RUN_DIR"], "attempts", f"{int(os.environ['SENTINEL_ATTEMPT']):04d}")
    if job["ignores_sigterm"]:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGUSR1, lambda *_: write(os.path.join(folder, f"signalled-{rank}"), rank))
    if rank == 0:
        with open(os.path.join(folder, "starts"), "a") as file:
            file.write("started\n")
    for _ in range(job["helpers"]):  # in a session of its own, its mark cleared: only descent finds it
        subprocess.Popen(["sleep", "600"], start_new_session=True, env={"PATH": os.environ["PATH"]})
    beat = os.path.join(folder, "heartbeats", f"rank-{rank:05d}.json")
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        if job["beats"]:
            write(beat, {"step": 1, "phase": "forward", "time_s": time.time(), "pid": os.getpid(), "host": os.uname().nodename})
        if os.path.exists(os.path.join(folder, "leave")):
            break
        time.sleep(0.05)
    code = job["leave_with"].get(str(rank), job["leave_with"].get("all", 0))
    if job["records"]:
        record = {"rank": rank, "code": code, "error": None if code in (0, 6) else f"left with {code}", "time_s": time.time()}
        write(os.path.join(folder, "exits", f"rank-{rank:05d}.json"), record)
    os._exit(code)


main()
