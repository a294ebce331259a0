import dataclasses
import math
import subprocess
import sys
from pathlib import Path

import pytest

import trainer
from trainer.config import PRESETS, check_world, parse_arguments, with_precision
from trainer.exits import ConfigError

ROOT = Path(trainer.__file__).parents[1]


def test_the_defaults_are_the_demonstration():
    config = parse_arguments([])
    assert (config.preset, config.steps, config.seed, config.data_seed) == ("tiny", 600, 1337, 1337)
    assert (config.batch_size, config.seq_len, config.checkpoint_every, config.precision) == (16, 128, 50, "fp32")
    assert config.lr == PRESETS["tiny"].lr
    assert parse_arguments(["--seed", "5"]).data_seed == 5
    assert parse_arguments(["--seed", "5", "--data-seed", "6"]).data_seed == 6


@pytest.mark.parametrize(
    "arguments",
    [
        ["--steps", "0"], ["--steps", "many"], ["--preset", "huge"], ["--lr", "nan"], ["--lr", "-1"], ["--clip-norm", "0"],
        ["--betas", "0.9", "1"], ["--batch-size", "0"], ["--precision", "fp8"], ["--min-lr-ratio", "2"],
        ["--weight-decay", "inf"], ["--nonsense"], ["--fault", "x@y"], ["--seed", "-1"], ["--threads", "0"],
    ],
)  # fmt: skip
def test_a_bad_value_is_one_sentence_that_names_it(arguments):
    with pytest.raises(ConfigError) as caught:
        parse_arguments(arguments)
    assert arguments[0] in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_world_must_fit_the_batch_and_the_faults():
    config = parse_arguments(["--fault", "kill@step=3:rank=2"])
    with pytest.raises(ConfigError, match=r"--batch-size 16.*use 18"):
        check_world(config, 3)
    with pytest.raises(ConfigError, match="rank=2 does not exist"):
        check_world(config, 2)


def test_precision_can_be_replaced_and_is_checked():
    config = parse_arguments([])
    assert with_precision(config, None) is config
    assert with_precision(config, "bf16").precision == "bf16"
    with pytest.raises(ConfigError, match="fp8"):
        with_precision(config, "fp8")


def test_the_schedule_warms_up_and_ends_at_the_minimum():
    config = parse_arguments(["--lr", "1e-3", "--warmup-steps", "10", "--steps", "100", "--min-lr-ratio", "0.1"])
    rates = [config.schedule(step) for step in range(1, 101)]
    assert rates[0] == pytest.approx(1e-4)
    assert rates[9] == max(rates) == 1e-3
    assert rates[-1] == pytest.approx(1e-4)
    assert all(math.isfinite(rate) and rate > 0 for rate in rates)
    assert dataclasses.replace(config, warmup_steps=0).schedule(1) <= 1e-3


def test_too_high_a_rate_is_the_schedules_own_from_its_step_on():
    right = parse_arguments(["--steps", "100"])
    wrong = parse_arguments(["--steps", "100", "--fault", "unstable@step=60:times=50"])
    factors = [wrong.schedule(step) / right.schedule(step) for step in range(1, 101)]
    assert factors == pytest.approx([1.0] * 59 + [50.0] * 41)


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [(["--help"], 0, "bad_data@sample=A-B"), (["--fault", "kil@step=3"], 3, "trainer: --fault 'kil@step=3': unknown kind"),
     (["--steps", "-3"], 3, "trainer: --steps -3: must be 1 or above\n")],
)  # fmt: skip
def test_help_and_errors_come_at_once_and_without_torch(arguments, code, says):
    command = [sys.executable, "-X", "importtime", "-m", "trainer", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == code
    assert says in done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    assert "| torch" not in done.stderr
