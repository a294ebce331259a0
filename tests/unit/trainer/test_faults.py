import json
import signal
from pathlib import Path

import pytest

from trainer.exits import ConfigError, DataError, NonFiniteError, TrainerError
from trainer.fault_injection import process
from trainer.fault_injection.process import EDITED, InjectedCrash, due_faults, inject_fault
from trainer.faults import parse_fault

NOWHERE = Path("no-such-directory")  # most faults do not look at it


def test_the_forms_of_the_command_line():
    assert parse_fault("bad_data@sample=6400-6800").samples == (6400, 6800)
    assert parse_fault("bad_data@sample=6400-6800:share=0.25").number("share") == 0.25
    kill = parse_fault("kill@step=300:rank=1")
    assert (kill.kind, kill.step, kill.rank, kill.always) == ("kill", 300, 1, False)
    assert parse_fault("nan_grad@step=9").rank == 0
    assert parse_fault("crash@step=9:rank=2:always").always
    slow = parse_fault("slow@step=90:rank=1,for=0.5:always")
    assert (slow.kind, slow.rank, slow.number("for"), slow.always) == ("slow", 1, 0.5, True)
    left = parse_fault("exit@step=0:code=3,always")
    assert (left.step, left.number("code"), left.always) == (0, 3, True)
    assert parse_fault("kill@step=130:attempt=2").attempt == 2
    assert parse_fault("unstable@step=9").number("times") == 50


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("kil@step=3", "unknown kind 'kil'"),
        ("kill", "kill needs a place"),
        ("kill@sample=3-4", "kill needs a place"),
        ("kill@step=x", "step='x' is not a whole number"),
        ("kill@step=0", "before the first step"),
        ("kill@step=3:rank", "'rank' is not key=value"),
        ("kill@step=3:rank=-1", "rank='-1' is not a whole number"),
        ("kill@step=3:speed=1", "kill takes no 'speed'"),
        ("bad_data@sample=5-5", "is empty"),
        ("bad_data@sample=5", "sample='' is not a whole number"),
        ("bad_data@sample=5-9:rank=1", "bad_data takes no 'rank'"),
        ("bad_data@sample=5-9:share=0", "is no share"),
        ("bad_data@sample=5-9:share=many", "is no share"),
        ("bad_data@sample=5-9:always", "anyway"),
        ("slow@step=3:for=never", "for='never' is no time"),
        ("slow@step=3:for=0", "for='0' is no time"),
        ("slow@step=3:share=1", "slow takes no 'share'"),
        ("kill@step=3:for=1", "kill takes no 'for'"),
        ("kill@step=3:attempt=0", "attempt='0' is no attempt"),
        ("unstable@step=3:times=0", "times='0' is no factor"),
        ("unstable@step=3:attempt=2", "unstable takes no 'attempt'"),
        ("exit@step=3:code=256", "code='256' is no exit code"),
        ("scale_collapse@step=3:length=x", "length='x' is not a whole number"),
        ("", "unknown kind ''"),
    ],
)
def test_a_wrong_spec_is_one_sentence_with_value_place_and_remedy(text, what):
    with pytest.raises(ConfigError) as caught:
        parse_fault(text)
    message = str(caught.value)
    assert message.startswith(f"--fault {text!r}: ")
    assert what in message
    assert "; write " in message
    assert "\n" not in message


def test_a_step_fault_is_on_record_before_it_strikes_and_strikes_once_per_run(tmp_path):
    faults = (parse_fault("crash@step=5:rank=1"),)
    assert due_faults(faults, 4, 1, tmp_path) == []
    assert due_faults(faults, 5, 0, tmp_path) == []
    assert due_faults(faults, 5, 1, tmp_path) == list(faults)
    record = json.loads((tmp_path / "faults" / "crash-step-5-rank-1.json").read_text())
    assert (record["fault"], record["step"], record["rank"]) == ("crash@step=5:rank=1", 5, 1)
    assert due_faults(faults, 5, 1, tmp_path) == []


def test_an_always_fault_strikes_from_its_step_on_in_every_attempt(tmp_path):
    faults = (parse_fault("nan_grad@step=5:always"),)
    assert [len(due_faults(faults, step, 0, tmp_path)) for step in (4, 5, 6, 5, 99)] == [0, 1, 1, 1, 1]


def test_a_fault_of_one_attempt_waits_for_it(tmp_path):
    faults = (parse_fault("crash@step=5:attempt=2"),)
    assert [len(due_faults(faults, 5, 0, tmp_path, attempt)) for attempt in (1, 2, 3)] == [0, 1, 0]


def test_what_every_rank_must_know_strikes_all_of_them_in_any_order_and_never_again(tmp_path):
    faults = (parse_fault("drift@step=5:rank=1"),)
    assert [len(due_faults(faults, 5, rank, tmp_path, 1)) for rank in (1, 0, 2)] == [1, 1, 1]
    assert [len(due_faults(faults, 5, rank, tmp_path, 2)) for rank in (0, 1)] == [0, 0]


def test_leaving_carries_the_code_asked_for():
    for code, kind in ((3, ConfigError), (4, DataError), (5, NonFiniteError), (77, TrainerError)):
        with pytest.raises(kind) as caught:
            inject_fault(parse_fault(f"exit@step=2:code={code}"), 2, NOWHERE)
        assert caught.value.code == code
    assert (ConfigError.code, TrainerError.code) == (3, 1)


def test_a_flood_is_as_many_lines_as_were_asked_for(capfd):
    inject_fault(parse_fault("log_flood@step=3:lines=2500"), 3, NOWHERE)
    lines = capfd.readouterr().err.splitlines(keepends=True)
    assert len(lines) == 2500
    assert {len(line) for line in lines} == {200}


def test_two_faults_at_one_step_are_two_records(tmp_path):
    faults = (parse_fault("nan_grad@step=5"), parse_fault("crash@step=5"))
    assert len(due_faults(faults, 5, 0, tmp_path)) == 2
    assert len({fault.slug for fault in faults}) == 2


def test_strikes_are_the_real_thing(monkeypatch):
    sent = []
    monkeypatch.setattr("trainer.fault_injection.process.os.kill", lambda pid, number: sent.append(number))
    inject_fault(parse_fault("kill@step=1"), 1, NOWHERE)
    inject_fault(parse_fault("hang@step=1"), 1, NOWHERE)
    inject_fault(parse_fault("nan_grad@step=1"), 1, NOWHERE)
    assert sent == [signal.SIGKILL, signal.SIGSTOP]
    with pytest.raises(InjectedCrash, match="crash@step=1"):
        inject_fault(parse_fault("crash@step=1"), 1, NOWHERE)


def test_a_slow_rank_waits_for_as_long_as_it_is_told(monkeypatch):
    slept = []
    monkeypatch.setattr(process.time, "sleep", slept.append)
    inject_fault(parse_fault("slow@step=3:for=0.5"), 3, NOWHERE)
    assert slept == [0.5]


def test_an_edit_adds_a_line_to_the_file_that_a_drill_watches(tmp_path: Path) -> None:
    (tmp_path / EDITED).write_text("as it was\n")
    inject_fault(parse_fault("edit@step=7"), 7, tmp_path)
    assert (tmp_path / EDITED).read_text() == "as it was\nedit@step=7 at step 7\n"
