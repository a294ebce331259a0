"""Two real ranks: HSDP's two copies and FSDP's two shards begin with the same weights and come to the plain model's gradients."""

import json
import math
import subprocess
import sys

import pytest

from tests.integration.test_trainer_launch import DEADLINE_S, ROOT, clean_environ


def test_two_copies_and_two_shards_are_the_plain_model(tmp_path):
    command = [sys.executable, "-m", "tests.integration.replica_ranks", str(tmp_path)]
    ranks = subprocess.run(command, env=clean_environ(), cwd=ROOT, capture_output=True, text=True, timeout=DEADLINE_S)
    assert ranks.returncode == 0, ranks.stderr
    for kernels in ("torch", "fused"):
        told = [json.loads((tmp_path / f"rank-{rank}.json").read_text()) for rank in (0, 1)]
        _are_the_plain_model([rank | rank[kernels] for rank in told])


def _are_the_plain_model(told):
    for layout in ("copies", "shards", "freed"):
        for rank in told:
            assert rank[layout]["weights_equal"]
            assert rank[layout]["gradients_off"] < 1e-5 * rank["largest_gradient"]
    first, second = (rank["copies"] for rank in told)
    assert first["own_elements"] == second["own_elements"]
    left, right = (rank["shards"] for rank in told)
    assert left["own_elements"] + right["own_elements"] == first["own_elements"]
    assert (left["own_ffn_rows"], right["own_ffn_rows"]) == (21, 20)
    _tell_the_same(told)


def _tell_the_same(told):
    """Of two updates: both ranks to the bit, both layouts up to rounding, and the first gradient as the plain model has it."""
    copies, shards = (told[0][layout]["lines"] for layout in ("copies", "shards"))
    for layout in ("copies", "shards", "freed"):
        for key in ("lines", "numbers", "history"):
            assert told[0][layout][key] == told[1][layout][key], "every rank comes to the same numbers"
    for one, other in zip(shards, told[0]["freed"]["lines"], strict=True):
        assert other == pytest.approx(one, rel=1e-4, abs=1e-12), "what is computed twice is counted once"
    assert copies[0]["grad_norm"] == pytest.approx(told[0]["grad_norm"], rel=1e-5)
    for one, other in zip(copies, shards, strict=True):
        assert one.keys() == other.keys()
        for name in one.keys() - {"param_norm/rank-0", "param_norm/rank-1"}:
            assert one[name] == pytest.approx(other[name], rel=1e-4, abs=1e-12), name
        assert one["param_norm/rank-0"] == one["param_norm/rank-1"] == one["param_norm"], "a copy is a whole"
        parts = other["param_norm/rank-0"], other["param_norm/rank-1"]
        assert math.hypot(*parts) == pytest.approx(other["param_norm"], rel=1e-12)
    assert (copies[0]["update_norm"], copies[0]["adam_v_norm"]) == (0.0, 0.0)
    assert copies[1]["update_norm"] > 0
    one, other = (told[0][layout]["numbers"] for layout in ("copies", "shards"))
    assert one == pytest.approx(other, rel=1e-5), "a copy counts once"
    kept = [told[0][layout]["history"]["update_squares"] for layout in ("copies", "shards")]
    assert [len(squares) for squares in kept] == [1, 2]
    assert sum(kept[0]) == pytest.approx(sum(kept[1]), rel=1e-4)
