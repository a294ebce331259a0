"""The trainer's exactness at the demonstration's size: what tests/integration/test_trainer_bitwise.py does small."""

import random

import pytest

from tests.integration import test_trainer_launch
from tests.integration.test_trainer_bitwise import check_equal_after_kills
from tests.integration.test_trainer_launch import launch

__all__ = ["launch"]
pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]


@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16"])
def test_two_hundred_steps_killed_three_times_end_equal_to_the_bit(launch, precision, monkeypatch):
    monkeypatch.setattr(test_trainer_launch, "DEADLINE_S", 1800.0)  # of one launch: fp16 on a CPU takes a second a step
    sizes = "data.batch_size=16", "data.seq_len=128"
    check_equal_after_kills(launch, 200, 20, random.randrange(10**6), *sizes, f"numerics.precision={precision}", preset="tiny")
