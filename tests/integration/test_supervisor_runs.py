"""A real supervisor over real processes: what breaks is repaired, what is asked is done, what cannot work says so."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import pytest

from sentinel.model.facts import CheckpointCondemned
from tests.integration.forked_sentinel import run_sentinel
from tests.integration.supervised import Supervised, double, wait_for


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "run"


def losses(run: Supervised) -> dict[int, float]:
    return {step: line["loss"] for step, line in run.surviving().items()}


def test_a_killed_trainer_is_resumed_and_ends_as_if_nothing_had_happened(place: Path, tmp_path: Path) -> None:
    plain = Supervised(tmp_path / "plain", double(200)).start()
    run = Supervised(place, double(200, kill=130)).start()
    assert (plain.wait(), run.wait()) == (0, 0), run.log
    assert losses(run) == losses(plain)
    (incident,) = run.incidents()
    assert (incident["kind"], incident["state"], incident["onset_step"]) == ("crash", "recovered", None)
    assert incident["remedies"][0]["rollback_to_step"] == 125
    assert incident["steps_lost"] == 4
    assert incident["time_to_recover_s"] is not None
    assert run.status()["state"] == "finished"
    assert not run.living()
    assert "rank 0 was killed by SIGKILL" in (place / "incidents/0001/report.html").read_text(), "told by itself"
    assert "1 incident," in (place / "report.html").read_text()


def test_a_checkpoint_with_nan_in_its_weights_is_not_resumed_from(place: Path) -> None:
    """The manifest tells no numbers: only the file does."""
    run = Supervised(place, double(200, kill=130, nan=125)).start()
    assert run.wait() == 0, run.log
    (incident,) = run.incidents()
    assert (incident["kind"], incident["state"]) == ("crash", "recovered")
    assert incident["remedies"][-1]["rollback_to_step"] == 100
    condemned = [entry.fact for entry in run.facts() if isinstance(entry.fact, CheckpointCondemned)]
    assert [(fact.step, fact.evidence) for fact in condemned] == [(125, "numbers")]
    assert condemned[0].reason == "1 of 4 values of model.safetensors (layer.3.weight) are not finite"
    said = run_sentinel("checkpoints", "verify", str(place))
    assert "all 4 values of its tensors are finite" in said.stdout


def test_a_hang_is_found_by_the_runs_own_pace_and_ended(place: Path) -> None:
    run = Supervised(place, double(160, hang=80)).start()
    assert run.wait() == 0, run.log
    (incident,) = run.incidents()
    assert (incident["kind"], incident["state"]) == ("hang", "recovered")
    assert incident["time_to_detect_s"] < 8.0, "demo.yaml's floor is 6 s"
    assert sorted(run.surviving()) == list(range(1, 161))


def test_poisoned_data_is_rolled_back_before_its_onset_and_skipped(place: Path) -> None:
    run = Supervised(place, double(260, bad="1760-2160")).start()
    assert run.wait() == 0, run.log
    (incident,) = run.incidents()
    assert (incident["kind"], incident["state"], incident["onset_step"]) == ("spike", "recovered", 111)
    worked = incident["remedies"][-1]
    assert worked["outcome"] == "worked"
    assert worked["rollback_to_step"] < incident["onset_step"]
    assert any(a <= 1760 and b >= 2160 for a, b in worked["skip"])
    trained = [r for line in run.surviving().values() for r in line["samples"]]
    assert not any(a < 2160 and b > 1760 for a, b in trained)
    assert sorted(run.surviving()) == list(range(1, 261))
    assert (place / "quarantine").is_dir() or worked["rollback_to_step"] >= 100


def test_observe_only_says_what_it_would_do_and_does_nothing(place: Path) -> None:
    run = Supervised(place, double(200, bad="1760-1900"), options=["--observe-only"]).start()
    assert run.wait() == 0, run.log
    assert run.attempts() == [1]
    (incident,) = run.incidents()
    assert all(remedy["outcome"] in ("observed", "pending", "worked", "failed") for remedy in incident["remedies"])
    assert not (place / "quarantine").exists()
    assert not (place / "overrides.json").exists()


def test_a_job_that_dies_before_its_first_step_three_times_is_broken(place: Path) -> None:
    run = Supervised(place, double(100, die=True)).start()
    assert run.wait() == 1, run.log
    assert run.attempts() == [1, 2, 3]
    crash, broken = run.incidents()
    assert [(i["kind"], i["state"]) for i in (crash, broken)] == [("crash", "exhausted"), ("broken_job", "exhausted")]
    assert broken["pages"]
    assert not crash["pages"], "one page for one cause"
    assert "broken job" in run.log
    assert "broken_job" in (place / "incidents/0002/report.html").read_text()
    assert run.status()["state"] == "failed"


def test_a_configuration_error_is_not_retried(place: Path) -> None:
    run = Supervised(place, double(100, exit=3)).start()
    assert run.wait() == 1, run.log
    assert run.attempts() == [1]
    assert run.incidents()[0]["kind"] == "broken_job"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_to_sentinel_stops_training_after_a_checkpoint(place: Path, number: signal.Signals) -> None:
    run = Supervised(place, double(5000)).start()
    wait_for("step 60", lambda: run.last_step(1) >= 60)
    assert run.child is not None
    run.child.send_signal(number)
    assert run.wait() == 130, run.log
    assert run.status()["state"] == "stopped"
    last = run.last_step(1)
    assert (place / "checkpoints" / f"step-{last:08d}" / "manifest.json").exists()
    assert not run.living()


def test_a_stopped_run_goes_on_where_it_stopped(place: Path) -> None:
    run = Supervised(place, double(300, 0.01)).start()
    wait_for("step 40", lambda: run.last_step(1) >= 40)
    stopped = run_sentinel("stop", str(place))
    assert stopped.returncode == 0, stopped.stderr
    assert run.wait() == 130
    assert run.start().wait() == 0, run.log
    assert sorted(run.surviving()) == list(range(1, 301))
    assert run.incidents() == []


def test_a_second_supervisor_is_turned_away(place: Path) -> None:
    run = Supervised(place, double(5000)).start()
    wait_for("step 5", lambda: run.last_step(1) >= 5)
    second = run_sentinel("run", "--run-dir", str(place), "--", *double(5000))
    assert second.returncode == 2
    assert "already supervised" in second.stderr
    assert run.child is not None
    run.child.send_signal(signal.SIGTERM)
    assert run.wait() == 130


def test_a_command_that_cannot_be_started_is_refused_before_there_is_a_run(place: Path) -> None:
    done = run_sentinel("run", "--run-dir", str(place), "--", "no-such-program-anywhere")
    assert done.returncode == 2
    assert "no-such-program-anywhere: is not on the PATH" in done.stderr
    assert not (place / "sentinel.db").exists()


def test_a_run_that_cannot_continue_climbs_the_ladder_and_closes_its_incidents(place: Path) -> None:
    run = Supervised(place, double(100, exit=5)).start()
    assert run.wait() == 1, run.log
    incidents = run.incidents()
    assert [i["kind"] for i in incidents] == ["non_finite"], "the same onset is the same incident"
    assert len(incidents[0]["remedies"]) > 1
    assert {i["state"] for i in incidents} == {"exhausted"}
    assert incidents[0]["pages"]


def test_a_command_of_which_nothing_was_heard_has_neither_failed_nor_finished(place: Path) -> None:
    """Before, it had failed: an unchanged trainer that had trained to its end called a person."""
    run = Supervised(place, [sys.executable, "-c", "pass"]).start()
    assert run.wait() == 0, run.log
    assert run.incidents() == []
    assert run.status()["state"] == "unobserved"
    assert "whether it trained is not known" in run.log
    again = run_sentinel("run", "--run-dir", str(place), "--", sys.executable, "-c", "pass")
    assert again.returncode == 0
    assert "ended with exit 0, unobserved; choose another --run-dir" in again.stdout


def test_such_a_command_is_not_started_again_from_the_beginning(place: Path) -> None:
    """It may have checkpoints of its own where it was started."""
    count = place.parent / "count"
    dies = [sys.executable, "-c", f"open({str(count)!r}, 'a').write('x'); raise SystemExit(1)"]
    run = Supervised(place, dies).start()
    assert run.wait() == 1, run.log
    assert count.read_text() == "x"
    assert [(i["kind"], i["state"]) for i in run.incidents()] == [("crash", "exhausted")]
    assert "might overwrite checkpoints that sentinel does not know" in run.log


def test_unless_somebody_has_said_that_it_may_be(place: Path) -> None:
    count = place.parent / "count"
    dies = [sys.executable, "-c", f"open({str(count)!r}, 'a').write('x'); raise SystemExit(1)"]
    run = Supervised(place, dies, options=["--with", "restart"]).start()
    assert run.wait() == 1, run.log
    assert len(count.read_text()) > 1


def test_a_trainer_that_only_repeats_what_it_was_asked_is_caught_in_its_first_attempt(place: Path) -> None:
    """It trains on what was to be left out; its receipt repeats the request. Before, it passed, attempt after attempt."""
    run = Supervised(place, double(240, 0.01, liar=True, bad="1760-2160")).start()
    assert run.wait() == 1, run.log
    kinds = [i["kind"] for i in run.incidents()]
    assert kinds == ["spike", "override_mismatch"]
    assert "which were to be left out" in run.incidents()[1]["reason"]
    (first, *later) = [one for one in run.incidents()[0]["remedies"] if one["skip"]]
    assert not later, "the first attempt that lies is the last"
    assert [(one["key"], one["grade"]) for one in first["proofs"]] == [("skip", "contradicted")]


def test_one_wild_line_does_not_blind_the_run(place: Path) -> None:
    run = Supervised(place, double(240, 0.01, bad="1760-2160")).start()
    wait_for("step 20", lambda: run.last_step(1) >= 20)
    with open(place / "attempts" / "0001" / "metrics.jsonl", "a") as stream:
        stream.write('{"kind":"step","step":900000000000,"loss":2}\n')
    assert run.wait() == 0, run.log
    assert [(i["kind"], i["state"]) for i in run.incidents()] == [("spike", "recovered")]
    assert run.status()["step"] == 240
