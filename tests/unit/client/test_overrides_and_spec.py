import json

import pytest

from sentinel.client import Overrides, OverridesError, SpecError, read_spec

FULL = {
    "id": "ov-7", "attempt": 3, "issued_at": "…", "incident": 4, "lr_scale": 0.5, "clip_norm": 0.3, "weight_decay": None,
    "betas": [0.9, 0.99], "eps": None, "skip": [[51200, 53760], [1, 2, 77]], "loss_scale": None, "data_seed": None,
    "reset_optimizer": False, "precision": None, "checkpoint_interval": 100, "until": {"lr_scale": 3200}, "request": None,
}  # fmt: skip


def test_every_key_of_the_protocol_is_read():
    overrides = Overrides.from_json(FULL, "overrides.json")
    assert (overrides.id, overrides.attempt, overrides.lr_scale, overrides.clip_norm) == ("ov-7", 3, 0.5, 0.3)
    assert overrides.skip == ((51200, 53760), (1, 2, 77))
    assert overrides.betas == (0.9, 0.99)
    assert overrides.until == {"lr_scale": 3200}
    assert overrides.weight_decay is None
    assert "weight_decay" in overrides.given
    assert "surprise" not in overrides.given


def test_what_asks_for_nothing_is_not_in_force():
    in_force = Overrides.from_json(FULL, "overrides.json").in_force()
    assert in_force["skip"] == [[51200, 53760], [1, 2, 77]]
    assert not {"weight_decay", "reset_optimizer", "request", "precision"} & set(in_force)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("lr_scale", 0), ("lr_scale", "fast"), ("lr_scale", "NaN"), ("clip_norm", "Infinity"),
        ("loss_scale", 0), ("loss_scale", 1e39),
        *(("embed_grad_scale", value) for value in (0, -1, 2, "NaN", float("nan"), "a tenth")),
        ("weight_decay", -1), ("betas", [0.9]),
        ("betas", [0.9, 1.0]), ("betas", 3), ("skip", [[5]]), ("skip", [[7, 5]]), ("skip", [[-1, 5]]), ("skip", 4),
        ("eps", True), ("until", {"skip": 3}), ("until", []), ("request", "stop"), ("checkpoint_interval", 0), ("data_seed", 1.5),
        ("reset_optimizer", 1), ("precision", 16), ("id", 7),
    ],
)  # fmt: skip
def test_a_value_nobody_could_obey_is_named_with_its_place_and_a_remedy(key, value):
    with pytest.raises(OverridesError, match=rf"^here: {key}: .*write "):
        Overrides.from_json({key: value}, "here")


def test_overrides_that_are_no_object_are_refused():
    with pytest.raises(OverridesError, match="not an object"):
        Overrides.from_json([1], "here")


def spec_at(tmp_path, **changes):
    spec = {"v": 1, "attempt": 3, "argv": ["x"], "env": {"A": "1"}, "resume": None, "overrides": FULL}
    path = tmp_path / "spec.json"
    path.write_text(json.dumps(spec | changes))
    return path


WORD = {"step": 1000, "digest": "ab", "how": "sampled"}


@pytest.mark.parametrize(
    ("digest", "word", "verified"),
    [
        ("ab", WORD, "sampled"), ("ab", None, ""), ("ac", WORD, ""), (None, WORD, ""), (None, WORD | {"digest": None}, ""),
        ("ab", WORD | {"step": 999}, ""), ("ab", WORD | {"how": 7}, ""), ("ab", "yes", ""), ("ab", [1000, "ab"], ""),
    ],
)  # fmt: skip
def test_the_word_that_a_checkpoint_was_verified_holds_for_that_manifest_alone(tmp_path, digest, word, verified):
    """Anything else is no word, and the trainer verifies by itself."""
    spec = read_spec(spec_at(tmp_path, resume={"step": 1000, "path": "c", "digest": digest}, verified=word))
    assert spec.resume is not None
    assert spec.resume.verified == verified


def test_a_spec_is_read_with_its_resume_point(tmp_path):
    spec = read_spec(spec_at(tmp_path, resume={"step": 1000, "path": "checkpoints/step-00001000", "digest": "ab"}, extra=1))
    assert (spec.attempt, spec.argv, spec.env) == (3, ("x",), {"A": "1"})
    assert spec.resume is not None
    assert (spec.resume.step, spec.resume.digest) == (1000, "ab")
    assert spec.overrides.lr_scale == 0.5


@pytest.mark.parametrize(
    "changes", [{"v": 2}, {"attempt": "3"}, {"resume": 5}, {"resume": {"step": "1", "path": "p"}}, {"overrides": {"eps": 0}},
                {"resume": {"step": 1, "path": "p", "digest": 5}}, {"inspect": [[1, 2]]}, {"inspect": {"samples": [[2, 2]]}},
                {"inspect": {"samples": [[1, 2, 3]]}}, {"inspect": {}}]
)  # fmt: skip
def test_a_wrong_spec_is_an_error_that_names_the_file(tmp_path, changes):
    path = spec_at(tmp_path, **changes)
    with pytest.raises(SpecError, match=r"spec\.json: "):
        read_spec(path)


@pytest.mark.parametrize("text", ["{", "[]", '{"attempt": NaN}'])
def test_a_spec_that_is_no_object_is_an_error(tmp_path, text):
    (tmp_path / "spec.json").write_text(text)
    with pytest.raises(SpecError):
        read_spec(tmp_path / "spec.json")


def test_a_missing_spec_is_an_error(tmp_path):
    with pytest.raises(SpecError, match="cannot be read"):
        read_spec(tmp_path / "spec.json")


def test_an_inspection_names_its_samples(tmp_path):
    assert read_spec(spec_at(tmp_path)).inspect is None
    assert read_spec(spec_at(tmp_path, inspect={"samples": [[5, 9], [20, 21]]})).inspect == ((5, 9), (20, 21))
