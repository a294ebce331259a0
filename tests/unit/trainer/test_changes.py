import json
import re

import pytest

from trainer.config import Config
from trainer.config.changes import changes, free_changes, refuse_changes, refused_changes
from trainer.config.loading import changed, fixed_settings
from trainer.exits import ConfigError

SAVED = json.loads(Config().model_dump_json())


def test_equal_settings_change_nothing_and_are_let_through():
    refuse_changes("here", SAVED, Config())
    assert changes(SAVED, Config()) == []


def test_a_fixed_setting_is_refused_with_both_values_and_the_way_back():
    now = changed(Config(), data={"seq_len": 64}, model={"norm": "rmsnorm"}, optim={"lr": 1e-4})
    assert [change[0] for change in refused_changes(SAVED, now)] == ["model.norm", "data.seq_len"]
    with pytest.raises(ConfigError, match=re.escape("out/step-00000008: was written with model.norm=layernorm")) as caught:
        refuse_changes("out/step-00000008", SAVED, now)
    assert "data.seq_len=128 and this run has 64" in str(caught.value)
    assert "--set model.norm=layernorm data.seq_len=128" in str(caught.value)
    assert "optim.lr" not in str(caught.value)


def test_a_free_one_is_told_with_what_it_was():
    now = changed(Config(), optim={"lr": 1e-4, "betas": (0.9, 0.99)}, data={"seq_len": 64})
    assert free_changes(SAVED, now) == {"optim.lr": [2e-3, 1e-4], "optim.betas": [[0.9, 0.95], [0.9, 0.99]]}


def test_every_setting_is_one_or_the_other():
    """Whatever is changed is either refused or told."""
    for name, other in {"model.layers": 5, "stability.gate": "off", "schedule.batch_ramp": [4, 4, 100], "init.seed": 1}.items():
        section, field = name.split(".")
        now = changed(Config(), **{section: {field: other}})
        names = [change[0] for change in refused_changes(SAVED, now)] + list(free_changes(SAVED, now))
        assert names == [name]
        assert (name in fixed_settings()) == (not free_changes(SAVED, now))


def test_what_a_manifest_does_not_name_was_at_its_default_and_what_is_gone_is_passed_over():
    older = json.loads(Config().model_dump_json())
    del older["model"]["qk_norm"], older["evaluation"]
    older["model"]["gone"] = 7
    assert changes(older, Config()) == []
    assert refused_changes(older, changed(Config(), model={"qk_norm": True})) == [("model.qk_norm", False, True)]
