"""What the trainer promises: a hurt run ends equal to the unhurt one, and a rollback trains on what was planned."""

import random

import pytest

from tests.integration.test_trainer_launch import launch
from trainer.checkpoint import list_steps

__all__ = ["launch"]
RANKS, KILLS = 2, 3


def state_of(attempt, step):
    """Weights, moments and random streams, byte for byte."""
    folder = attempt.run_dir / "checkpoints" / f"step-{step:08d}"
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.suffix in (".distcp", ".bin")}


def check_equal_after_kills(launch, steps, every, seed, *settings, preset="micro"):
    """Run A: unhurt. Run B: killed three times at drawn steps, on drawn ranks, and resumed from its newest checkpoint."""
    drawn = random.Random(seed)
    kills = sorted(drawn.sample(range(every + 2, steps), KILLS))
    print(f"seed {seed}: {settings}: killed before steps {kills}")
    sizes = ("--preset", preset, "--set", f"schedule.steps={steps}", f"checkpoint.every={every}", *settings)
    faults = [word for step in kills for word in ("--fault", f"kill@step={step}:rank={drawn.randrange(RANKS)}")]
    unhurt = launch(1, *sizes, ranks=RANKS, run="unhurt").finish()
    lineage, resume = {}, None
    for number in range(1, KILLS + 1):
        attempt = launch(number, *sizes, *faults, ranks=RANKS, resume=resume, run="hurt")
        assert attempt.wait() != 0
        lineage |= attempt.steps()
        resume = list_steps(attempt.run_dir / "checkpoints")[-1]
        assert resume < kills[number - 1]
    final = launch(KILLS + 1, *sizes, *faults, ranks=RANKS, resume=resume, run="hurt").finish()
    assert final.receipt()["resume_step"] == resume
    assert (lineage | final.steps()) == unhurt.steps()
    assert len(unhurt.steps()) == steps
    assert state_of(final, steps) == state_of(unhurt, steps)
    assert len([name for name in state_of(final, steps) if name.startswith("rng-")]) == RANKS


# fp16 has the most to resume: its loss scale, too. The others, and 200 steps of each, are part of `make accept`.
@pytest.mark.parametrize("precision", [*(pytest.param(name, marks=pytest.mark.slow) for name in ("fp32", "bf16")), "fp16"])
def test_killed_three_times_it_ends_equal_to_the_bit(launch, precision):
    check_equal_after_kills(launch, 44, 6, 20261122, f"numerics.precision={precision}", "evaluation.every=9")


@pytest.mark.parametrize("ranks", [1, 2])
def test_after_a_rollback_with_a_skip_list_exactly_the_planned_samples_are_trained_on(launch, ranks):
    sizes = ("--set", "schedule.steps=12", "checkpoint.every=4")
    launch(1, *sizes, ranks=ranks).finish()
    skip = [[18, 23], [30, 31], [40, 52]]
    again = launch(2, *sizes, ranks=ranks, resume=4, overrides={"skip": skip}).finish()
    trained = [index for line in again.steps().values() for start, end in line["samples"] for index in range(start, end)]
    left_out = {index for start, end in skip for index in range(start, end)}
    planned = [index for index in range(16, 200) if index not in left_out][: 8 * 4]
    assert trained == planned
    assert sorted(again.steps()) == list(range(5, 13))
