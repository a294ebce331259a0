import math

import pytest

from trainer.command_line import parse_arguments
from trainer.config.loading import load_config
from trainer.fault_injection.wrappers import UnstableSchedule
from trainer.schedule import Schedule, batch_stages


def schedule_of(*sets):
    return Schedule(load_config("tiny", sets=sets))


def test_the_schedule_warms_up_and_ends_at_the_minimum():
    schedule = schedule_of("optim.lr=1e-3", "schedule.warmup_steps=10", "schedule.steps=100")
    rates = [schedule.lr(step) for step in range(1, 101)]
    assert rates[0] == pytest.approx(1e-4)
    assert rates[9] == max(rates) == 1e-3
    assert rates[-1] == pytest.approx(1e-4)
    assert all(math.isfinite(rate) and rate > 0 for rate in rates)
    assert schedule_of("optim.lr=2e-3", "schedule.warmup_steps=0").lr(1) <= 2e-3


def test_a_straight_line_and_a_stable_stretch():
    linear = schedule_of(
        "optim.lr=1", "schedule.kind=linear", "schedule.warmup_steps=0", "schedule.steps=100", "schedule.min_lr_ratio=0"
    )
    assert [linear.lr(step) for step in (25, 50, 100)] == pytest.approx([0.75, 0.5, 0.0])
    wsd = schedule_of(
        "optim.lr=1", "schedule.kind=wsd", "schedule.warmup_steps=10", "schedule.steps=100", "schedule.min_lr_ratio=0"
    )
    assert [wsd.lr(step) for step in (10, 50, 80, 90, 100)] == pytest.approx([1, 1, 1, 0.5, 0])
    late = schedule_of("optim.lr=1", "schedule.kind=wsd", "schedule.steps=100", "schedule.decay_share=0.5")
    assert [late.lr(step) for step in (50, 75, 100)] == pytest.approx([1, 0.55, 0.1])
    constant = schedule_of("optim.lr=1", "schedule.kind=constant", "schedule.steps=100")
    assert constant.lr(100) == 1


def test_a_warm_up_by_samples_follows_the_batch_ramp():
    schedule = schedule_of(
        "optim.lr=1", "schedule.warmup_samples=100", "schedule.batch_ramp=[4, 4, 96]", "schedule.kind=constant"
    )
    assert schedule.lr(1) == pytest.approx(0.04)
    samples = [schedule.samples_before(step + 1) for step in range(1, 40)]
    assert [schedule.lr(step) for step in range(1, 40)] == pytest.approx([min(1.0, count / 100) for count in samples])


@pytest.mark.parametrize("ramp", ["[4, 4, 96]", "[1, 1, 7]", "[8, 8, 10000]", "[2, 7, 50]"])
def test_the_batch_ramp_is_the_same_seen_from_any_step(ramp):
    schedule = schedule_of(f"schedule.batch_ramp={ramp}")
    samples = 0
    for step in range(1, 400):
        assert schedule.samples_before(step) == samples
        samples += schedule.batch_size(step)
    sizes = [schedule.batch_size(step) for step in range(1, 3000)]
    assert sizes == sorted(sizes)
    assert sizes[-1] == 16
    assert set(schedule.batch_sizes()) == set(sizes)


def test_a_batch_ramp_ends_with_its_samples():
    start, increment, samples = 4, 4, 96
    last = batch_stages(load_config("tiny", sets=[f"schedule.batch_ramp=[{start}, {increment}, {samples}]"]))[-1]
    assert samples <= last.samples < samples + 16


def test_tokens_are_told_for_a_step_only_where_all_steps_have_as_many():
    """Times the step it is taken for a count; of a ramp's first step that would be off by the whole ramp, for ever."""
    assert schedule_of().tokens_per_step == 16 * 128
    assert schedule_of("schedule.batch_ramp=[4, 4, 96]").tokens_per_step is None
    assert schedule_of("schedule.seq_ramp=[32, 10]").tokens_per_step is None


def test_the_sequence_length_grows_in_eights():
    schedule = schedule_of("schedule.seq_ramp=[16, 50]")
    lengths = [schedule.seq_len(step) for step in range(1, 60)]
    assert lengths[0] == 16
    assert lengths == sorted(lengths)
    assert lengths[50:] == [128] * 9
    assert all(length % 8 == 0 for length in lengths)
    assert schedule.tokens(1) == 16 * 16


def test_weight_decay_moves_along_a_cosine():
    schedule = schedule_of("schedule.weight_decay_end=0.4", "schedule.steps=100")
    assert [schedule.weight_decay(step) for step in (0, 50, 100)] == pytest.approx([0.1, 0.25, 0.4])
    assert schedule_of().weight_decay(60) == 0.1


def test_too_high_a_rate_is_the_schedules_own_from_its_step_on():
    launch = parse_arguments(["--set", "schedule.steps=100", "--fault", "unstable@step=60:times=50"])
    right, wrong = Schedule(launch.config), UnstableSchedule(launch.config, launch.faults)
    factors = [wrong.lr(step) / right.lr(step) for step in range(1, 101)]
    assert factors == pytest.approx([1.0] * 59 + [50.0] * 41)
