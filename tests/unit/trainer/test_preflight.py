import re

import pytest

from trainer.checkpoint.saving import IN_FLIGHT_MAX
from trainer.command_line import parse_arguments
from trainer.config.loading import preset_names
from trainer.exits import ConfigError
from trainer.preflight import examine
from trainer.preflight.amounts import Device, memory_of_rank
from trainer.preflight.published_shapes import SHAPES, Shape, judge_shape
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
        (["parallel.xent_chunk=64"], r"parallel.xent_chunk 64: the head's 65,536 rows go .* in 1,024 .*xent_chunk=1024 or more"),
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


def shaped(width, layers, heads, *sets):
    """The warnings about a shape, of a model that nobody declared a size for."""
    made = [f"model.width={width}", f"model.layers={layers}", f"model.heads={heads}", "declared_params=null", *sets]
    return [text for text in examined(*made, device=None).warnings if text.startswith("model.")]


def test_the_lopsided_104b_is_noticed_without_its_declared_size():
    """Experiments 1 to 5: the feed-forward of the 13B model; experiment 6: that mended, and still 512 times as wide as deep."""
    first = shaped(16384, 32, 32, "model.ffn_width=20480")
    assert len(first) == 3
    assert "model.width 16384 with 32 layers: 512 times as wide as deep" in first[0]
    assert "model.ffn_width is 1.25 times model.width" in first[1]
    assert "model.width/model.heads = 512" in first[2]
    assert len(shaped(16384, 32, 32)) == 2


def test_its_later_shape_is_usual_but_for_the_size_of_its_heads():
    assert [text.partition(":")[0] for text in shaped(11600, 64, 80)] == ["model.width/model.heads = 145"]
    narrow = shaped(11600, 64, 80, "model.ffn_width=2048")
    assert [text.partition(":")[0] for text in narrow[:1]] == ["model.ffn_width is 0.18 times model.width"]


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
def test_a_published_shape_is_not_warned_about(shape):
    assert not list(judge_shape(shape))
    shared = shape.width % shape.heads == 0 and shape.width // shape.heads <= 256  # not so where heads are wider than their share
    if shared and (shape.ffn * shape.width).is_integer():
        assert shaped(shape.width, shape.layers, shape.heads, f"model.ffn_width={int(shape.ffn * shape.width)}") == []


def test_nearly_every_published_shape_is_within_what_the_others_are():
    """Each judged without itself. The two very deep small ones are what the lower end is known by."""
    strange = [shape.name for shape in SHAPES if list(judge_shape(shape, tuple(one for one in SHAPES if one is not shape)))]
    assert strange in ([], ["SmolLM-135M"])


@pytest.mark.parametrize(
    ("shape", "words"),
    [
        (Shape("x", 1.6e9, 8192, 2, 64), "model.width 8192 with 2 layers: 4,096 times as wide as deep"),
        (Shape("x", 1.3e9, 512, 400, 8), "model.width 512 with 400 layers: 1.3 times as wide as deep"),
        (Shape("x", 6.7e9, 4096, 32, 256), "model.width/model.heads = 16: published models have heads of 64 to 256"),
        (Shape("x", 6.7e9, 4096, 32, 32, 0.5), "model.ffn_width is 0.50 times model.width"),
        (Shape("x", 6.7e9, 4096, 32, 32, 16.0), "model.ffn_width is 16.00 times model.width"),
    ],
)
def test_what_is_like_no_published_model_is_named(shape, words):
    assert any(text.startswith(words) for text in judge_shape(shape)), list(judge_shape(shape))


def test_a_size_that_nobody_published_has_no_aspect_to_compare_with():
    assert not list(judge_shape(Shape("x", 12e6, 128, 1, 2)))

