"""The demonstration's own choices: its command, where the faults strike, what it does with a directory that is there already."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest

from sentinel.cli import bundled_trainer, demo
from sentinel.cli.demo import DemoOptions
from sentinel.errors import AlreadySupervised, PolicyError, UsageError
from sentinel.journal.run_file import find_run_file, write_run_file
from sentinel.journal.run_lock import RunLock
from sentinel.launcher.environment import read_environment
from sentinel.policy_files.loading import load_policy, shipped_policy_path
from sentinel.sim.real_faults import REAL_KINDS
from tests.unit.told_run import write_run
from trainer import faults
from trainer.command_line import Launch, check_world, parse_arguments
from trainer.config.loading import preset_names
from trainer.config.sections import Precision
from trainer.faults import parse_fault


def options(tmp_path: Path, **changes: object) -> DemoOptions:
    return replace(DemoOptions(tmp_path / "demo"), **changes)  # type: ignore[arg-type]


def trainer_launch(command: tuple[str, ...]) -> Launch:
    """What the trainer makes of the words behind `-m trainer`; it refuses what it does not know."""
    return parse_arguments(command[command.index("trainer") + 1 :])


def test_the_default_command_is_the_issues_demonstration(tmp_path: Path) -> None:
    command = demo.build_command(options(tmp_path), gpus=0)
    assert command[:3] == (sys.executable, "-m", "torch.distributed.run")
    assert command[command.index("--nproc-per-node") + 1] == "2"
    assert command[command.index("--max-restarts") + 1] == "0"
    launch = trainer_launch(command)
    config = launch.config
    assert (launch.recipe, config.schedule.steps, config.numerics.precision) == ("tiny", 600, "fp32")
    assert (config.data.batch_size, config.data.seq_len, config.checkpoint.every, config.parallel.threads) == (16, 128, 50, 1)
    assert [fault.kind for fault in launch.faults] == ["bad_data", "kill", "hang"]
    poison = launch.faults[0].samples
    assert poison is not None
    assert poison[1] - poison[0] == 400


def test_options_reach_the_trainer(tmp_path: Path) -> None:
    asked = options(tmp_path, steps=120, seed=7, precision="bf16", faults=("crash@step=9", "nan_grad@step=4:rank=1:always"))
    launch = trainer_launch(demo.build_command(asked, gpus=0))
    config = launch.config
    assert (config.schedule.steps, config.init.seed, config.numerics.precision, config.checkpoint.every) == (120, 7, "bf16", 10)
    assert [fault.text for fault in launch.faults] == ["crash@step=9", "nan_grad@step=4:rank=1:always"]
    assert trainer_launch(demo.build_command(options(tmp_path, faults=()), gpus=0)).faults == ()


def test_fp16_on_a_cpu_takes_the_small_model(tmp_path: Path) -> None:
    asked = options(tmp_path, precision="fp16")
    assert trainer_launch(demo.build_command(asked, gpus=0)).recipe == "micro"
    assert trainer_launch(demo.build_command(asked, gpus=2)).recipe == "tiny"
    assert trainer_launch(demo.build_command(replace(asked, preset="tiny"), gpus=0)).recipe == "tiny"
    assert trainer_launch(demo.build_command(options(tmp_path, preset="micro"), gpus=0)).recipe == "micro"


@pytest.mark.parametrize(("gpus", "ranks"), [(0, 2), (1, 1), (2, 2), (3, 2), (5, 4), (8, 8), (100, 16)])
def test_one_process_per_gpu_as_many_as_divide_the_batch(tmp_path: Path, gpus: int, ranks: int) -> None:
    command = demo.build_command(options(tmp_path), gpus)
    assert command[command.index("--nproc-per-node") + 1] == str(ranks)
    check_world(trainer_launch(command), ranks)  # the batch divides, and every fault's rank exists


def test_each_fault_meets_awake_detectors_and_a_closed_probation() -> None:
    poison, kill, hang = (parse_fault(text) for text in demo.default_faults(600))
    assert poison.samples is not None
    assert kill.step is not None
    assert hang.step is not None
    poison_step = poison.samples[0] // demo.BATCH_SIZE
    spec = load_policy(shipped_policy_path("demo")).spec
    assert kill.step > spec.detectors.spike.min_history_steps + 20
    assert hang.step > kill.step + spec.probation.steps
    assert poison_step > hang.step + spec.probation.steps
    assert poison_step + spec.probation.steps + 100 < 600


@pytest.mark.parametrize("steps", [96, 120, 150, 300, 600, 1000, 6000])
def test_default_faults_scale_with_the_steps(steps: int) -> None:
    poison, kill, hang = (parse_fault(text) for text in demo.default_faults(steps))
    assert poison.samples is not None
    first, end = poison.samples
    assert (end - first) % demo.BATCH_SIZE == 0
    assert (end - first) // demo.BATCH_SIZE >= demo.POISON_STEPS_MIN
    assert first / demo.BATCH_SIZE == pytest.approx(0.63 * steps, abs=1)
    assert kill.step == pytest.approx(0.22 * steps, abs=1)
    assert hang.step == pytest.approx(0.42 * steps, abs=1)
    assert end // demo.BATCH_SIZE < steps


def test_a_very_short_run_still_has_a_command_the_trainer_takes(tmp_path: Path) -> None:
    config = trainer_launch(demo.build_command(options(tmp_path, steps=1), gpus=0)).config
    assert (config.schedule.steps, config.checkpoint.every) == (1, 5)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"steps": 0}, "--steps 0: must be 1 or above"),
        ({"seed": -1}, "--seed -1: must be 0 or above"),
        ({"precision": "fp8"}, "--precision fp8: use one of fp32, bf16, fp16"),
        ({"preset": "huge"}, "--preset huge: use one of micro, tiny"),
        ({"faults": ("kill@sample=3",)}, "fault 'kill@sample=3': "),
        ({"faults": ("burn@step=3",)}, "fault 'burn@step=3': unknown kind 'burn'; write one of bad_data"),
    ],
)
def test_wrong_options_are_refused_before_anything_is_there(tmp_path: Path, changes: dict[str, object], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        demo.run_demo(options(tmp_path, **changes))
    assert not (tmp_path / "demo").exists()


def test_a_wrong_policy_is_refused_before_anything_is_there(tmp_path: Path) -> None:
    with pytest.raises(PolicyError):
        demo.run_demo(options(tmp_path, policy="no-such-policy"))
    assert not (tmp_path / "demo").exists()


def test_the_forms_of_faults_are_the_trainers() -> None:
    assert set(REAL_KINDS) == set(faults.KINDS)
    assert get_args(Precision) == demo.PRECISIONS
    assert set(demo.PRESETS) <= set(preset_names())
    poisons = ("bad_data@sample=6400-6800", "bad_data@sample=64-80:share=0.3")
    for text in (*poisons, "kill@step=300:rank=1", "hang@step=5", "crash@step=9:always", "slow@step=9:rank=1,for=0.5:always"):
        parse_fault(text)
        demo.check_options(DemoOptions(Path("x"), faults=(text,)))


@pytest.mark.parametrize("missing", ["torch", "numpy", "trainer"])
def test_without_the_trainer_one_sentence_says_how_to_get_it(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    find = bundled_trainer.importlib.util.find_spec
    monkeypatch.setattr(bundled_trainer.importlib.util, "find_spec", lambda name: None if name == missing else find(name))
    remedy = r"install it with: pip install 'training-sentinel\[trainer\]'"
    with pytest.raises(UsageError, match=f"{missing} cannot be found; {remedy}"):
        demo.check_trainer()


def test_the_trainer_beside_the_sentinel_that_runs_is_started(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert bundled_trainer.launch_words(2)[-2:] == ["-m", "trainer"], "a checkout"
    monkeypatch.setattr(bundled_trainer, "PACKAGE", tmp_path / "sentinel")
    (tmp_path / "sentinel_trainer").mkdir()
    (tmp_path / "trainer").mkdir()  # somebody else's, in the same site-packages
    words = bundled_trainer.launch_words(2)
    assert words[:2] == [sys.executable, "-P"]
    assert words[-6:] == ["--no-python", sys.executable, "-P", "-u", "-m", "sentinel_trainer"], "torchrun leaves -P out"


def test_the_source_that_is_watched_is_the_trainers_wherever_it_is_started(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Else each demonstration outside a checkout warns that what it runs is not wholly known."""
    monkeypatch.chdir(bundled_trainer.PACKAGE.parent)
    assert bundled_trainer.source_paths() == (), "its command leads there"
    monkeypatch.chdir(tmp_path)
    assert bundled_trainer.source_paths() == (str(bundled_trainer.PACKAGE.parent / "trainer"),)
    supervised = Supervised(monkeypatch)
    demo.run_demo(options(tmp_path))
    (code,) = supervised.requests[0].code
    found = read_environment(supervised.requests[0].command, str(tmp_path), {}, (code,))
    assert not [words for words in found.unknown if words.startswith("code:")]
    assert found.code
    monkeypatch.setattr(bundled_trainer, "PACKAGE", tmp_path / "sentinel")
    (tmp_path / "sentinel_trainer").mkdir()
    assert bundled_trainer.source_paths() == (str(tmp_path / "sentinel_trainer"),)


@pytest.mark.parametrize("name", ["trainer", "sentinel"])
def test_in_a_checkout_a_folder_with_another_trainer_is_refused(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=f"Python would import {tmp_path / name} in place of .*; start it in another folder"):
        demo.check_trainer()


def test_gpus_are_counted_by_their_device_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo.os, "listdir", lambda path: ["nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm", "null"])
    monkeypatch.setattr(demo.importlib.metadata, "version", lambda name: "2.13.0")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert demo.count_gpus() == 2
    for visible, count in (("0", 1), ("", 0), ("-1", 0), ("0,1,2", 2)):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
        assert demo.count_gpus() == count
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    monkeypatch.setattr(demo.importlib.metadata, "version", lambda name: "2.13.0+cpu")
    assert demo.count_gpus() == 0


def test_a_finished_run_is_moved_aside_and_never_over_another(tmp_path: Path) -> None:
    for number in (1, 2):
        run_dir = write_run(tmp_path / "demo")
        (run_dir / "mark").write_text(str(number))
        assert demo.move_aside(run_dir) == tmp_path / f"demo.{number}"
    assert not (tmp_path / "demo").exists()
    assert [(tmp_path / f"demo.{number}" / "mark").read_text() for number in (1, 2)] == ["1", "2"]


def test_a_directory_somebody_holds_is_not_moved(tmp_path: Path) -> None:
    run_dir = write_run(tmp_path / "demo")
    with RunLock.acquire(run_dir), pytest.raises(AlreadySupervised):
        demo.move_aside(run_dir)
    assert run_dir.is_dir()


class Supervised:
    """Stands in for `app.supervise`: remembers what it was asked for, and leaves a run behind."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, leaves_until: float = 1e9) -> None:
        self.requests: list[demo.RunRequest] = []
        self._until = leaves_until
        monkeypatch.setattr(demo, "supervise", self)

    def __call__(self, request: demo.RunRequest, narrator: object) -> int:
        self.requests.append(request)
        if not request.run_dir.exists():
            write_run(request.run_dir, self._until)
        return 0


def test_a_new_demonstration_runs_and_tells_how_it_went(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    supervised = Supervised(monkeypatch)
    assert demo.run_demo(options(tmp_path)) == 0
    assert supervised.requests[0].policy == "demo"
    told = capsys.readouterr().out
    for expected in ("incident", "rollback+skip", "Goodput", "whole", str(tmp_path / "demo/sentinel.db"), "report.md"):
        assert expected in told


def test_an_unfinished_one_is_continued_with_its_own_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_dir = write_run(tmp_path / "demo", until=61)
    known = find_run_file(run_dir)
    assert known is not None
    command = ("/other/python3", *demo.build_command(options(tmp_path), 0)[1:])
    monkeypatch.setattr(demo, "count_gpus", lambda: 0)
    write_run_file(run_dir, replace(known, command=command))
    supervised = Supervised(monkeypatch)
    demo.run_demo(options(tmp_path))
    assert supervised.requests[0].command == command
    with pytest.raises(UsageError, match=r"unfinished run with other options \(--set schedule.steps=600"):
        demo.run_demo(options(tmp_path, steps=300))
    with pytest.raises(UsageError, match=r"it lacks --set init.seed=5"):
        demo.run_demo(options(tmp_path, seed=5))


def test_one_that_was_killed_before_its_first_fact_is_begun_where_it_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """run.json and an empty journal: killed between the two. Every later start said that it was only just being started."""
    run_dir = tmp_path / "demo"
    write_run(run_dir, until=-1)
    known = find_run_file(run_dir)
    assert known is not None
    monkeypatch.setattr(demo, "count_gpus", lambda: 0)
    write_run_file(run_dir, replace(known, command=demo.build_command(options(tmp_path), 0)))
    supervised = Supervised(monkeypatch)
    monkeypatch.setattr(demo, "closing_words", lambda run_dir: "")
    assert demo.run_demo(options(tmp_path)) == 0
    assert supervised.requests[0].run_dir == run_dir


def test_a_finished_one_is_moved_aside_and_a_new_one_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_run(tmp_path / "demo")
    supervised = Supervised(monkeypatch)
    demo.run_demo(options(tmp_path, steps=300))
    assert len(supervised.requests) == 1
    assert (tmp_path / "demo.1" / "sentinel.db").exists()
    assert f"holds a finished run, which is now {tmp_path / 'demo.1'}" in capsys.readouterr().out
