"""A person halves the rate of a real run for a while: sentinel takes it back, watches, and says what the schedule lost."""

from __future__ import annotations

from pathlib import Path

from sentinel.model import facts as f
from sentinel.model.actions import WriteOverrides
from tests.integration.forked_sentinel import run_sentinel
from tests.integration.supervised import Supervised, double, wait_for

STEPS = 600  # thirty seconds, until it may hurry: the person's command may start slowly


def test_a_setting_lapses_under_watch_and_the_ledger_says_what_it_cost(tmp_path: Path) -> None:
    run = Supervised(tmp_path / "run", double(STEPS, 0.05, hurried=True)).start()
    wait_for("a training run", lambda: run.last_step(1) > 10)
    asked = run_sentinel("set", "lr=0.5x", "until=40 steps", str(run.run_dir))
    assert asked.returncode == 0, asked.stderr
    wait_for("the verdict", lambda: "lapse proven" in run.log or run.has_ended)
    (run.run_dir / "hurry").touch()
    assert run.wait() == 0, run.log
    facts = [entry.fact for entry in run.facts()]
    (lapsed,) = [fact for fact in facts if isinstance(fact, f.SettingLapsed)]
    (judged,) = [fact for fact in facts if isinstance(fact, f.LapseJudged)]
    assert (lapsed.keys, lapsed.by_trainer, judged.outcome) == (("lr_scale",), False, "proven")
    halved = [step for step, line in run.surviving().items() if line["lr"] == 0.5]
    written = [fact.action for fact in facts if isinstance(fact, f.ActionDecided) and isinstance(fact.action, WriteOverrides)]
    asked_at = written[0].step  # `until` counts from there; the trainer looks once a step, and obeys some steps later
    assert asked_at < halved[0], "nothing is halved before it is asked for"
    assert asked_at + 40 <= lapsed.step <= halved[-1] <= lapsed.step + 80, "a tick, and the trainer's own look, after it was due"
    assert run.surviving()[STEPS]["lr"] == 1.0
    said = run.status()["schedule"]
    assert said["steps_under"] == {"lr_scale": len(halved)}
    assert said["full_rate_steps_lost"] == len(halved) / 2
    told = run_sentinel("lineage", str(run.run_dir)).stdout
    assert f"{len(halved) / 2:g} full-rate steps lost" in told
    assert run.incidents() == []
