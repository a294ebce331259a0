import re

import pytest

from trainer.checkpoint.saving import IN_FLIGHT_MAX
from trainer.command_line import parse_arguments
from trainer.config.loading import preset_names
from trainer.exits import ConfigError
from trainer.preflight import examine
from trainer.preflight.amounts import Device, memory_of_rank
from trainer.schedule import Schedule

H200 = Device("NVIDIA H200", 141 * 2**30, bf16=True)
V100 = Device("Tesla V100", 16 * 2**30, bf16=False)


def examined(*sets, preset="gpt2-124m", ranks=1, device=H200, corpus_tokens=None):
    return examine(parse_arguments(["--preset", preset, "--set", "init.seed=1", *sets]), ranks, device, corpus_tokens)


@pytest.mark.parametrize("preset", preset_names())
@pytest.mark.parametrize("ranks", [1, 8])
def test_the_shipped_recipes_carry_no_warning(preset, ranks):
    found = examined(preset=preset, ranks=ranks)
    assert found.warnings == ()
    assert "nothing in it is known" in found.as_text()


@pytest.mark.parametrize(
    ("sets", "says"),
    [
        (["model.ffn_width=1024"], r"declared_params 124,000,000, and the model has \S+: 0\.\d+ times as.*104B.*1\.33 times"),
        (["init.std=0.05"], r"init.std 0.05: too large for a width of 768.*init.std=small"),
        (["init.scale_outputs=false"], r"init.scale_outputs false with 12 layers"),
        (["schedule.warmup_steps=10"], r"schedule.warmup_steps 10: too short for β2 0.95.*2/\(1-β2\) = 40 steps"),
        (["optim.betas=[0.9, 0.999]", "schedule.warmup_steps=700"], r"too short for β2 0.999.* = 2000 steps"),
        (["schedule.warmup_samples=512"], r"warmup_samples 512 \(1 steps\): too short.*schedule.warmup_samples=51200 or"),
        (["schedule.steps=600"], r"the whole run of 600 steps is warm-up"),
        (["optim.betas=[0.9, 0.999]"], r"optim.betas \[0.9, 0.999\] with 524,288 tokens a step.*0\.95\]"),
        (["optim.lr=0.005"], r"optim.lr 0.005: 8 times what GPT-3.*optim.lr=0.0006"),
        (["optim.clip_norm=50"], r"optim.clip_norm 50"),
        (["stability.gate=off"], r"stability.gate off"),
        (["numerics.precision=fp16"], r"numerics.precision fp16: NVIDIA H200 has bf16"),
        (["parallel.micro_batch=48"], r"parallel.micro_batch 48: does not divide a rank's share of 512.*micro_batch=16"),
        (["parallel.micro_batch=512"], r"memory: about \d+ GiB a rank, and NVIDIA H200 has 141"),
        (["model.heads=64"], r"model.width/model.heads = 12: fused attention"),
    ],
)
def test_what_sank_others_is_named_with_its_value_and_a_remedy(sets, says):
    warnings = examined(*sets).warnings
    assert [text for text in warnings if re.search(says, text)], warnings


@pytest.mark.parametrize("ranks", [16, 32])
def test_a_share_that_is_smaller_than_a_micro_batch_is_taken_at_once_and_nothing_is_wrong_with_it(ranks):
    assert not [text for text in examined("parallel.micro_batch=64", ranks=ranks).warnings if "micro_batch" in text]


def test_data_that_is_repeated_too_often_is_named():
    assert "epochs over 1,000,000,000 tokens" in " ".join(examined(corpus_tokens=10**9).warnings)
    assert not examined(corpus_tokens=10**10).warnings


def test_fp16_is_right_where_there_is_nothing_better():
    assert not [text for text in examined("numerics.precision=fp16", device=V100).warnings if "fp16" in text]
    assert [text for text in examined("numerics.precision=fp16", device=None).warnings if "since Ampere" in text]


def test_the_facts_are_the_arithmetic_of_the_settings():
    facts = dict(examined("schedule.steps=1000").facts)
    assert facts["parameters"].startswith("124,475,904")  # GPT-2 small with 50,304 rows
    assert facts["vocabulary"] == "50,257, padded to 50,304"
    assert "524,288,000 tokens" in facts["the run"]
    assert facts["FLOPs"].startswith("8.55e+08 a token")  # 6·123,689,472 + 12·12·768·1024


def test_tokens_follow_both_ramps():
    sets = "schedule.steps=50", "schedule.seq_ramp=[16, 20]", "schedule.batch_ramp=[4, 4, 96]"
    launch = parse_arguments(["--preset", "tiny", "--set", *sets])
    tokens = sum(Schedule(launch.config).tokens(step) for step in range(1, 51))
    assert f" {tokens:,} tokens" in dict(examine(launch, 1, None).facts)["the run"]


def test_memory_falls_with_ranks_recomputation_and_smaller_batches():
    def memory(*sets, ranks=1):
        return memory_of_rank(parse_arguments(["--preset", "gpt2-1.5b", "--set", "init.seed=1", *sets]).config, ranks, 50304)

    assert memory(ranks=8) < memory(ranks=1)
    assert memory("parallel.recompute=full") < memory("parallel.recompute=selective") < memory("parallel.recompute=none")
    assert memory("parallel.micro_batch=1") < memory("parallel.micro_batch=8")
    assert memory("parallel.replicas=2", ranks=8) > memory(ranks=8)


def test_memory_counts_what_measuring_summing_and_saving_keep():
    def memory(*sets, ranks=8):
        return memory_of_rank(parse_arguments(["--preset", "gpt2-124m", "--set", "init.seed=1", *sets]).config, ranks, 50304)

    params = 124_475_904
    assert memory() - memory("telemetry.updates=false") == 4 * params // 8
    one, two = memory("data.batch_size=64", "parallel.micro_batch=8"), memory("data.batch_size=128", "parallel.micro_batch=8")
    assert two - one == 4 * params, "gradients are whole on every rank while micro-batches are summed"
    fp32 = "numerics.precision=fp32", "data.batch_size=1", "parallel.micro_batch=null"
    assert memory(*fp32, ranks=1) >= 24 * params, "one rank gathers a copy, too"
    shown = dict(examined(ranks=8).facts)["host memory a rank"]
    assert shown.startswith(f"{IN_FLIGHT_MAX * 12 * params / 8 / 2**30:.2f} GiB")
    assert "host memory a rank" not in dict(examined("checkpoint.asynchronous=false").facts)


def test_a_warm_up_by_samples_counts_the_steps_of_the_batch_ramp():
    ramp = "schedule.batch_ramp=[16, 16, 100000]", "schedule.warmup_samples=20000"
    assert not examined(*ramp).warnings, "39 steps of 512, but hundreds of the ramp"


def test_what_cannot_run_on_so_many_ranks_is_refused():
    with pytest.raises(ConfigError, match=r"data.batch_size 512.*3 ranks"):
        examined(ranks=3)
    for ranks in (2, 4):
        with pytest.raises(ConfigError, match=rf"parallel.replicas 3: {ranks} ranks do not divide"):
            examined("parallel.replicas=3", ranks=ranks)
