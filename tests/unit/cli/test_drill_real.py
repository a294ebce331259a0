"""A drill on the real trainer before and after the run: its command, what is refused, and what is asked of the directory."""

from __future__ import annotations

import stat
from dataclasses import replace
from pathlib import Path

import pytest

from sentinel.cli import bundled_trainer, drill_real
from sentinel.errors import PolicyError, UsageError
from sentinel.launcher.log_cap import CAP_BYTES
from sentinel.sim.drill import NotShown, shipped_drills
from sentinel.sim.drill_file import read_drill
from sentinel.sim.faults import parse_fault
from sentinel.supervisor.run_request import RunRequest
from tests.unit.told_run import write_run
from trainer.command_line import Launch, check_world, parse_arguments

DRILLS = Path(__file__).parents[3] / "policies" / "drills"


def trainer_launch(command: tuple[str, ...]) -> Launch:
    return parse_arguments(command[command.index("trainer") + 1 :])


@pytest.mark.parametrize("name", shipped_drills())
def test_the_trainer_takes_the_command_of_every_shipped_drill(name: str) -> None:
    real = read_drill(DRILLS / f"{name}.yaml", real=True).real
    command = drill_real.build_command(real)
    assert command[:3] == ("env", "CUDA_VISIBLE_DEVICES=", "OMP_NUM_THREADS=1"), "on the CPU, whatever else is there"
    launch, shape = trainer_launch(command), real.scenario.shape
    config = launch.config
    assert (launch.recipe, config.schedule.steps, config.data.batch_size, config.checkpoint.every) == (
        "micro", shape.steps, shape.batch, shape.checkpoint_every
    )  # fmt: skip
    assert config.numerics.precision == real.precision
    check_world(launch, shape.ranks)


def test_what_cannot_be_shown_is_said_and_starts_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    report = drill_real.drill_real(Path("operator"))
    assert isinstance(report, NotShown)
    assert report.text.startswith("drill operator: not shown with the real trainer: ")
    assert "sentinel drill operator simulates it" in report.text
    assert capsys.readouterr().err == ""


def test_nothing_is_started_where_it_cannot_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drill_real, "supervise", lambda *_: pytest.fail("started"))
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "notes.txt").touch()
    with pytest.raises(UsageError, match="is not empty; a drill begins a run of its own, name a new directory"):
        drill_real.drill_real(Path("kill"), tmp_path / "full")
    with pytest.raises(PolicyError, match="no-such-policy"):
        drill_real.drill_real(Path("kill"), policy="no-such-policy")
    (tmp_path / "timed.yaml").write_text("faults: ['stop@time=5']\n")
    with pytest.raises(PolicyError, match="is for the simulator only"):
        drill_real.drill_real(tmp_path / "timed.yaml")
    monkeypatch.setattr(bundled_trainer.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match="a real drill trains with the bundled trainer, and torch and numpy and trainer cannot"):
        drill_real.drill_real(Path("kill"))


def test_what_the_run_says_is_no_part_of_the_report_and_its_folder_is_its_owners(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    modes: list[int] = []

    def supervise(request: RunRequest, *_: object) -> int:
        modes.append(stat.S_IMODE(request.run_dir.stat().st_mode))
        print("a remark on the run")
        write_run(request.run_dir)
        return 0

    monkeypatch.setattr(drill_real, "supervise", supervise)
    drill_real.drill_real(Path("changed-code"), tmp_path / "run")
    out, err = capsys.readouterr()
    assert out == ""
    assert "a remark on the run\n" in err
    assert modes == [0o700]


def test_a_run_is_judged_by_its_journal_and_its_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The told run: a kill, then poison; it finished. What the file expects otherwise is said, and the run is kept."""
    run_dir = tmp_path / "run"

    def told(request: object, *_: object) -> int:
        write_run(run_dir)
        log = run_dir / "attempts" / "0001" / "logs" / "rank-00000.err"
        log.parent.mkdir(parents=True, exist_ok=True)
        log.touch()
        return 0

    monkeypatch.setattr(drill_real, "supervise", told)
    monkeypatch.setattr(drill_real, "read_log_sizes", lambda folder: {folder / "a.err": 3 * CAP_BYTES, folder / "b.err": 5})
    (tmp_path / "mine.yaml").write_text("faults: ['kill@step=9']\nexpect: {outcome: stopped}\n")
    report = drill_real.drill_real(tmp_path / "mine.yaml", run_dir)
    assert isinstance(report, drill_real.RealReport)
    assert not report.ok
    assert report.differing[0].endswith("expected stopped")
    assert report.differing[-1] == f"a.err holds {3 * CAP_BYTES} bytes, and its cap is {CAP_BYTES}"
    assert "INCIDENT 1" in report.text
    assert report.text.endswith(f"--real; the run is kept in {run_dir}")
    assert report.document["not_as_expected"] == list(report.differing)


def test_the_tense_of_a_fault_never_reaches_the_trainer() -> None:
    real = read_drill(DRILLS / "poisoned-data.yaml", real=True).real
    assert [fault.text for fault in real.scenario.faults] == ["bad_data@sample=1600-2000"]
    strange = replace(real, scenario=replace(real.scenario, faults=(parse_fault("kill@step=3:rank=1"),)))
    assert drill_real.build_command(strange)[-2:] == ("--fault", "kill@step=3:rank=1")
