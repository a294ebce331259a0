"""A machine is lost with its run directory: the bundled trainer goes on from the mirror, and its loss is the same to the bit."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
from pathlib import Path
from typing import Any

import psutil

from sentinel.mirrors.fetching import open_mirror_at
from sentinel.mirrors.stores import MirrorError
from sentinel.model.facts import RunRestored
from tests.integration.forked_ranks import supervised_ranks
from tests.integration.forked_sentinel import run_sentinel
from tests.integration.supervised import Supervised, wait_for

# It saves every few milliseconds: by that rhythm a save that waits for a busy disk would be late.
PATIENT = """\
apiVersion: sentinel/v1
kind: RemediationPolicy
metadata: {name: patient}
extends: demo
spec:
  detectors:
    stale_checkpoint: {at_least: 1m}
"""
BEYOND_STEPS = 15  # what was trained after the newest checkpoint that is mirrored, and is lost


def mirrored_step(mirror: Path) -> int:
    try:
        record = open_mirror_at(str(mirror))[1]
    except MirrorError:
        return 0
    return max((one.step for one in record.checkpoints), default=0) if record.streams is not None else 0


def pushing(run_dir: Path) -> list[psutil.Process]:
    words = ["mirror", "push", str(run_dir)]
    return [one for one in psutil.process_iter(["cmdline"]) if set(words) <= set(one.info["cmdline"] or ())]


def lose_machine(run: Supervised) -> None:
    """Everything that lives of the run dies at once, and its directory goes with it."""
    run.kill()
    keeper = json.loads((run.run_dir / "attempts" / "0001" / "keeper.json").read_text())["pid"]
    for pid in [keeper, *run.living(), *(helper.pid for helper in pushing(run.run_dir))]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    wait_for("end of every process", lambda: not (psutil.pid_exists(keeper) or run.living() or pushing(run.run_dir)))
    shutil.rmtree(run.run_dir)


def rows(run: Supervised, attempt: int, names: tuple[str, ...] = ("loss", "grad_norm", "samples")) -> dict[int, Any]:
    return {line["step"]: [line.get(name) for name in names] for line in run.lines(attempt) if line["kind"] == "step"}


def test_a_lost_run_goes_on_elsewhere_from_its_mirror_bit_for_bit(tmp_path: Path) -> None:
    mirror = tmp_path / "mirror"
    sizes = "schedule.steps=100000", "data.seq_len=32", "data.batch_size=4", "checkpoint.every=10"
    command = supervised_ranks(1, "--preset", "micro", "--set", *sizes)
    options = ["--mirror", f"{mirror},journal=1s,streams=1s,every=10 steps,keep=1"]
    policy = tmp_path / "patient.yaml"
    policy.write_text(PATIENT)
    run = Supervised(tmp_path / "run", command, policy=str(policy), options=options).start()
    wait_for("checkpoint on the mirror", lambda: mirrored_step(mirror))
    enough = mirrored_step(mirror) + BEYOND_STEPS
    wait_for("steps beyond it", lambda: run.last_step(1) >= enough)
    lost = rows(run, 1)
    lose_machine(run)

    back = Supervised(tmp_path / "elsewhere" / "run", [], options=[])
    back.run_dir.parent.mkdir()
    restored = run_sentinel("restore", "--from", str(mirror), str(back.run_dir))
    assert restored.returncode == 0, restored.stderr
    assert "the mirror ends at fact" in restored.stdout
    assert run_sentinel("journal", "verify", str(back.run_dir)).returncode == 0
    fact = next(entry.fact for entry in back.facts() if isinstance(entry.fact, RunRestored))
    back.start()
    wait_for("steps as far as the lost run had come", lambda: 2 in back.attempts() and back.last_step(2) >= max(lost))
    assert back.child is not None
    back.child.terminate()
    assert back.wait() == 130, back.log
    again = rows(back, 2)
    assert min(again) == fact.steps[0] + 1
    assert {step: row for step, row in again.items() if step in lost} == {step: lost[step] for step in lost if step >= min(again)}
    assert [incident["kind"] for incident in back.incidents()] == ["crash"]
    assert mirrored_step(mirror) >= fact.steps[0], "and it is mirrored to the same place again"
