"""`sentinel doctor`: what is seen of a run, what is not and why, and what is only not known yet."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sentinel.cli.root import app
from sentinel.journal.run_file import PolicyReference, RunFile, read_run_file
from sentinel.model.attempts import SettingsInForce
from sentinel.model.proof import Proof
from sentinel.model.state import Attempt, Checkpoint, RunState
from sentinel.report.doctor import checks, patient
from sentinel.report.doctor.checks import examine
from sentinel.report.doctor.patient import Check, Patient
from sentinel.report.doctor.telling import doctor_document, doctor_text, exit_code
from sentinel.trainers.loading import load_profile
from sentinel.trainers.spec import TrainerSpec
from tests.unit.told_run import write_run, write_stream

ATTEMPT = Attempt(1, 0.0, None, SettingsInForce(), "first launch")


def a_patient(tmp_path: Path, profile: str = "megatron", alive: bool | None = True, now_s: float = 10.0) -> Patient:
    run = RunFile("r", ("python", "x.py", "--save", "out"), "/", PolicyReference("default", "", "default"), "local", "")
    trainer = load_profile(profile)
    spec = TrainerSpec(trainer, run.command, {}, str(tmp_path), tmp_path / "out", {}, None, True)
    state = RunState(run_id="r", attempts=(ATTEMPT,), capabilities=trainer.capabilities, settable=trainer.settings)
    return Patient(tmp_path / "run", run, state, ATTEMPT, alive, now_s, spec)


def found(one: Patient, topic: str) -> list[Check]:
    return [check for look in checks.LOOKS for check in look(one) if check.topic == topic]


@pytest.mark.parametrize("topic", ["rows", "receipt", "heartbeats", "checkpoints"])
def test_what_may_still_come_is_unknown_and_then_missing(tmp_path: Path, topic: str) -> None:
    (young,) = found(a_patient(tmp_path), topic)
    (dead,) = found(a_patient(tmp_path, alive=False), topic)
    (unseen,) = found(a_patient(tmp_path, alive=None), topic)
    assert (young.standing, dead.standing, unseen.standing) == ("unknown", "missing", "unknown")
    assert young.remedy
    assert dead.remedy


def test_rows_that_do_not_come_in_ten_minutes_are_missing(tmp_path: Path) -> None:
    (check,) = found(a_patient(tmp_path, now_s=patient.YOUNG_S), "rows")
    assert check.standing == "missing"
    assert "nothing that was printed reads as megatron" in check.what


@pytest.mark.timeout(20)
def test_a_pipe_in_the_place_of_what_the_follower_said_keeps_nobody_waiting(tmp_path: Path) -> None:
    errors = tmp_path / "run/attempts/0001/logs/follower.err"
    errors.parent.mkdir(parents=True)
    os.mkfifo(errors)
    (check,) = found(a_patient(tmp_path, alive=False), "rows")
    assert "nothing that was printed reads as megatron" in check.what
    errors.unlink()
    errors.write_text("Traceback\n\nValueError: the last words")
    (check,) = found(a_patient(tmp_path, alive=False), "rows")
    assert "the follower says ValueError: the last words" in check.what


def test_the_profile_that_fits_what_lies_there_is_named(tmp_path: Path) -> None:
    (tmp_path / "out/checkpoint-50").mkdir(parents=True)
    (check,) = found(a_patient(tmp_path), "profile")
    assert "there are checkpoint-50: --trainer hf-trainer?" in check.what
    assert check.remedy == "start the run again with --trainer hf-trainer"


def test_checkpoints_that_lie_there_and_are_not_sealed_are_not_said_to_be_none(tmp_path: Path) -> None:
    for step in (20, 40):
        (tmp_path / f"out/iter_{step:07d}").mkdir(parents=True)
    (tmp_path / "out/latest_checkpointed_iteration.txt").write_text("40")
    (check,) = found(a_patient(tmp_path, alive=False), "checkpoints")
    assert check.standing == "missing"
    assert check.what == f"none is sealed; of this run 2 lie in {tmp_path / 'out'}, the newest of step 40"


def test_what_the_follower_could_not_do_is_told(tmp_path: Path) -> None:
    logs = tmp_path / "run/attempts/0001/logs"
    logs.mkdir(parents=True)
    (logs / "follower.err").write_text("out: checkpoints cannot be sealed: no space\n")
    (check,) = found(a_patient(tmp_path, alive=False), "rows")
    assert "the follower says out: checkpoints cannot be sealed: no space" in check.what


def test_another_profile_is_tried_by_what_was_printed(tmp_path: Path) -> None:
    logs = tmp_path / "run/attempts/0001/logs"
    logs.mkdir(parents=True)
    line = " iteration {}/ 100 | lm loss: 2.0E+00 | grad norm: 1.0 |\n"
    (logs / "launcher.out").write_text(line.format(1) + line.format(2))
    (check,) = found(a_patient(tmp_path, "hf-trainer", alive=False), "rows")
    assert "sentinel probe --trainer megatron -- python x.py --save out" in check.remedy


def test_proofs_rungs_sources_and_checkpoints_stand_with_their_reason(tmp_path: Path) -> None:
    attempt = replace(
        ATTEMPT, proofs=(Proof("lr_scale", "observed"), Proof("clip_norm", "asserted"), Proof("skip", "contradicted"))
    )
    one = a_patient(tmp_path, "hf-trainer")
    good, bad = Checkpoint(20, "a", 1, 0), Checkpoint(40, "b", 1, 0, condemned="behind an onset")
    state = replace(one.state, attempts=(attempt,), blind={"metrics": "stale file handle"}, checkpoints=(good, bad))
    one = replace(one, state=state, attempt=attempt)
    assert [check.standing for check in found(one, "proof")] == ["fine", "note", "missing"]
    assert found(one, "source")[0].what == "metrics cannot be read: stale file handle"
    assert found(one, "checkpoints")[0].what == (
        "1 are not known to be damaged, the newest of step 20; none was read whole yet"
    )
    rungs = found(one, "rung")
    assert any("the trainer cannot skip samples" in check.what for check in rungs)
    assert {check.standing for check in rungs} == {"note"}
    word = "the trainer refused its argument --learning_rate (attempt 2)"
    rungs = found(replace(one, state=replace(state, refused=(("lr_scale", word),))), "rung")
    assert any(check.what.endswith(f"is passed over: {word}") for check in rungs)
    (none,) = found(replace(one, state=replace(state, checkpoints=(bad,))), "checkpoints")
    assert "behind an onset" in none.what


def test_a_whole_run_is_told_as_text_document_and_exit_code(tmp_path: Path) -> None:
    run_dir = write_run(tmp_path / "run", until=91)
    write_stream(run_dir, 2, range(101, 110))
    told = CliRunner().invoke(app, ["doctor", str(run_dir), "--json"])
    document = json.loads(told.stdout)
    standing = {check["topic"]: check["standing"] for check in document["checks"]}
    assert told.exit_code == 1
    assert not document["ok"]
    assert (standing["rows"], standing["receipt"], standing["policy"]) == ("fine", "fine", "fine")
    assert standing["supervisor"] == "missing"
    text = CliRunner().invoke(app, ["doctor", str(run_dir)]).stdout
    assert f"remedy: sentinel run --run-dir {run_dir}" in text
    assert read_run_file(run_dir).id == "demo"  # nothing was changed


def test_only_what_is_fine_or_worth_a_note_ends_with_0() -> None:
    fine, note = Check("rows", "fine", "x"), Check("rung", "note", "y", "z")
    assert exit_code([fine, note]) == 0
    assert exit_code([fine, Check("rows", "unknown", "x", "y")]) == 1
    assert doctor_document(Path("r"), [fine])["ok"]
    assert doctor_text([note]) == "note  rung: y\n        remedy: z"


def test_a_folder_that_holds_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Exception, match=r"holds no run\.json"):
        examine(tmp_path)
