"""`sentinel probe` with processes: an unchanged trainer is watched, sealed, started again from its checkpoint, and ended."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from sentinel.launcher.process_tree import read_environment, read_processes
from tests.integration.supervised import wait_for

ROOT = Path(__file__).resolve().parents[2]
TRAINERS = ROOT / "tests/trainers"
MEGATRON_LIKE = [sys.executable, str(TRAINERS / "megatron_like.py"), "--train-iters", "100000", "--lr", "1e-3"]
UNKNOWN = """import runpy, sys
sys.argv = ["megatron_like.py", "--save", "saved", "--train-iters", "100000"]
runpy.run_path("{trainer}", run_name="__main__")
"""

BY_ITSELF = """import os, sys, time
out, goes_on = sys.argv[2], sys.argv[3] == "newest"
os.makedirs(out, exist_ok=True)
saved = [int(name[5:]) for name in os.listdir(out) if name.startswith("save-")]
step = max(saved, default=0) if goes_on else 0
while True:
    step += 1
    print(f"step: {step} | loss: 2.5 | grad_norm: 0.5 | lr: 1e-3", flush=True)
    if step % 5 == 0:
        open(out + "/aside", "w").write(str(step))
        os.rename(out + "/aside", f"{out}/save-{step}")
    time.sleep(0.05)
"""
PROFILE = """apiVersion: sentinel/v1
kind: TrainerProfile
metadata: {name: mine}
spec:
  checkpoints: {root: [--out], pattern: "save-{step}", whole_at_once: true}
"""


def words_of(*words: str, command: list[str]) -> list[str]:
    return [sys.executable, "-m", "sentinel", "probe", *words, "--", *command]


def environment(cwd: Path) -> dict[str, str]:
    return os.environ | {"PYTHONPATH": str(ROOT), "TMPDIR": str(cwd)}


def probe(cwd: Path, *words: str, command: list[str]) -> subprocess.CompletedProcess[str]:
    start = words_of(*words, command=command)
    return subprocess.run(start, cwd=cwd, env=environment(cwd), capture_output=True, text=True, timeout=120)


def left_of(folder: Path) -> list[int]:
    mark = b"SENTINEL_RUN_DIR=" + os.fsencode(str(folder))
    living = [pid for pid, one in read_processes().items() if one.is_living]
    return [pid for pid in living if any(entry.startswith(mark) for entry in read_environment(pid))]


def test_an_unchanged_trainer_is_watched_sealed_and_ended(tmp_path: Path) -> None:
    done = probe(tmp_path, "--steps", "4", "--no-resume", "--json", command=[*MEGATRON_LIKE, "--save", "out"])
    assert done.returncode == 0, done.stderr + done.stdout
    report = json.loads(done.stdout)
    assert report["restored"]["checkpoints"][0]["sealed"]
    assert report["missing"] == []
    assert list(tmp_path.iterdir()) == []  # neither its own folder nor the trainer's is there
    assert left_of(tmp_path) == []


@pytest.mark.slow
def test_it_is_started_again_from_its_first_checkpoint(tmp_path: Path) -> None:
    done = probe(tmp_path, "--steps", "10", "--run-dir", "probe", "--json", command=[*MEGATRON_LIKE, "--save", "out"])
    assert done.returncode == 0, done.stderr + done.stdout
    report = json.loads(done.stdout)
    assert report["trainer"] == "megatron"
    assert report["watched"]["rows"] >= 10
    assert {"loss", "grad_norm", "lr"} <= set(report["watched"]["metrics"])
    sealed = [one for one in report["restored"]["checkpoints"] if one["sealed"]]
    assert sealed[0]["step"] == 5  # half of the steps, as asked for
    assert sealed[0]["how"] in ("copy", "reflink")
    assert report["restored"]["resumed"] == {"from_step": 5, "went_on_at": 5, "grade": "observed"}
    assert report["missing"] == []
    assert not (tmp_path / "out").exists()
    assert "--save out is replaced for the probe" in done.stderr
    assert left_of(tmp_path) == []


@pytest.mark.slow
@pytest.mark.parametrize(("begins", "grade"), [("newest", "observed"), ("anew", "contradicted")])
def test_whether_one_without_arguments_goes_on_by_itself_is_seen(tmp_path: Path, begins: str, grade: str) -> None:
    (tmp_path / "loop.py").write_text(BY_ITSELF)
    (tmp_path / "mine.yaml").write_text(PROFILE)
    command = [sys.executable, "loop.py", "--out", "out", begins]
    done = probe(tmp_path, "--trainer", "mine.yaml", "--steps", "10", "--json", command=command)
    report = json.loads(done.stdout)
    assert report["restored"]["resumed"]["grade"] == grade, done.stderr
    assert ("resume" in [one["lack"] for one in report["missing"]]) is (grade == "contradicted")


@pytest.mark.slow
def test_one_that_refuses_the_flag_for_saves_is_started_again_without_it(tmp_path: Path) -> None:
    """Before, it was a command that had ended with 2."""
    text = (TRAINERS / "megatron_like.py").read_text().replace('"--save-interval"', '"--save-every", dest="save_interval"')
    (tmp_path / "train.py").write_text(text)
    command = [sys.executable, "train.py", "--save", "out", "--lr", "1e-3", "--save-every", "5"]
    done = probe(tmp_path, "--trainer", "megatron", "--steps", "10", "--json", command=command)
    assert done.returncode == 0, done.stderr + done.stdout
    report = json.loads(done.stdout)
    assert "it refuses --save-interval: started again without" in done.stderr
    assert report["restored"]["resumed"]["grade"] == "observed"
    assert [one["lack"] for one in report["missing"]] == ["save_refused"]


@pytest.mark.slow
def test_a_trainer_that_no_flag_betrays_is_recognised_by_what_it_prints_and_leaves(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(UNKNOWN.format(trainer=TRAINERS / "megatron_like.py"))
    command = [sys.executable, "train.py"]
    refused = probe(tmp_path, command=command)
    assert refused.returncode == 2
    assert "where it writes is not known" in refused.stderr
    assert not (tmp_path / "saved").exists()
    done = probe(tmp_path, "--as-it-is", "--steps", "50", "--json", command=command)
    assert done.returncode == 1
    report = json.loads(done.stdout)
    assert report["trainer"] == "exit-only"
    assert report["watched"]["printed_formats"] == ["megatron"]
    assert report["watched"]["rows"] >= 50  # by its content, although nobody said what it is
    assert {one["trainer"] for one in report["restored"]["left_by_others"]} == {"megatron"}
    assert "name it: --trainer megatron" in {one["remedy"] for one in report["missing"]}


@pytest.mark.slow
def test_a_probe_that_is_told_to_end_leaves_nothing_running(tmp_path: Path) -> None:
    start = words_of("--steps", "90000", "--run-dir", "probe", command=[*MEGATRON_LIKE, "--save", "out"])
    own = environment(tmp_path)
    probing = subprocess.Popen(start, cwd=tmp_path, env=own, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    wait_for("the first rows", (tmp_path / "probe/attempts/0001/metrics.jsonl").exists)
    probing.send_signal(signal.SIGTERM)
    told, _ = probing.communicate(timeout=60)
    assert "it was ended by a person" in told
    assert left_of(tmp_path) == []


@pytest.mark.slow
def test_a_trainer_that_ends_at_once_is_told_with_its_last_words(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "import sys; print('no such option: --save'); sys.exit(2)", "--save", "out", "--lr", "1"]
    done = probe(tmp_path, "--time", "20s", command=command)
    assert done.returncode == 1
    assert "the command ended with 2" in done.stdout
    assert "no such option: --save" in done.stdout
    assert list(tmp_path.iterdir()) == []  # its folder is gone
