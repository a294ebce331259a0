"""The pictures that a browser takes: what each shows, how large, and what must be there before it is taken."""

from __future__ import annotations

import base64
import json
import time
import urllib.request
from dataclasses import dataclass
from pathlib import Path

from tests.unit.web_page.browser import Page

QUALITY = 82  # of WebP: a third of the same as PNG, and letters stay sharp at two device pixels to a pixel
REST_S = 120.0  # a busy machine takes its time
STILL_S = 3.0  # the page asks for news each second; what is the same for so long has come to rest
Words = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Shot:
    """`at`: the address behind the server's, or a file of the folder of the runs. `size` in pixels, `scale` device pixels to a
    pixel. `awaited`: selectors, and words that stand there before it is taken. `runs`: what the server shows."""

    name: str
    at: str
    size: tuple[int, int]
    awaited: Words
    dark: bool = False
    scale: float = 2.0
    runs: tuple[str, ...] = ("demo", "night")

    @property
    def file_name(self) -> str:
        return f"{self.name}.webp"


DEMO: Words = (
    ("#figures", "step 600 of 600"), ("#incident-list", "#1 crash"), ("#tree", "step 100 of 1"), (".plots", ", abandoned"),
)  # fmt: skip
NIGHT: Words = (("#banner", "Incident 1: non_finite"), ("#incident-list", "no repair is left"))
SHOTS = (
    Shot("page", "#run=demo", (1320, 764), DEMO, scale=1.5, runs=("demo",)),
    Shot("page-dark", "#run=demo", (1320, 764), DEMO, dark=True, scale=1.5, runs=("demo",)),
    Shot("fleet", "", (1120, 226), (("body", "night"), ("body", "demo"))),
    Shot("phone", "#run=night", (390, 900), NIGHT, dark=True),
    Shot("report", "night/incidents/0001/report.html", (860, 1120), (("body", "non_finite"),), scale=1.5),
)


def take(page: Page, shot: Shot, address: str, folder: Path, into: Path) -> Path:
    """Take it; the file. Raises AssertionError where what it should show does not come, or never comes to rest."""
    url = (folder / shot.at).absolute().as_uri() if shot.at.endswith(".html") else f"{address}{shot.at}"
    if shot.awaited is DEMO:
        await_curves(f"{address}api/runs/demo/curves?metrics=loss")
    page.chrome.execute_cdp_cmd("Emulation.setScrollbarsHidden", {"hidden": True})
    page.open(url, shot.size, shot.dark)
    for selector, words in shot.awaited:
        page.wait_for_text(selector, words)
    path = into / shot.file_name
    path.write_bytes(_at_rest(page, shot))
    return path


def await_curves(url: str, attempts: int = 4) -> None:
    """Until the server has read the streams of all attempts: it shows the newest first."""
    deadline = time.monotonic() + REST_S
    while time.monotonic() < deadline:
        with urllib.request.urlopen(url, timeout=REST_S) as answer:
            if len(json.loads(answer.read())["curves"].get("loss", ())) >= attempts:
                return
        time.sleep(1.0)
    raise AssertionError(f"{url}: no curves of {attempts} attempts within {REST_S:.0f} s")


def _at_rest(page: Page, shot: Shot) -> bytes:
    """What two looks in a row show alike: curves come in pieces, the newest attempt first."""
    deadline, before = time.monotonic() + REST_S, b""
    while time.monotonic() < deadline:
        found = _look(page, shot)
        if found == before:
            return found
        before = found
        time.sleep(STILL_S)
    raise AssertionError(f"{shot.name}: what the page shows does not come to rest within {REST_S:.0f} s")


def _look(page: Page, shot: Shot) -> bytes:
    width, height = shot.size
    clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": shot.scale}
    answer = page.chrome.execute_cdp_cmd("Page.captureScreenshot", {"format": "webp", "quality": QUALITY, "clip": clip})
    return base64.b64decode(answer["data"])
