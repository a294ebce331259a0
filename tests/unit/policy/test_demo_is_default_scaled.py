"""demo.yaml is default.yaml for a run of 600 steps: one structure, and what is counted in steps or seconds a fifth."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator

import pytest
from pydantic import BaseModel

from sentinel.detectors.registry import TUNED
from sentinel.detectors.settings import settings_of
from sentinel.policy.schema_detectors import TEXTS
from sentinel.policy_files.loading import load_policy, shipped_policy_path

SCALE = 5


def leaves(value: object, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], object]]:
    """Every plain value with its path. The path's last word says what it is counted in."""
    if isinstance(value, BaseModel):
        for name in type(value).model_fields:
            yield from leaves(getattr(value, name), (*path, name))
        for name, extra in (value.model_extra or {}).items():
            yield (*path, name), extra
    elif dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            yield from leaves(getattr(value, field.name), (*path, field.name))
    elif isinstance(value, dict):
        for key, child in value.items():
            yield from leaves(child, (*path, str(key)))
    elif isinstance(value, tuple):
        for index, child in enumerate(value):
            yield from leaves(child, (*path, str(index)))
    else:
        yield path, value


def is_scaled(path: tuple[str, ...]) -> bool:
    if path[0] == "acts":
        return False  # a filesystem is no slower in a long run
    counted = path[-1] in ("steps", "seconds", "rows") or path[-1].endswith(("_steps", "_s"))
    return counted or "phases" in path or "backoff" in path


def scaled(value: float) -> float:
    """A fifth, rounded away from zero: nothing that was there may vanish."""
    fifth = value / SCALE
    return fifth if isinstance(value, float) else int(math.copysign(math.ceil(abs(fifth)), fifth)) if value else 0


@pytest.fixture(scope="module")
def both():
    default, demo = (dict(leaves(load_policy(shipped_policy_path(name)).spec)) for name in ("default", "demo"))
    return default, demo


def test_same_rules_rungs_and_order(both):
    default, demo = both
    assert list(default) == list(demo)


def remedy(name: str) -> str:
    """The line of demo.yaml that scales what a detector counts in steps or seconds; empty where nothing is counted."""
    settings = getattr(load_policy(shipped_policy_path("default")).spec.detectors, name)
    words = []
    for one in settings_of(type(settings)):
        value = getattr(settings, one.name)
        if is_scaled((one.name,)) and value is not None:
            fifth = {key: scaled(each) for key, each in value.items()} if isinstance(value, dict) else scaled(value)
            words.append(f"{one.alias or one.name}: {TEXTS.get(one.shape, str)(fifth)}")
    return f"    {name}: {{{', '.join(words)}}}" if words else ""


@pytest.mark.parametrize("name", [name for name, _, _ in TUNED])
def test_every_detector_is_scaled(both, name):
    default, demo = both
    unscaled = [
        ".".join(path)
        for path, value in default.items()
        if path[:2] == ("detectors", name) and is_scaled(path) and value is not None and demo[path] != scaled(value)
    ]
    assert not unscaled, f"policies/demo.yaml, under spec.detectors, needs the line (but what is there already):\n{remedy(name)}"


def test_the_remedy_is_the_line_that_stands_there():
    assert remedy("layer_imbalance") == "    layer_imbalance: {lasting: 4 steps, window: 40 steps, min_history: 40 steps}"
    assert remedy("layer_imbalance") in shipped_policy_path("demo").read_text(encoding="utf-8")


def test_every_quantity_is_a_fifth_and_everything_else_is_equal(both):
    default, demo = both
    wrong = {
        ".".join(path): (value, demo[path])
        for path, value in default.items()
        if demo[path] != (scaled(value) if is_scaled(path) and isinstance(value, (int, float)) else value)
    }
    assert wrong == {}


def test_the_walk_sees_the_quantities_that_matter(both):
    default, demo = both
    seen = {".".join(path): (value, demo[path]) for path, value in default.items() if is_scaled(path)}
    assert seen["playbooks.numeric.1.rollback.before_onset_steps"] == (100, 20)
    assert seen["playbooks.numeric.1.skip.from_.offset_steps"] == (-20, -4)
    assert seen["detectors.hang.floor_s"] == (30.0, 6.0)
    assert seen["rules.1.for_.steps"] == (2, 1)
    assert seen["budget.restarts.period_s"] == (3600.0, 720.0)
    assert seen["budget.backoff.0"] == (5.0, 1.0)
    assert seen["probation.steps"] == (300, 60)


def test_the_spike_detector_of_the_demo_is_awake_by_step_60():
    spike = load_policy(shipped_policy_path("demo")).spec.detectors.spike
    assert spike.min_history_steps + spike.level_steps <= 60


def test_observe_only_is_the_default_with_its_hands_tied():
    default, observe = (load_policy(shipped_policy_path(name)) for name in ("default", "observe_only"))
    assert observe.spec.mode == "observe"
    assert observe.spec.model_copy(update={"mode": "act"}) == default.spec
