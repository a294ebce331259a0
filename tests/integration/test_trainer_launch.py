"""The trainer as a supervisor starts it: real processes, a real run directory. Other test_trainer_* files borrow `Attempt`."""

import contextlib
import hashlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

import trainer
from sentinel.model.capabilities import CAPABILITIES
from tests.integration.forked_ranks import Forked

ROOT = Path(trainer.__file__).parents[1]
DEADLINE_S = 90.0  # generous: the machine may be busy; nothing here waits that long when all is well
SIZES = ("--preset", "micro", "--set", "data.batch_size=4", "data.seq_len=32", "evaluation.batches=2", "checkpoint.every=4")


def await_that(condition, what):
    """Look again and again until it holds; fail with a sentence after the deadline."""
    give_up_s = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < give_up_s, f"not within {DEADLINE_S} s: {what}"
        time.sleep(0.005)


class Attempt:
    """One launch. `resume` is a step whose checkpoint to continue from. Ranks are forked (see forked_ranks), or with `torchrun`
    started as a supervisor starts them: one plainly, more under torchrun. `first` is Python that a forked rank runs first."""

    def __init__(self, run_dir, number, *arguments, ranks=1, resume=None, overrides=None, inspect=None, torchrun=False, first=""):
        self.run_dir, self.ranks = run_dir, ranks
        self.folder = run_dir / "attempts" / f"{number:04d}"
        self.folder.mkdir(parents=True)
        point = None
        if resume is not None:
            path = f"checkpoints/step-{resume:08d}"
            digest = hashlib.sha256((run_dir / path / "manifest.json").read_bytes()).hexdigest()
            point = {"step": resume, "path": path, "digest": digest}
        command = [*start_of(ranks), *SIZES, *arguments]
        spec = {"v": 1, "attempt": number, "argv": command, "env": {}, "resume": point, "overrides": overrides or {}}
        spec["inspect"] = inspect
        (self.folder / "spec.json").write_text(json.dumps(spec))
        environ = clean_environ() | {"SENTINEL_RUN_DIR": str(run_dir), "SENTINEL_ATTEMPT": str(number)}
        if torchrun:
            self.process = subprocess.Popen(command, env=environ, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        else:
            self.process = Forked([*SIZES, *arguments], ranks, environ, str(ROOT), first=first)

    def wait(self):
        """The launcher's exit code: under torchrun 0 or 1 whatever the ranks said."""
        return self.process.wait(DEADLINE_S)

    def finish(self):
        code = self.wait()
        assert code == 0, (self.folder / "logs" / "rank-00000.err").read_text()
        return self

    def lines(self, kind):
        path = self.folder / "metrics.jsonl"
        text = path.read_text() if path.exists() else ""
        return [line for line in map(json.loads, text.splitlines()) if line["kind"] == kind]

    def steps(self):
        """Step → what must be equal in an equal run."""
        timing = {"time_s", "tokens_per_s", "step_time_s", "data_time_s", "mfu", "peak_memory_bytes"}
        return {line["step"]: {k: v for k, v in line.items() if k not in timing} for line in self.lines("step")}

    def events(self, name):
        return [line for line in self.lines("event") if line["event"] == name]

    def receipt(self):
        return self.lines("start")[0]

    def record(self, rank=0):
        path = self.folder / "exits" / f"rank-{rank:05d}.json"
        return json.loads(path.read_text()) if path.exists() else None

    def beat(self, rank=0):
        """None before the first: the file is made, and then written."""
        path = self.folder / "heartbeats" / f"rank-{rank:05d}.json"
        text = path.read_text() if path.exists() else ""
        return json.loads(text) if text else None

    def ask(self, **overrides):
        """Put a live change where rank 0 looks for it."""
        aside = self.run_dir / "overrides.aside"
        aside.write_text(json.dumps({"attempt": int(self.folder.name), **overrides}))
        aside.rename(self.run_dir / "overrides.json")

    def await_steps(self, count):
        await_that(lambda: len(self.lines("step")) >= count or self.process.poll() is not None, f"{count} steps")

    def end(self):
        """Whatever still lives is killed: torchrun's ranks have sessions of their own."""
        if self.process.poll() is None:
            family = psutil.Process(self.process.pid).children(recursive=True)
            for process in (*family, self.process):
                with contextlib.suppress(psutil.NoSuchProcess):  # it may end by itself meanwhile
                    process.kill()
            self.process.wait(DEADLINE_S)


def start_of(ranks):
    if ranks == 1:
        return [sys.executable, "-m", "trainer"]
    torchrun = ["-m", "torch.distributed.run", "--nproc-per-node", str(ranks)]
    return [sys.executable, *torchrun, "--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:0", "-m", "trainer"]


def run_plainly(arguments, says, first=""):
    """The code of one forked rank that no supervisor started; what it printed is in `says`."""
    return Forked(arguments, 1, clean_environ(), str(ROOT), str(says), first).wait(DEADLINE_S)


def clean_environ():
    foreign = ("SENTINEL_", "RANK", "WORLD_SIZE", "LOCAL_", "MASTER_", "TORCHELASTIC_")
    kept = {key: value for key, value in os.environ.items() if not key.startswith(foreign)}
    return kept | {"PYTHONPATH": str(ROOT), "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}


@pytest.fixture
def launch(tmp_path):
    """launch(attempt, *arguments, ranks=…, resume=…, overrides=…, run=…) → Attempt, ended with the test."""
    attempts = []

    def start(number, *arguments, run="run", **options):
        attempts.append(Attempt(tmp_path / run, number, *arguments, **options))
        return attempts[-1]

    yield start
    for attempt in attempts:
        attempt.end()


def test_an_inspection_of_fewer_samples_than_ranks_ends(launch):
    sets = "schedule.steps=10", "parallel.reshard=true", "parallel.recompute=full"  # neither may gather a weight anew
    attempt = launch(1, "--set", *sets, ranks=2, inspect={"samples": [[10, 11]]}).finish()
    lines = [json.loads(line) for line in (attempt.folder / "samples.jsonl").read_text().splitlines()]
    assert [(line["kind"], line.get("index")) for line in lines] == [("inspection", None), ("sample", 10), ("end", None)]


def test_a_finished_attempt_leaves_everything_the_protocol_names(launch):
    attempt = launch(1, "--set", "schedule.steps=10", "evaluation.every=5", ranks=2, torchrun=True).finish()
    first = json.loads((attempt.folder / "metrics.jsonl").read_text().splitlines()[0])
    assert (first["kind"], first["v"], first["attempt"], first["resume_step"], first["resume_digest"]) == ("start", 1, 1, 0, None)
    assert first["capabilities"] == list(CAPABILITIES), "a trainer that lists none is presumed to have what was declared"
    assert (first["world_size"], first["gpus"], first["tokens_per_step"], first["overrides"]) == (2, 0, 4 * 32, {})
    assert 40_000 < first["params"] < 60_000
    effective = {"clip_norm": 1.0, "betas": [0.9, 0.95], "weight_decay": 0.1, "seed": 1337, "data_seed": 1337, "lr_scale": 1.0}
    assert effective.items() <= first["effective"].items()

    steps = attempt.lines("step")
    assert [line["step"] for line in steps] == list(range(1, 11))
    assert [line["samples"] for line in steps] == [[[4 * n, 4 * n + 4]] for n in range(10)]
    wanted = {"loss", "grad_norm", "activation_norm", "param_norm", "lr", "tokens_per_s", "step_time_s", "skipped", "clip_coef"}
    assert all(wanted <= set(line) for line in steps)
    assert [line["step"] for line in steps if "val_loss" in line] == [5, 10]
    commits = attempt.events("checkpoint_committed")
    assert [event["step"] for event in commits] == [4, 8, 10]
    assert all(0 < event["blocked_s"] <= event["seconds"] for event in commits)
    assert attempt.lines("end")[0]["reason"] == "finished"

    for rank in (0, 1):
        assert {key: attempt.record(rank)[key] for key in ("rank", "code", "error", "step")} == {
            "rank": rank, "code": 0, "error": None, "step": 10
        }  # fmt: skip
        assert attempt.beat(rank)["phase"] == "idle"
        keys = {"step", "phase", "time_s", "pid", "host", "boot_id", "stack_signal", "stack_after_s", "busy_s", "busy_step"}
        assert set(attempt.beat(rank)) == keys
    assert "step 10" in (attempt.folder / "logs" / "rank-00000.out").read_text()
    manifest = json.loads((attempt.run_dir / "checkpoints" / "step-00000008" / "manifest.json").read_text())
    assert (manifest["step"], manifest["samples"], manifest["cursor"], manifest["attempt"]) == (8, 32, 32, 1)
    assert (manifest["world_size"], manifest["parent"]["step"], manifest["skip"]) == (2, 4, [])
    assert [line["step"] for line in manifest["recent"]] == list(range(1, 9))


@pytest.mark.parametrize(
    ("arguments", "overrides", "code", "says"),
    [
        (["--fault", "kil@step=3"], {}, 3, "unknown kind 'kil'"),
        (["--set", "schedule.steps=3"], {"precision": "fp8"}, 3, "fp8"),
        (["--set", "schedule.steps=3"], {"loss_scale": 8.0}, 3, "overrides.loss_scale"),
        (["--set", "schedule.steps=3"], {"eps": 0}, 3, "overrides: eps: 0"),
    ],
)
def test_what_cannot_be_obeyed_at_launch_ends_in_one_sentence_and_three(launch, arguments, overrides, code, says):
    attempt = launch(1, *arguments, overrides=overrides)
    assert attempt.wait() == code
    assert attempt.lines("step") == []
    if overrides.get("eps") is None:
        assert attempt.record()["code"] == code
        assert says in attempt.record()["error"]


def test_without_a_supervisor_it_trains_the_same_and_continues(tmp_path, launch):
    watched = launch(1, "--set", "schedule.steps=12").finish()

    words = [*SIZES, "--set", "schedule.steps=12", "--out-dir", str(tmp_path / "out"), "--fault", "crash@step=7"]
    crashed = subprocess.run(
        [*start_of(1), *words], env=clean_environ(), cwd=ROOT, capture_output=True, text=True, check=False, timeout=DEADLINE_S
    )
    assert (crashed.returncode, "InjectedCrash" in crashed.stderr) == (1, True)
    assert run_plainly([*words, "--resume"], tmp_path / "said") == 0
    assert "from step 4" in (tmp_path / "said").read_text()
    shards = "checkpoints/step-00000012/__0_0.distcp"
    assert (tmp_path / "out" / shards).read_bytes() == (watched.run_dir / shards).read_bytes()
