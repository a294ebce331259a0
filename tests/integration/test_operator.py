"""A person at a live run: real supervisor, real trainer process, the real commands."""

from __future__ import annotations

from pathlib import Path

from tests.integration.forked_sentinel import run_sentinel
from tests.integration.supervised import Supervised, double, wait_for

STEPS = 1500  # two minutes at least, until it may hurry: one that ends while a busy machine starts commands cannot be operated


def asked(run: Supervised, *words: str) -> tuple[int, str]:
    done = run_sentinel(*words, str(run.run_dir))
    return done.returncode, (done.stdout + done.stderr).strip()


def test_a_person_changes_holds_resumes_and_rolls_back_a_live_run(tmp_path: Path) -> None:
    run = Supervised(tmp_path / "run", double(STEPS, 0.1, hurried=True)).start()
    wait_for("thirty steps", lambda: run.last_step(1) > 30)
    assert asked(run, "set", "lr=0.5x") == (0, "asked of the trainer: lr_scale 0.5")
    wait_for("the slower rate", lambda: any(line.get("lr") == 0.5 for line in run.lines(1)))

    code, words = asked(run, "skip", "19200-19232")
    assert code == 0
    assert "will be left out" in words

    assert asked(run, "rollback", "--to", "25")[0] == 0
    wait_for("the second attempt", lambda: run.last_step(2) > 30)
    start = run.lines(2)[0]
    assert (start["resume_step"], start["effective"]["lr_scale"]) == (25, 0.5), "what a person set holds after a relaunch"

    assert asked(run, "hold")[0] == 0
    wait_for("the hold", lambda: run.status()["state"] == "held")
    code, words = asked(run, "set", "lr=configured")
    assert code == 1
    assert "no attempt lives" in words
    held_at = run.last_step(2)
    assert asked(run, "resume")[0] == 0
    wait_for("the third attempt", lambda: run.last_step(3) > held_at)
    assert run.lines(3)[0]["resume_step"] == held_at, "nothing was lost: a checkpoint was written first"

    assert asked(run, "pause")[0] == 0
    assert run.status()["state"] == "paused"
    assert asked(run, "ack", "1")[0] == 1
    assert asked(run, "resume")[0] == 0
    assert asked(run, "set", "lr=configured")[0] == 0
    wait_for("the configured rate", lambda: any(line.get("lr") == 1.0 for line in run.lines(3)))
    (run.run_dir / "hurry").touch()
    assert run.wait() == 0, run.log
    steps = run.surviving()
    assert sorted(steps) == list(range(1, STEPS + 1))
    assert steps[STEPS]["lr"] == 1.0
    trained = [r for line in steps.values() for r in line["samples"]]
    assert not any(a < 19232 and b > 19200 for a, b in trained)
    assert not run.incidents()
    assert not list((tmp_path / "run" / "inbox").iterdir())

    code, words = asked(run, "pause")
    assert code == 2
    assert "nobody supervises this run: it has finished" in words


def test_a_run_that_failed_in_the_night_is_answered_in_the_morning_and_started_again(tmp_path: Path) -> None:
    run = Supervised(tmp_path / "run", double(1, exit=3)).start()
    assert run.wait() == 1, run.log
    (page,) = run.status()["pages"]
    assert [told["state"] for told in page["told"]] == ["delivered"]

    code, words = asked(run, "ack", "1")
    assert code == 0
    assert "incident 1 is acknowledged by " in words
    assert "acknowledged by " in words, "and told on the terminal, where the page had been"
    noted = run_sentinel("note", str(run.run_dir), "the script trained nothing")
    assert (noted.returncode, noted.stdout) == (0, "noted\n")
    assert run.status()["state"] == "failed", "answering launches nothing"

    assert run.start().wait() == 1, run.log
    first, second = (incident["page"] for incident in run.incidents())
    assert "the run had failed, and was started again" in first["resolved"]
    assert (second["open"], second["acknowledged_by"]) == (True, "")
    assert asked(run, "resolve", "2")[0] == 0
    assert run.status()["pages"] == []
