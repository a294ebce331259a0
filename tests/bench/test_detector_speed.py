"""How many step readings a second go through all bank. Prints, asserts nothing about time: pytest -m bench -s."""

from __future__ import annotations

import time
import tracemalloc

import pytest

from tests.unit.detectors.bank_kit import clean_run, make_bank, row

ROWS = 100_000


@pytest.mark.bench
@pytest.mark.parametrize("layers", [0, 48])
def test_step_readings_per_second(layers: int) -> None:
    rows = list(clean_run(ROWS, 1))
    if layers:
        extra = {f"grad_norm/{layer}": 0.1 for layer in range(layers)}
        rows = [row(r.step, time_s=r.time_s, **r.metrics, **extra) for r in rows]
    bank = make_bank()
    began = time.perf_counter()
    for reading in rows:
        bank.step(reading, reading.time_s)
    seconds = time.perf_counter() - began
    print(f"\nsenses: {ROWS / seconds:,.0f} step readings/s, {3 + layers} metrics a row")
    assert bank.newest_step == ROWS


@pytest.mark.bench
def test_memory_of_a_long_run() -> None:
    bank = make_bank()
    tracemalloc.start()
    for reading in clean_run(30_000, 2):
        bank.step(reading, reading.time_s)
    held = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    print(f"\nsenses: {held / 2**20:.1f} MiB held after 30,000 step readings")
    assert bank.newest_step == 30_000
