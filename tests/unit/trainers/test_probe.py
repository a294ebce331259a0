"""What a probe starts, what it refuses, and what it concludes from what it saw. No trainer is started here."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from sentinel.cli.root import main
from sentinel.errors import UsageError
from sentinel.model.readings import Receipt, StepReading
from sentinel.telemetry.log_formats import open_log
from sentinel.trainers.adding import PRINTED_LINE
from sentinel.trainers.probe.document import probe_document
from sentinel.trainers.probe.judging import expected_grades, find_missing, resume_grade
from sentinel.trainers.probe.recognise import candidates, profiles_of_format
from sentinel.trainers.probe.seen import Launch, ProbedCheckpoint, Return, Seen
from sentinel.trainers.probe.text import probe_text, what_it_will_write
from sentinel.trainers.probe.trial import Trial, plan_trial

MEGATRON = (sys.executable, "pretrain_gpt.py", "--save", "out", "--lr", "3e-4", "--clip-grad=1.0")


def a_launch(
    steps: tuple[int, ...] = (1, 2, 3), names: tuple[str, ...] = ("loss", "grad_norm", "lr"), status: int | None = None
) -> Launch:
    rows = tuple(StepReading(1, step, float(step), (), dict.fromkeys(names, 1.0)) for step in steps)
    receipt = Receipt(1, 0.0, 0, None, 1, {}, {}) if steps else None
    return Launch(3.0, "steps" if status is None else "exit", status, receipt, rows, (), 1, ("last words",))


def a_kept(step: int = 10) -> ProbedCheckpoint:
    return ProbedCheckpoint(step, f"iter_{step:07d}", 1 << 20, True, (), "reflink", 0.5)


def a_trial(tmp_path: Path, named: str | None = None, command: tuple[str, ...] = MEGATRON) -> Trial:
    return plan_trial(command, str(tmp_path), named, tmp_path / "probe", as_it_is=False)


def test_a_trainer_is_recognised_by_the_flags_of_the_profile_that_stand_in_its_command() -> None:
    (first, second) = candidates(MEGATRON)
    assert first.flags == ("--save", "--lr", "--clip-grad")
    assert {first.profile, second.profile} == {"megatron", "megatron-deepspeed"}
    assert candidates(("python", "x.py", "--output_dir=o"))[0].profile == "hf-trainer"
    assert candidates(("python", "x.py", "--lr", "1")) == ()
    assert profiles_of_format("progress") == ("hf-trainer",)


def test_the_folder_of_the_checkpoints_is_the_probe_s_own(tmp_path: Path) -> None:
    trial = a_trial(tmp_path)
    assert trial.asked == "megatron"
    assert trial.command[2:4] == ("--save", str(tmp_path / "probe/trainer"))
    assert trial.real_root == tmp_path / "out"
    said = "\n".join(what_it_will_write(trial, tmp_path / "probe", is_kept=False))
    assert "--save out is replaced for the probe" in said
    assert "is removed at the end" in said
    equals = a_trial(tmp_path, None, (sys.executable, "x.py", "--output_dir=o"))
    assert equals.command[2] == f"--output_dir={tmp_path / 'probe/trainer'}"


def test_files_that_are_not_known_are_not_written_over(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data/iter_0000010").mkdir()
    with pytest.raises(UsageError, match=r"there is iter_0000010; name an empty folder"):
        a_trial(tmp_path, "megatron:root=data")
    with pytest.raises(UsageError, match=r"where it writes is not known.*--as-it-is"):
        a_trial(tmp_path, None, (sys.executable, "train.py"))
    allowed = plan_trial((sys.executable, "train.py"), str(tmp_path), None, tmp_path / "probe", as_it_is=True)
    assert allowed.asked == "exit-only"
    command = (*MEGATRON[:3], "data", *MEGATRON[4:])
    with pytest.raises(UsageError, match=r"data: the trainer would write there"):
        a_trial(tmp_path, "megatron:root=elsewhere", command)  # the command says something else than the option
    assert a_trial(tmp_path, "megatron:root=empty").root == tmp_path / "empty"


def test_other_folders_of_the_command_are_named(tmp_path: Path) -> None:
    (tmp_path / "boards").mkdir()
    trial = a_trial(tmp_path, None, (*MEGATRON, "--tensorboard-dir", "boards"))
    assert trial.named_folders == ("boards",)


def test_nothing_is_missing_of_a_megatron_that_goes_on_where_it_was_asked_to(tmp_path: Path) -> None:
    trial = a_trial(tmp_path)
    seen = Seen(a_launch(), 10, (a_kept(),), back=Return(10, 10, "steps", None))
    assert find_missing(trial, seen) == ()
    assert resume_grade(seen) == "observed"
    assert expected_grades(trial.profile, seen.first) == {
        "lr_scale": "observed",
        "clip_norm": "asserted",
        "checkpoint_interval": "asserted",
        "data_seed": "asserted",
        "skip": "observed",
    }


def test_a_skip_in_rows_of_every_tenth_step_can_only_be_asserted(tmp_path: Path) -> None:
    trial = a_trial(tmp_path)
    assert expected_grades(trial.profile, a_launch((10, 20, 30)))["skip"] == "asserted"
    assert expected_grades(trial.profile, a_launch(names=("loss",)))["lr_scale"] == "asserted"


@pytest.mark.parametrize(
    ("seen", "lacks"),
    [
        (Seen(a_launch(()), 10, ()), ["rows", "checkpoints"]),
        (Seen(a_launch((), status=2), 10, ()), ["start", "rows", "checkpoints"]),
        (Seen(a_launch(()), 10, (a_kept(),), printed=("progress",)), ["rows", "format"]),
        (Seen(a_launch(names=("loss", "lr")), 10, (a_kept(),)), ["metric"]),
        (Seen(a_launch(), 10, (a_kept(),), back=Return(10, 0, "steps", None)), ["resume"]),
        (Seen(a_launch(), 10, (a_kept(),), back=Return(10, None, "time", None)), ["resume_unknown"]),
        (Seen(a_launch(), 10, (a_kept(),), back=Return(10, None, "exit", 2, (), ("--load",))), ["resume_refused"]),
        (Seen(a_launch(), None, (a_kept(),), refused=("--save-interval",)), ["save_refused"]),
        (Seen(a_launch((*range(1, 11), *range(1, 6))), 10, (a_kept(),), back=Return(10, 0, "steps", None)), ["steps"]),
    ],
)
def test_what_is_missing_is_said_with_the_line_that_would_add_it(tmp_path: Path, seen: Seen, lacks: list[str]) -> None:
    trial = a_trial(tmp_path)
    assert [one.lack for one in find_missing(trial, seen)] == lacks
    document = probe_document(trial, seen, tmp_path, is_kept=True)
    text = probe_text(trial, seen, tmp_path, is_kept=True)
    for one in document["missing"]:
        assert one["remedy"]
        assert one["sentence"] in text


def test_of_a_trainer_that_died_first_nothing_else_is_advised(tmp_path: Path) -> None:
    document = probe_document(a_trial(tmp_path), Seen(a_launch((), status=2), 10, ()), tmp_path, is_kept=True)
    remedies = {one["lack"]: one["remedy"] for one in document["missing"]}
    assert remedies["start"] == "read the end of what it printed"
    assert remedies["rows"] == remedies["checkpoints"] == "it died before one could come"


def test_what_it_leaves_in_the_trainers_own_folder_is_named(tmp_path: Path) -> None:
    """A trainer that goes on from its newest by itself would begin the run with what the probe has trained."""
    seen = Seen(a_launch(), 10, (a_kept(), a_kept(20)))
    own = a_trial(tmp_path, "megatron:root=own", (sys.executable, "x.py"))
    text = probe_text(own, seen, tmp_path, is_kept=True)
    assert f"left in {tmp_path / 'own'}: {a_kept().name}, {a_kept(20).name}; move them away before a run" in text
    assert "left in" not in probe_text(a_trial(tmp_path), seen, tmp_path, is_kept=True)


def test_a_resume_that_no_row_told_of_is_not_contradicted(tmp_path: Path) -> None:
    assert resume_grade(Seen(a_launch(), 10, (a_kept(),), back=Return(10, None, "time", None))) == "none"
    assert resume_grade(Seen(a_launch(), 10, (a_kept(),), back=Return(10, 0, "steps", None))) == "contradicted"
    both = (a_kept(), a_kept(20))
    assert resume_grade(Seen(a_launch(), 10, both, back=Return(10, 20, "steps", None))) == "contradicted"  # it took the newest
    assert resume_grade(Seen(a_launch(), 10, both, back=Return(10, 11, "steps", None))) == "none"


def test_the_line_that_is_recommended_can_be_read(tmp_path: Path) -> None:
    log = tmp_path / "out.log"
    log.write_text("hello\n" + f"{PRINTED_LINE}\n" * 2)
    format, reader = open_log(log)
    assert format == "text"
    row = [*reader.poll(0.0), *reader.finish()][0]
    assert row.step == 120
    assert dict(row.metrics) == {"loss": 2.3172, "grad_norm": 0.84, "lr": 3e-4}


@pytest.mark.parametrize(
    "words",
    [
        ["probe"],
        ["probe", "--time", "soon", "--", "true"],
        ["probe", "--", "no-such-program"],
        ["probe", "--", "true"],
        ["probe", "--trainer", "megatorn", "--", "true"],
        ["probe", "--trainer", "megatron", "--", "true"],
        ["probe", "--run-dir", ".", "--", "true"],
    ],
    ids=" ".join,
)
def test_a_wrong_word_starts_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], words: list[str]
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["sentinel", *words])
    with pytest.raises(SystemExit) as left:
        main()
    assert left.value.code == 2
    assert capfd.readouterr().err.strip()
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
