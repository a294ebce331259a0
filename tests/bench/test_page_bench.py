"""The page of a run of a million steps in a real browser, from a server that has just begun: first paint, state, curves."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from tests.bench.long_life.page import PAINT, ask, await_run, serving
from tests.unit.told_run import write_run
from tests.unit.web_page import browser
from tests.unit.web_page.browser import Page

pytestmark = [pytest.mark.bench, pytest.mark.timeout(900)]
STEPS = 1_000_000
NEAR_STEPS = 5_000
WHOLE_S = 300.0
FIRST_PAINT_MAX_MS = 1000.0
CURVES = "/curves?metrics=loss,grad_norm,lr"


def write_million(run_dir: Path) -> float:
    """Returns its size in MB."""
    stream = run_dir / "attempts" / "0002" / "metrics.jsonl"
    stream.parent.mkdir(parents=True)
    with stream.open("w") as file:
        file.write(json.dumps({"kind": "start", "v": 1, "attempt": 2, "resume_step": 100, "steps": 2 * STEPS}) + "\n")
        for step in range(101, STEPS + 1):
            loss, norm = 2.0 + 9.0 / (1 + step / 1e3) + (step % 97) * 1e-3, 0.5 + (step % 89) * 1e-3
            said = f'"time_s": {1.7e9 + step}, "loss": {loss}, "grad_norm": {norm}, "lr": 3e-4'
            file.write(f'{{"kind": "step", "step": {step}, {said}}}\n')
    return stream.stat().st_size / 1e6


def test_the_page_of_a_million_steps(tmp_path: Path) -> None:
    if browser.MISSING:
        pytest.skip(browser.MISSING)
    run_dir = write_run(tmp_path / "run", until=42)
    print(f"\n{STEPS} steps, {write_million(run_dir):.0f} MB")
    chrome = browser.start()
    try:
        page = Page(chrome)
        with serving(run_dir) as (_, url):
            began_s = time.perf_counter()
            for turn in ("first", "reloaded"):
                opened_s = time.perf_counter()
                page.open(url)
                page.wait_for_text("#figures", f"step {STEPS:,}")
                state_s = time.perf_counter() - opened_s
                page.until(lambda: page.find(".plot canvas"), "a curve")
                curve_s = time.perf_counter() - opened_s
                (first_ms,) = page.script(PAINT)
                print(f"{turn}: first paint {first_ms:.0f} ms; state {state_s:.2f} s, a curve {curve_s:.2f} s")
                assert first_ms < FIRST_PAINT_MAX_MS
            await_whole(f"{url}/api/runs/{await_run(url)}", began_s)
            page.open(url)
            (first_ms,) = page.script(PAINT) or (float("nan"),)
            print(f"all drawn, reloaded: first paint {first_ms:.0f} ms")
    finally:
        chrome.quit()


def await_whole(run: str, began_s: float) -> None:
    deadline = time.monotonic() + WHOLE_S
    while time.monotonic() < deadline:
        answer_s, body = ask(run + CURVES)
        steps = json.loads(body)["curves"].get("loss", {}).get("2", {"step": [0]})["step"]
        if steps[-1] > STEPS - NEAR_STEPS:
            told = f"{len(body) / 1e3:.0f} kB in {answer_s * 1e3:.0f} ms"
            print(f"whole after {time.perf_counter() - began_s:.0f} s; then {CURVES} is {told}")
            return
        time.sleep(1.0)
    print(f"not whole within {WHOLE_S:.0f} s")
