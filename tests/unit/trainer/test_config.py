import subprocess
import sys
from pathlib import Path

import pytest
import yaml

import trainer
from trainer.command_line import check_world, parse_arguments, with_precision
from trainer.config import Config
from trainer.config.loading import describe_settings, fixed_settings, load_config, preset_names, written_out
from trainer.exits import ConfigError

ROOT = Path(trainer.__file__).parents[1]


def written(tmp_path, text):
    path = tmp_path / "run.yaml"
    path.write_text(text)
    return path


def refusal(call, *arguments):
    with pytest.raises(ConfigError) as caught:
        call(*arguments)
    return str(caught.value)


def test_the_defaults_are_the_demonstration():
    launch = parse_arguments([])
    config = launch.config
    assert (launch.recipe, config.schedule.steps, config.init.seed, config.data_seed) == ("tiny", 600, 1337, 1337)
    assert (config.data.batch_size, config.data.seq_len, config.checkpoint.every, config.numerics.precision) == (
        16,
        128,
        50,
        "fp32",
    )
    assert config == load_config("tiny")
    assert parse_arguments(["--set", "init.seed=5"]).config.data_seed == 5
    assert parse_arguments(["--set", "init.seed=5", "data.seed=6"]).config.data_seed == 6


def test_sets_lie_over_the_file_over_its_preset(tmp_path):
    path = written(tmp_path, "preset: gpt2-124m\noptim: {lr: 5e-4, eps: 1e-6}\nschedule:\n  steps: 7\n")
    config = parse_arguments(["--config", str(path), "--set", "optim.lr=1e-3", "--set", "optim.betas=[0.8, 0.99]"]).config
    assert (config.model.width, config.schedule.steps, config.optim.lr, config.optim.eps) == (768, 7, 1e-3, 1e-6)
    assert config.optim.betas == (0.8, 0.99)
    assert load_config(file=written(tmp_path, "")) == Config()


@pytest.mark.parametrize("preset", preset_names())
def test_what_is_printed_at_the_start_reads_back_to_the_same(preset, tmp_path):
    config = load_config(preset, sets=["schedule.seq_ramp=[8, 20]", "declared_params=null"])
    assert load_config(file=written(tmp_path, written_out(config))) == config


@pytest.mark.parametrize(
    "words",
    [
        "schedule.steps=0", "schedule.steps=many", "schedule.steps=1.5", "optim.lr=.nan", "optim.lr=-1", "optim.lr='3e-4'",
        "optim.clip_norm=0", "optim.betas=[0.9, 1]", "optim.betas=0.9", "data.batch_size=0", "numerics.precision=fp8",
        "schedule.min_lr_ratio=2", "optim.weight_decay=.inf", "init.seed=-1", "parallel.threads=0", "init.std=-1",
        "init.std=huge", "optim=3", "model.layers=null",
    ],
)  # fmt: skip
def test_a_bad_value_is_a_sentence_that_names_it(words):
    message = refusal(load_config, "tiny", None, [words])
    assert words.partition("=")[0] in message
    assert all(line.strip() for line in message.splitlines())


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--preset", "huge"], "use one of gpt2-1.5b, gpt2-124m"), (["--nonsense"], "--nonsense"), (["--fault", "x@y"], "x@y"),
        (["--set", "optim.lrr=1"], "did you mean optim.lr"),
        (["--set", "lr=1"], "there is no such setting"),
        (["--set", "optim.lr"], "write SECTION.FIELD=VALUE"), (["--set", "optim.betas=[0.9"], "not a YAML value"),
        (["--set", "schedule.batch_ramp=[4, 5, 100]"], "must start below data.batch_size 16"),
        (["--set", "schedule.seq_ramp=[500, 10]"], "data.seq_len 128"),
        (["--ranks", "0"], "--ranks 0"), (["--config", "/nowhere.yaml"], "/nowhere.yaml: cannot be read"),
    ],
)  # fmt: skip
def test_a_bad_command_line_is_one_sentence_with_a_remedy(arguments, says):
    message = refusal(parse_arguments, arguments)
    assert says in message
    assert "\n" not in message


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("optim:\n  lr: fast\n", "run.yaml:2: optim.lr 'fast'"),
        ("optim: {lr: 1e-3}\noptim: {eps: 1e-3}\n", "run.yaml:2: optim is there twice"),
        ("optim: [", "is not YAML"), ("- 3", "a mapping of sections"),
        ("speed: 3", "run.yaml:1: speed: there is no such setting"),
        ("preset: nano", "preset 'nano'"),
    ],
)  # fmt: skip
def test_a_mistake_in_a_file_is_named_with_its_line(text, says, tmp_path):
    assert says in refusal(load_config, None, written(tmp_path, text))


def test_two_presets_are_refused(tmp_path):
    assert "say one of them" in refusal(load_config, "tiny", written(tmp_path, "preset: micro"))


def test_every_setting_says_what_it_is_for():
    listing = describe_settings()
    assert all(f"{name}  (" in listing for name in fixed_settings())
    assert not [line for line in listing.splitlines() if not line.strip()]
    assert "model.width" in fixed_settings()
    assert "optim.lr" not in fixed_settings()


def test_presets_name_only_what_differs_from_nothing():
    for name in preset_names():
        assert isinstance(yaml.safe_load((ROOT / "trainer" / "presets" / f"{name}.yaml").read_text()), dict)


def test_the_world_must_fit_the_batch_and_the_faults():
    launch = parse_arguments(["--fault", "kill@step=3:rank=2"])
    with pytest.raises(ConfigError, match=r"data.batch_size 16.*use 18"):
        check_world(launch, 3)
    with pytest.raises(ConfigError, match="rank=2 does not exist"):
        check_world(launch, 2)
    with pytest.raises(ConfigError, match=r"schedule.batch_ramp 5.*use 6"):
        check_world(parse_arguments(["--set", "data.batch_size=20", "schedule.batch_ramp=[5, 5, 100]"]), 2)


def test_precision_can_be_replaced_and_is_checked():
    config = parse_arguments([]).config
    assert with_precision(config, None) is config
    assert with_precision(config, "bf16").numerics.precision == "bf16"
    with pytest.raises(ConfigError, match="fp8"):
        with_precision(config, "fp8")


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [(["--help"], 0, "bad_data@sample=A-B"), (["--fault", "kil@step=3"], 3, "trainer: --fault 'kil@step=3': unknown kind"),
     (["--set", "schedule.steps=-3"], 3, "trainer: --set schedule.steps -3: input should be greater than or equal to 1")],
)  # fmt: skip
def test_help_and_errors_come_at_once_and_without_torch(arguments, code, says):
    command = [sys.executable, "-X", "importtime", "-m", "trainer", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == code
    assert says in done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    assert "| torch" not in done.stderr


def test_a_loss_scale_that_float32_cannot_hold_is_refused():
    """It would be infinite, and half of infinity is no smaller: every update an overflow."""
    assert "loss_scale" in refusal(load_config, "micro", None, ["numerics.loss_scale=1e39"])
