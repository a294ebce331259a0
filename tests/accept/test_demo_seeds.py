"""The demonstration with faults drawn from five printed seeds: positions, lengths and magnitudes.   make accept

Each seed runs the demonstration hurt and unhurt, 600 steps each. Faults come in drawn order; each meets a detector that is
awake (history for 60 steps) and leaves room for the probation of the one before.

The repaired run ends within 1 % of the unhurt one. Where it does not, the failure says how an unhurt run ends that leaves out the
same samples: what is left of the difference is the repair's own.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.integration.supervised import Supervised, wait_for

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]
SEEDS = (11, 23, 37, 58, 71)
STEPS, BATCH = 600, 16
CLOSE_RATIO = 0.01


@dataclass(frozen=True)
class Faults:
    bad: tuple[int, int]
    words: list[str]


def draw(seed: int) -> Faults:
    dice = random.Random(seed)
    at = [dice.randint(110, 150), dice.randint(270, 310), dice.randint(430, 470)]
    dice.shuffle(at)
    poison, kill, hang = at
    first = poison * BATCH + dice.randrange(BATCH)
    bad = (first, first + dice.randint(200, 560))
    share = round(dice.uniform(0.4, 1.0), 2)
    words = [f"bad_data@sample={bad[0]}-{bad[1]}:share={share}", f"kill@step={kill}:rank={dice.randrange(2)}"]
    words.append(f"hang@step={hang}:rank={dice.randrange(2)}")
    return Faults(bad, words)


def demo(place: Path, seed: int, options: list[str]) -> tuple[int, float, str]:
    start = time.monotonic()
    words = [sys.executable, "-m", "sentinel", "demo", "--run-dir", str(place), "--steps", str(STEPS), "--seed", str(seed)]
    done = subprocess.run([*words, *options], capture_output=True, text=True, timeout=900)
    return done.returncode, time.monotonic() - start, done.stdout + done.stderr


@pytest.mark.parametrize("seed", SEEDS)
def test_three_drawn_faults_are_repaired(tmp_path: Path, seed: int) -> None:
    faults = draw(seed)
    print(f"\nseed {seed}: {' '.join(faults.words)}")
    hurt, unhurt = tmp_path / "hurt", tmp_path / "unhurt"
    code, seconds, said = demo(hurt, seed, [word for fault in faults.words for word in ("--fault", fault)])
    assert code == 0, said
    run = Supervised(hurt, [])
    incidents = run.incidents()
    print(json.dumps([{k: i[k] for k in ("kind", "state", "onset_step", "steps_lost", "time_to_recover_s")} for i in incidents]))
    assert sorted(i["kind"] for i in incidents if not i["benign"]) == ["crash", "hang", "spike"], said
    assert {i["state"] for i in incidents} == {"recovered"}
    assert sorted(run.surviving()) == list(range(1, STEPS + 1))
    (spike,) = [i for i in incidents if i["kind"] == "spike" and not i["benign"]]
    skips = [r for remedy in spike["remedies"] for r in remedy["skip"]]
    assert any(a <= faults.bad[0] and faults.bad[1] <= b for a, b in skips), (skips, faults.bad)
    resumed = [r["rollback_to_step"] for r in spike["remedies"] if r["rollback_to_step"] is not None]
    assert all(step < spike["onset_step"] for step in resumed)
    code, _, said = demo(unhurt, seed, ["--no-faults"])
    assert code == 0, said
    assert Supervised(unhurt, []).incidents() == []
    ratio = run.surviving()[STEPS]["val_loss"] / Supervised(unhurt, []).surviving()[STEPS]["val_loss"] - 1
    goodput = run.status()["goodput"]
    print(f"seed {seed}: {seconds:.0f} s, held-out loss {ratio:+.2%} against the unhurt run, goodput {goodput:.1%}")
    if abs(ratio) >= CLOSE_RATIO:
        twin = unhurt_without(tmp_path / "twin", seed, skips)
        print(f"seed {seed}: an unhurt run without the same samples ends at {twin}, the repaired one at {ended(hurt)}")
        assert ended(hurt) == twin, "more than other samples"
    assert abs(ratio) < CLOSE_RATIO


def ended(place: Path) -> tuple[float, float]:
    """Loss of the last step, and held-out loss."""
    last = Supervised(place, []).surviving()[STEPS]
    return last["loss"], last["val_loss"]


def unhurt_without(place: Path, seed: int, skips: list[list[int]]) -> tuple[float, float]:
    """How a run without faults ends that is told in its first steps to leave these samples out."""
    words = [sys.executable, "-m", "sentinel", "demo", "--run-dir", str(place), "--steps", str(STEPS), "--seed", str(seed)]
    run = Supervised(place, [])
    with subprocess.Popen([*words, "--no-faults"], stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT) as going:
        wait_for("the first step", lambda: run.last_step(1) > 0)
        for first, end in skips:
            asked = [sys.executable, "-m", "sentinel", "skip", f"{first}-{end}", str(place)]
            subprocess.run(asked, check=True, timeout=60)
        assert going.wait(900) == 0
    assert run.attempts() == [1], "told in time: nothing was gone back behind"
    return ended(place)
