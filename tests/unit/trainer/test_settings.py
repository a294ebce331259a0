from sentinel.client import LAPSING, Overrides
from tests.unit.trainer.in_process import train_here
from trainer import control
from trainer import train as training
from trainer.command_line import parse_arguments
from trainer.control import LiveSettings
from trainer.schedule import Schedule

LAUNCH = parse_arguments([])
SCHEDULE = Schedule(LAUNCH.config)
SIZES = "schedule.steps=1", "data.batch_size=1", "data.seq_len=8", "evaluation.batches=1"
CONFIGURED = LiveSettings.configured(LAUNCH.config)


def after(settings, **keys):
    return settings.overridden(Overrides.from_json(keys, "test"), CONFIGURED)


def test_overrides_are_absolute_not_cumulative():
    once = after(CONFIGURED, lr_scale=0.5, clip_norm=0.3)
    twice = after(once, lr_scale=0.5, clip_norm=0.3)
    assert once == twice
    assert once.hyperparameters(SCHEDULE, 40).lr == 0.5 * SCHEDULE.lr(40)
    assert once.hyperparameters(SCHEDULE, 40).clip_norm == 0.3


def test_a_missing_key_leaves_and_a_null_restores():
    hurt = after(CONFIGURED, lr_scale=0.5, clip_norm=0.3, until={"lr_scale": 90})
    assert after(hurt, clip_norm=None).clip_norm == CONFIGURED.clip_norm
    kept = after(hurt, clip_norm=None)
    assert (kept.lr_scale, kept.until) == (0.5, {"lr_scale": 90})
    assert after(hurt, lr_scale=0.7).until == {}


def test_whatever_may_lapse_is_live_and_has_a_configured_value():
    missing = [key for key in LAPSING if key not in control.LIVE]
    assert not missing, (
        f"sentinel/client/settings.py says that {missing} may lapse: in trainer/control.py add a field of that name to "
        "LiveSettings, its value to LiveSettings.configured, and use it where it acts (Hyperparameters, or run.settings_at)"
    )


def test_a_setting_that_this_trainer_does_not_have_is_refused_and_the_others_are_taken(world, monkeypatch, tmp_path):
    """As one of a newer client is."""
    run, _ = train_here(world, monkeypatch, tmp_path, "--preset", "micro", "--set", *SIZES)
    monkeypatch.setattr(control, "LIVE", tuple(key for key in control.LIVE if key != "eps"))
    asked = {"clip_norm": 0.3, "eps": 1e-7, "until": {"clip_norm": 90, "eps": 90}}
    live = after(CONFIGURED, **asked)
    assert (live.clip_norm, live.eps, live.until) == (0.3, CONFIGURED.eps, {"clip_norm": 90})
    events = []
    monkeypatch.setattr(run.telemetry, "event", lambda event, step, **fields: events.append((event, fields.get("keys"))))
    training._apply_live(run, Overrides.from_json(asked, ""), 2)
    assert events == [("override_refused", ["eps"]), ("override_applied", None)]


def test_a_setting_that_acts_on_nothing_here_is_refused_and_reads_back_as_null(world, monkeypatch, tmp_path):
    """As fp16's loss scale in fp32. What was asked for is no word about what is in force."""
    run, _ = train_here(world, monkeypatch, tmp_path, "--preset", "micro", "--set", *SIZES)
    assert run.idle == {"loss_scale": "fp32 has no loss scale"}
    run.idle = {**run.idle, "eps": "this optimizer has none"}
    events = []
    monkeypatch.setattr(run.telemetry, "event", lambda event, step, **fields: events.append((event, fields)))
    asked = {"clip_norm": 0.3, "eps": 1e-7, "loss_scale": 1024, "until": {"clip_norm": 90, "eps": 90}}
    training._apply_live(run, Overrides.from_json(asked, ""), 2)
    (refused, why), (applied, answer) = events
    assert (refused, why["keys"], applied) == ("override_refused", ["eps", "loss_scale"], "override_applied")
    assert why["reason"] == "loss_scale: fp32 has no loss scale; eps: this optimizer has none"
    effective = answer["effective"]
    assert (effective["clip_norm"], effective["eps"], effective["loss_scale"]) == (0.3, None, None)
    assert effective["until"] == {"clip_norm": 90}
    events.clear()
    training._apply_live(run, Overrides.from_json({"eps": None}, ""), 2)
    assert [event for event, _ in events] == ["override_applied"], "null asks for nothing"


def test_the_embeddings_share_of_the_gradient_goes_back_to_the_configured_one():
    shrunk = LiveSettings.configured(parse_arguments(["--set", "stability.embedding_grad_shrink=0.5"]).config)
    assert (CONFIGURED.embed_grad_scale, shrunk.embed_grad_scale) == (1.0, 0.5)
    live = shrunk.overridden(Overrides.from_json({"embed_grad_scale": 0.1, "until": {"embed_grad_scale": 9}}, ""), shrunk)
    assert (live.at(8, shrunk).embed_grad_scale, live.at(9, shrunk)) == (0.1, shrunk)
    assert live.overridden(Overrides.from_json({"embed_grad_scale": None}, ""), shrunk) == shrunk


def test_each_lapses_at_its_own_step():
    hurt = after(CONFIGURED, lr_scale=0.5, clip_norm=0.3, betas=[0.8, 0.9], until={"lr_scale": 90, "clip_norm": 95})
    assert hurt.at(89, CONFIGURED) == hurt
    first = hurt.at(90, CONFIGURED)
    assert (first.lr_scale, first.clip_norm, first.betas) == (1.0, 0.3, (0.8, 0.9))
    assert hurt.differing(first) == ["lr_scale"]
    assert first.at(95, CONFIGURED).clip_norm == CONFIGURED.clip_norm
    assert first.at(95, CONFIGURED).until == {}


def test_a_setting_that_lapses_at_the_step_of_a_live_change_is_told_by_itself(world, monkeypatch, tmp_path):
    """Sentinel watches over what lapses from the step at which it does."""
    run, _ = train_here(world, monkeypatch, tmp_path, "--preset", "micro", "--set", *SIZES)
    events = []
    monkeypatch.setattr(run.telemetry, "event", lambda event, step, **fields: events.append((event, step, fields.get("keys"))))
    lapsing = {"lr_scale": 0.5, "eps": 1e-6, "until": {"lr_scale": 2, "eps": 2}}
    run.settings = run.settings.overridden(Overrides.from_json(lapsing, ""), run.configured)
    training._apply_live(run, Overrides.from_json({"clip_norm": 0.3, "eps": 1e-7}, ""), 2)
    assert events == [("override_lapsed", 2, ["lr_scale"]), ("override_applied", 2, None)]
    assert run.optimizer.read_back()["eps"] == 1e-7
