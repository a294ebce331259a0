"""The stream of a run: its lines, their order, what the host derives, what survives a resume, and that nobody waits."""

import contextlib
import errno
import json
import math
import os
import subprocess
import threading

import pytest
import torch

from sentinel.client import Session, Spec, line_file
from trainer import train as train_module
from trainer.command_line import parse_arguments
from trainer.config import Config
from trainer.exits import NonFiniteError
from trainer.metrics_ring import MetricsRing
from trainer.model.sizes import flops_per_token
from trainer.rates import CLIP_WINDOW, ClipShare, known_peak_tflops, mfu_of, model_flops_share, peak_tflops
from trainer.telemetry import Telemetry

CPU = torch.device("cpu")
TIMING = {"time_s", "tokens_per_s", "step_time_s", "data_time_s", "mfu", "peak_memory_bytes", "seconds"}
SYNCS = ("item", "tolist", "cpu", "nonzero", "__bool__", "__int__", "__float__", "__index__")


@pytest.fixture
def start(world, tmp_path, monkeypatch):
    """start(steps, *settings, resume=…, session=…) → lines of the stream; trains in this process, in the world that is there."""
    monkeypatch.setattr(train_module, "join_world", lambda replicas: world)
    monkeypatch.setattr("trainer.control.signal.signal", lambda *_: None)

    def start(*settings, resume=False, session=None, faults=(), torn=0):
        sizes = "data.batch_size=2", "data.seq_len=16", "evaluation.batches=1", "schedule.steps=12", "checkpoint.every=8"
        words = ["--preset", "micro", "--set", *sizes, *settings, "--out-dir", str(tmp_path), *(["--resume"] if resume else [])]
        train_module.train(parse_arguments([*words, *(word for fault in faults for word in ("--fault", fault))]), session)
        return lines(tmp_path / "metrics.jsonl" if session is None else session.metrics_path, torn)

    return start


def lines(path, torn=0):
    """`torn`: so many of them may be broken off in the middle, and are left out."""
    found, broken = [], []
    for text in path.read_text().splitlines():
        try:
            found.append(json.loads(text))
        except ValueError:
            broken.append(text)
    assert len(broken) <= torn, broken
    return found


def of_kind(found, kind):
    return [line for line in found if line["kind"] == kind]


def without_times(line):
    return {name: value for name, value in line.items() if name not in TIMING}


def test_a_run_without_a_supervisor_keeps_the_same_stream_as_one_with(start, tmp_path):
    at_once = "checkpoint.asynchronous=false"  # or the event's place is the disk's to say
    alone = start(at_once)
    reported = ["start", *["step"] * 8, "event", *["step"] * 4, "event", "end"]
    assert [line["kind"] for line in alone] == reported
    watched = start(at_once, session=Session(tmp_path / "run", Spec(attempt=3)))
    assert [line["kind"] for line in watched] == reported
    assert (alone[0]["attempt"], watched[0]["attempt"]) == (0, 3)
    for one, other in zip(of_kind(alone, "step"), of_kind(watched, "step"), strict=True):
        assert without_times(one) == without_times(other)
    assert [line["step"] for line in of_kind(alone, "event")] == [8, 12]
    last = of_kind(alone, "step")[-1]
    wanted = {
        "loss",
        "grad_norm",
        "activation_norm",
        "param_norm",
        "nonfinite_count",
        "clip_coef",
        "clip_fraction",
        "skipped",
        "lr",
    }
    wanted |= {
        "update_norm",
        "adam_v_norm",
        "logit_max",
        "grad_norm/embed",
        "activation_norm/block-00",
        "activation_max/block-02",
    }
    wanted |= {"weight_decay", "tokens_per_s", "step_time_s", "data_time_s", "peak_memory_bytes", "val_loss"}
    assert wanted <= set(last)
    assert not {"overflow", "loss_scale", "mfu"} & set(last), "fp32 has no loss scale, and a CPU no known peak"
    assert last["tokens_per_s"] == pytest.approx(2 * 16 / last["step_time_s"])
    assert 0 < last["data_time_s"] < last["step_time_s"]
    assert last["peak_memory_bytes"] > 50 << 20


def test_a_resume_appends_to_it_and_goes_on_counting_what_was_clipped(start, tmp_path):
    """To the bit: the window of clip_fraction is in the checkpoint."""
    settings = "optim.clip_norm=1.9", "schedule.warmup_steps=1"
    whole = of_kind(start(*settings), "step")
    assert len({line["clip_fraction"] for line in whole}) > 3, "some are clipped and some are not"
    (tmp_path / "checkpoints" / "step-00000012").rename(tmp_path / "away")
    both = start(*settings, resume=True)
    assert [(line["resume_step"], line["attempt"]) for line in of_kind(both, "start")] == [(0, 0), (8, 0)]
    again = of_kind(both, "step")[12:]
    assert [without_times(line) for line in again] == [without_times(line) for line in whole[8:]]


def test_too_many_updates_left_out_end_the_run_and_the_stream_says_so(start, tmp_path):
    with pytest.raises(NonFiniteError, match=r"step 6: 3 updates in a row were not finite or left out \(stability.max_skipped\)"):
        start("stability.max_skipped=3", faults=["nan_grad@step=4:always"])
    found = lines(tmp_path / "metrics.jsonl")
    assert [(line["kind"], line["step"]) for line in found[-2:]] == [("step", 6), ("end", 6)]
    assert found[-1]["reason"] == "failed"


def test_a_disk_that_is_full_for_a_while_costs_lines_and_ends_no_run(start, tmp_path, monkeypatch):
    really, count = os.write, [0]

    def full_for_a_while(handle, data):
        if bytes(data[:2]) == b'{"':
            count[0] += 1
            if 4 < count[0] <= 7:
                raise OSError(28, "No space left on device")
        return really(handle, data)

    monkeypatch.setattr(line_file.os, "write", full_for_a_while)
    found = start("checkpoint.every=100")
    assert [line["step"] for line in of_kind(found, "step")] == [1, 2, 3, *range(7, 13)]
    (lost,) = [line for line in of_kind(found, "event") if line["event"] == "lines_lost"]
    assert (lost["steps"], lost["first_step"], lost["last_step"], lost["errno"]) == (3, 4, 6, "ENOSPC")
    assert found[-1]["reason"] == "finished"


@pytest.fixture
def small_disk(tmp_path):
    """A filesystem of its own, of 32 MiB."""
    place = tmp_path / "disk"
    place.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", "size=32m", "none", str(place)]
    mounted = subprocess.run(words, capture_output=True, text=True, check=False)
    if mounted.returncode != 0:
        pytest.skip(f"only root can mount a tmpfs: {mounted.stderr.strip()}")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def fill(disk):
    """Until not one byte more fits."""
    with open(disk / "ballast", "ab", buffering=0) as file:
        for size in (1 << 20, 4096, 1):
            with contextlib.suppress(OSError):
                while file.write(b"x" * size):
                    pass


def test_a_run_directory_on_a_disk_that_is_really_full_for_some_steps(start, small_disk, monkeypatch):
    session, really, done = Session(small_disk / "run", Spec(attempt=1)), train_module._train_one, [0]

    def train_one(*arguments):
        done[0] += 1
        if done[0] == 4:
            fill(small_disk)
        if done[0] == 9:
            (small_disk / "ballast").unlink()
        really(*arguments)

    monkeypatch.setattr(train_module, "_train_one", train_one)
    found = start("checkpoint.every=100", session=session, torn=1)
    steps = [line["step"] for line in of_kind(found, "step")]
    (lost,) = [line for line in of_kind(found, "event") if line["event"] == "lines_lost"]
    assert lost["errno"] == "ENOSPC"
    assert steps == [*range(1, lost["first_step"]), *range(lost["last_step"] + 1, 13)], "all are there or are told as lost"
    assert 4 <= lost["first_step"] <= lost["last_step"] == 8
    assert lost["steps"] == lost["last_step"] - lost["first_step"] + 1
    assert (found[0]["kind"], found[-1]["reason"]) == ("start", "finished")
    assert json.loads(session.heartbeat_path.read_text())["step"] == 12


def test_a_log_on_a_full_disk_ends_no_run_and_a_reader_that_left_does(tmp_path, monkeypatch):
    telemetry = Telemetry(None, 0, tmp_path, CPU, fp16=False)

    def refuse(number):
        def printing(*_, **__):
            raise OSError(number, os.strerror(number))

        return printing

    monkeypatch.setattr("builtins.print", refuse(errno.ENOSPC))
    telemetry.log("words")
    monkeypatch.setattr("builtins.print", refuse(errno.EPIPE))
    with pytest.raises(BrokenPipeError):
        telemetry.log("words")


def test_nothing_in_the_loop_waits_for_the_device(start, monkeypatch):
    """Counted on the loop's own thread from one step's begin to the next's, evaluation and checkpoints aside."""
    found, watching = [], [False]

    def counted(name, really):
        def call(tensor, *arguments, **options):
            if watching[0] and threading.current_thread() is threading.main_thread():
                found.append(name)
            return really(tensor, *arguments, **options)

        return call

    for name in SYNCS:
        monkeypatch.setattr(torch.Tensor, name, counted(name, getattr(torch.Tensor, name)))

    def watched(function):
        def call(*arguments):
            watching[0] = True
            try:
                return function(*arguments)
            finally:
                watching[0] = False

        return call

    torch.ones(1).item()
    monkeypatch.setattr(train_module, "_train_one", watched(train_module._train_one))
    monkeypatch.setattr(train_module.Control, "decide", watched(train_module.Control.decide))
    monkeypatch.setattr(train_module, "_evaluate", lambda run: 1.0)
    assert len(of_kind(start("checkpoint.every=100"), "step")) == 12
    assert found == []
    watching[0] = True
    torch.ones(1).item()
    watching[0] = False
    assert found == ["item"], "what is counted is seen"


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_on_a_gpu_a_step_that_would_wait_for_the_device_is_an_error(start, monkeypatch):
    really, steps = train_module._train_one, [0]

    def strict(*arguments):
        steps[0] += 1
        torch.cuda.set_sync_debug_mode("error" if steps[0] > 2 else "default")  # what is made once may wait
        try:
            really(*arguments)
        finally:
            torch.cuda.set_sync_debug_mode("default")

    monkeypatch.setattr(train_module, "_train_one", strict)
    monkeypatch.setattr(train_module, "_evaluate", lambda run: 1.0)
    assert [line["step"] for line in of_kind(start("checkpoint.every=100"), "step")] == list(range(1, 13))


class Gate:
    """A device behind: marks pass when the test opens it."""

    def __init__(self, opened):
        self.opened = opened

    def record(self): ...

    def synchronize(self):
        assert self.opened.wait(20.0)

    def elapsed_time(self, end):
        return 500.0


@pytest.fixture
def behind(tmp_path):
    """Telemetry over a device that is behind until `opened` is set, its lag 4."""
    opened = threading.Event()
    telemetry = Telemetry(
        None, 0, tmp_path, CPU, fp16=True, mfu=lambda rate, length: rate / length, ring=MetricsRing(CPU, 4, lambda: Gate(opened))
    )
    yield telemetry, opened
    opened.set()


NAMES = ("loss", "grad_norm", "grad_norm/h.0", "clip_coef", "skipped", "overflow", "nonfinite_count", "loss_scale")


def one_step(telemetry, step, skipped=0.0, last=False):
    telemetry.begin(step)
    telemetry.loaded()
    telemetry.measured(NAMES, torch.tensor([step, 0.5, 0.25, 0.5, skipped, 0.0, 0.0, 2.0], dtype=torch.float64))
    telemetry.step(step, [[step, step + 1]], {"lr": 0.1}, tokens=64, seq_len=16, last=last)


def test_over_a_device_that_is_behind_all_lines_keep_the_order_of_the_calls(behind, tmp_path, capsys):
    telemetry, opened = behind
    with telemetry:
        telemetry.start(resume_step=0, resume_digest=None, world_size=1, params=1, tokens_per_step=64, effective={})
        one_step(telemetry, 1)
        telemetry.event("override_applied", 2, id="ov-1")
        one_step(telemetry, 2, skipped=1.0)
        telemetry.event("checkpoint_committed", 2, path="p")
        one_step(telemetry, 3, last=True)
        path = tmp_path / "metrics.jsonl"  # whatever the thread has come to, it is not past the receipt
        assert [line["kind"] for line in lines(path)] in ([], ["start"]) if path.exists() else True
        opened.set()
        telemetry.end(3, "finished")
        found = lines(tmp_path / "metrics.jsonl")
    order = [("start", None), ("step", 1), ("event", 2), ("step", 2), ("event", 2), ("step", 3), ("end", 3)]
    assert [(line["kind"], line.get("step")) for line in found] == order
    step = found[3]
    assert (step["loss"], step["skipped"], step["overflow"], step["nonfinite_count"], step["loss_scale"]) == (2.0, 1, 0, 0, 2.0)
    assert (step["step_time_s"], step["tokens_per_s"], step["mfu"], step["clip_fraction"]) == (0.5, 128.0, 8.0, 1.0)
    printed = [line.split("  ")[0] for line in capsys.readouterr().out.splitlines()]
    assert [words.split(":")[0] for words in printed] == [
        "start", "step 1", "override_applied at step 2", "step 2", "checkpoint_committed at step 2", "step 3", "end at step 3"
    ]  # fmt: skip


def test_what_is_decided_from_numbers_is_decided_from_those_a_lag_behind_and_after_a_drain_from_all(behind):
    telemetry, opened = behind
    opened.set()
    decided = {}
    with telemetry:
        for step in range(1, 9):
            one_step(telemetry, step)
            decided[step] = [done for done, _ in telemetry.settled()]
        assert decided == {1: [], 2: [], 3: [], 4: [], 5: [1], 6: [2], 7: [3], 8: [4]}, "whatever has arrived by then"
        state = telemetry.state()
        assert [done for done, _ in telemetry.settled()] == [5, 6, 7, 8]
        one_step(telemetry, 9)
        assert list(telemetry.settled()) == [], "one that was given out is not given out again"
        telemetry.end(9, "finished")
    assert [line["step"] for line in state["recent"]] == list(range(1, 9))
    assert "grad_norm/h.0" not in state["recent"][0]
    assert state["clipped"] == "1" * 8


def test_an_error_of_the_writing_thread_ends_the_loop(behind, tmp_path):
    telemetry, opened = behind
    (tmp_path / "metrics.jsonl").mkdir()
    opened.set()

    def loop():
        with telemetry:
            for step in range(1, 20):
                one_step(telemetry, step)

    with pytest.raises(OSError, match="directory"):
        loop()


def test_ranks_other_than_the_first_get_the_numbers_and_write_nothing(tmp_path, capsys):
    telemetry = Telemetry(None, 1, tmp_path, CPU, fp16=False)
    with telemetry:
        one_step(telemetry, 1)
        ((step, metrics),) = telemetry.settled()
        telemetry.end(1, "finished")
    assert (step, metrics["loss"], "overflow" in metrics, "loss_scale" in metrics) == (1, 1.0, False, False)
    assert list(tmp_path.iterdir()) == []
    assert capsys.readouterr().out == ""


def test_the_share_of_clipped_steps_is_over_a_window_that_can_be_kept():
    share = ClipShare()
    assert [share.take(coef) for coef in (0.5, 1.0, math.nan, 0.0, 0.1)] == [1.0, 0.5, pytest.approx(1 / 3), 0.25, 0.4]
    kept = ClipShare()
    kept.restore(share.state())
    for _ in range(CLIP_WINDOW):
        assert kept.take(1.0) == share.take(1.0)
    assert share.take(0.9) == 1 / CLIP_WINDOW


@pytest.mark.parametrize(
    ("name", "precision", "peak"),
    [
        ("NVIDIA H200", "bf16", 989.4),
        ("NVIDIA H100 80GB HBM3", "bf16", 989.4),
        ("NVIDIA H100 PCIe", "fp16", 756.0),
        ("NVIDIA A100-SXM4-80GB", "fp32", 19.5),
        ("NVIDIA A10", "bf16", 125.0),
        ("NVIDIA A10G", "bf16", None),
        ("Quadro P400", "bf16", None),
    ],
)
def test_the_peak_of_a_device_is_known_by_its_name_or_not_at_all(name, precision, peak):
    assert known_peak_tflops(name, precision) == peak


def test_a_peak_that_is_configured_counts_and_a_cpu_has_none_of_its_own():
    assert (peak_tflops(CPU, "fp32", None), peak_tflops(CPU, "fp32", 0.1)) == (None, 0.1)
    assert model_flops_share(1000.0, 6e9, 100.0, 2) == pytest.approx(0.03)
    assert mfu_of(Config(), 256, CPU, 2) is None
    reported = Config.model_validate({"telemetry": {"peak_tflops": 0.5}})
    mfu = mfu_of(reported, 256, CPU, 2)
    assert mfu(1000.0, 128) == pytest.approx(1000.0 * flops_per_token(reported, 256, 128) / 1e12)
    assert mfu(1000.0, 64) < mfu(1000.0, 128), "attention over shorter sequences is less work"
