"""The page of a long run in a real browser, from a server that has just begun, and what each question to the API costs.

    python -m tests.bench.long_life.page RUN_DIR
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from tests.unit.web_page import browser
from tests.unit.web_page.browser import Page

from .shape import ATTEMPTS, INCIDENTS

ASKED = ("", "/incidents", "/events", "/lineage", "/ledger", "/metrics", "/curves?metrics=loss,grad_norm")
PAINT = "return performance.getEntriesByName('first-contentful-paint').map((e) => e.startTime)"
CURVES_S = 300.0
KNOWN_S = 60.0
NEAR_STEPS = 5000


@contextmanager
def serving(run_dir: Path) -> Iterator[tuple[psutil.Process, str]]:
    words = [sys.executable, "-m", "sentinel", "web", str(run_dir), "--listen", "0"]
    child = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
    try:
        assert child.stderr is not None
        yield psutil.Process(child.pid), child.stderr.readline().split()[1].rstrip("/")
    finally:
        child.kill()
        child.wait(20)


def ask(url: str) -> tuple[float, bytes]:
    began_s = time.perf_counter()
    with urllib.request.urlopen(url, timeout=120) as answer:
        body = answer.read()
    return time.perf_counter() - began_s, body


def await_run(url: str) -> str:
    """The name of the run, once the server has folded its journal."""
    deadline = time.monotonic() + KNOWN_S
    while not (runs := json.loads(ask(f"{url}/api/runs")[1])["runs"]):
        assert time.monotonic() < deadline, f"no run within {KNOWN_S} s"
        time.sleep(0.05)
    return str(runs[0]["name"])


def tell(what: str, first_s: float, again_s: float, body: bytes) -> None:
    print(f"| {what} | first {first_s * 1e3:.0f} ms, again {again_s * 1e3:.0f} ms, {len(body) / 1e3:,.0f} kB |", flush=True)


def api(run_dir: Path) -> None:
    began_s = time.perf_counter()
    with serving(run_dir) as (process, url):
        print(f"| server: start to its address | {time.perf_counter() - began_s:.2f} s |")
        name = await_run(url)
        print(f"| server: until it knows the run | {time.perf_counter() - began_s:.2f} s |")
        for path in ASKED:
            first_s, body = ask(f"{url}/api/runs/{name}{path}")
            again_s, _ = ask(f"{url}/api/runs/{name}{path}")
            tell(f"GET /api/runs/NAME{path}", first_s, again_s, body)
        first_s, body = ask(f"{url}/metrics")
        tell("GET /metrics", first_s, ask(f"{url}/metrics")[0], body)
        newest, drawn_s = json.loads(ask(f"{url}/api/runs/{name}")[1])["step"], None
        deadline = time.monotonic() + CURVES_S
        while time.monotonic() < deadline:
            curves = json.loads(ask(f"{url}/api/runs/{name}/curves?metrics=loss")[1])["curves"].get("loss", {})
            if curves.get(str(ATTEMPTS), {}).get("step", [0])[-1] > newest - NEAR_STEPS:
                drawn_s = time.perf_counter() - began_s
                break
            time.sleep(1.0)
        spent = process.cpu_times()
        when = f"after {drawn_s:.0f} s" if drawn_s is not None else f"not within {CURVES_S:.0f} s"
        print(f"| the curve of the newest attempt is whole | {when}, {spent.user + spent.system:.1f} s of the processor |")
        print(f"| memory of the server | {process.memory_info().rss / 2**20:.0f} MiB |")


def paint(run_dir: Path) -> None:
    if browser.MISSING:
        print(f"| the page | not measured: {browser.MISSING} |")
        return
    chrome = browser.start()
    try:
        page = Page(chrome)
        for what in ("a server that has just begun", "the same again"):
            with serving(run_dir) as (_, url):
                for turn in (what, f"{what}, reloaded"):
                    began_s = time.perf_counter()
                    page.open(url)
                    page.wait_for_text("#figures", "step ")
                    figures_s = time.perf_counter() - began_s
                    page.wait_for_text("#incident-list", f"#{INCIDENTS}")
                    list_s = time.perf_counter() - began_s
                    page.until(lambda: page.find(".plot canvas"), "a curve")
                    curve_s = time.perf_counter() - began_s
                    (first_ms,) = page.script(PAINT)
                    told = f"state {figures_s:.2f} s, incidents {list_s:.2f} s, a curve {curve_s:.2f} s"
                    print(f"| the page, {turn} | first paint {first_ms:.0f} ms; {told} |", flush=True)
    finally:
        chrome.quit()


def main() -> int:
    run_dir = Path(sys.argv[1])
    print("\n| the page | |\n|---|---|")
    paint(run_dir)
    api(run_dir)
    return 0


if __name__ == "__main__":
    sys.exit(main())
