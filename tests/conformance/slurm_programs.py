"""srun, squeue, scancel and scontrol in small, of one job with one node: steps are folders, tasks are real processes.

    python slurm_programs.py NAME WORDS...

As Slurm does it: a step belongs to a daemon and not to its client, so that it outlives it, and is listed until every task of it
has ended. Standard library only, so that each call is up in 20 ms.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import time

ROOT = os.environ["DOUBLE_OF_SLURM"]
JOB, NODE = "71", "n1"
JOB_S_MAX = 150.0  # longer than any rank of the tests lives


def option(words: list[str], name: str, default: str = "") -> str:
    return words[words.index(name) + 1] if name in words else default


def srun(words: list[str]) -> int:
    place = words.index("sh")  # every command of the launcher is one
    options, command = words[:place], words[place:]
    count = int(option(options, "--ntasks", "1"))
    if "--output" not in options:  # a probe: its tasks write to its client
        return subprocess.run(command, env=os.environ | {"SLURMD_NODENAME": NODE}, check=False).returncode
    number = 0
    while True:
        step = os.path.join(ROOT, f"{JOB}.{number}")
        try:
            os.mkdir(step)
        except FileExistsError:
            number += 1
            continue
        break
    with open(os.path.join(step, "name.new"), "w") as file:
        file.write(option(options, "--job-name"))
    os.rename(os.path.join(step, "name.new"), os.path.join(step, "name"))
    patterns = [option(options, "--output"), option(options, "--error")]
    daemon = [sys.executable, "-I", "-S", __file__, "slurmstepd", step, str(count), *patterns, *command]
    subprocess.Popen(daemon, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    end = time.monotonic() + JOB_S_MAX
    while time.monotonic() < end:
        if not os.path.exists(step):
            break
        time.sleep(0.02)
    return 143


def slurmstepd(words: list[str]) -> int:
    step, count, out, err, *command = words
    tasks = []
    for number in range(int(count)):
        variables = {"SLURM_PROCID": str(number), "SLURM_STEP_NUM_TASKS": count, "SLURM_LOCALID": str(number)}
        paths = [re.sub("%5t", f"{number:05d}", pattern) for pattern in (out, err)]
        with open(paths[0], "ab") as output, open(paths[1], "ab") as errors:
            environ = os.environ | variables | {"SCHEDULED": os.path.basename(step)}
            tasks.append(subprocess.Popen(command, env=environ, stdout=output, stderr=errors, start_new_session=True))
    for task in tasks:
        task.wait()
    kill(os.path.basename(step))  # the container of the step holds nothing any more
    os.rename(step, f"{step}.over")
    shutil.rmtree(f"{step}.over")
    return 0


def processes(step: str) -> list[int]:
    found = []
    for name in os.listdir("/proc"):
        try:
            with open(f"/proc/{name}/environ", "rb") as file:
                if name.isdigit() and b"SCHEDULED=%s" % step.encode() in file.read().split(b"\0"):
                    found.append(int(name))
        except OSError:
            continue
    return found


def kill(step: str, number: int = signal.SIGKILL) -> None:
    for pid in processes(step):
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue


def squeue(words: list[str]) -> int:
    columns = [int(cell.rpartition(":")[2]) for cell in option(words, "--Format").split(",")]
    rows = [[JOB, "RUNNING", NODE]]
    if "--steps" in words:
        rows = [[JOB, f"{JOB}.batch", "batch", "RUNNING", NODE]]
        for name in sorted(os.listdir(ROOT)):
            try:
                with open(os.path.join(ROOT, name, "name")) as file:
                    rows.append([JOB, name, file.read(), "RUNNING", NODE])
            except OSError:
                continue
    for row in rows if option(words, "--jobs") == JOB else []:
        print("".join(f"{cell:{width}}" for cell, width in zip(row, columns, strict=False)))
    return 0


def scancel(words: list[str]) -> int:
    numbers = [int(word.partition("=")[2]) for word in words if word.startswith("--signal=")]
    kill(words[-1], *numbers)
    return 0


def scontrol(words: list[str]) -> int:
    if words[:2] == ["show", "hostnames"]:
        print("\n".join(words[2].split(",")))
        return 0
    if words[:2] == ["show", "node"]:
        print(f"NodeName={NODE} Arch=x State=MIXED Weight=1")
        return 0
    print("PID      JOBID    STEPID   LOCALID GLOBALID")
    if not os.path.exists(os.path.join(ROOT, words[1])):
        print(f"StepId={words[1]} does not exist on node {words[2]}.", file=sys.stderr)
        return 1
    for pid in processes(words[1]):
        print(f"{pid} {JOB} 0 0 0")
    return 0


CALLS = {call.__name__: call for call in (srun, slurmstepd, squeue, scancel, scontrol)}
sys.exit(CALLS[sys.argv[1]](sys.argv[2:]))
