"""A headless Chromium that the tests look through: Debian's own, with no download and no other address than loopback.

The headless shell, where it is installed, is the same engine without the desktop's browser around it: 56 s of the processor for
the tests of the page instead of 80 (2026-11-26).
"""

from __future__ import annotations

import base64
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from selenium.common.exceptions import (
    ElementClickInterceptedException,
    ElementNotInteractableException,
    StaleElementReferenceException,
)
from selenium.webdriver import Chrome, ChromeOptions
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement

SHELL = "/usr/lib/chromium/chromium-headless-shell"  # not Debian's script of that name, which the driver would end instead of it
CHROMIUM = shutil.which(SHELL) or shutil.which("chromium") or ""
DRIVER = shutil.which("chromedriver") or ""
MISSING = "" if CHROMIUM and DRIVER else "chromium and chromedriver are not installed (Debian: chromium chromium-driver)"
DEADLINE_S = 20.0
ARTEFACTS = "SENTINEL_SCREENSHOTS"  # a directory that keeps the pictures
TEXT = "return [...document.querySelectorAll(arguments[0])].map((e) => e.innerText ?? e.textContent).join('\\n')"
BUTTON = """
const [words] = arguments;
return [...document.querySelectorAll('button')].find((b) => !b.disabled && b.checkVisibility() && b.textContent === words);
"""
PHONE, DESK = (390, 844), (1440, 900)


def start(records_requests: bool = False) -> Chrome:
    """`records_requests`: `Page.logs("performance")` has them; that costs an eighth of all the browser does."""
    options = ChromeOptions()
    options.binary_location = CHROMIUM
    for word in (
        "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--no-proxy-server",
        "--disable-background-networking", "--disable-component-update", "--disable-sync", "--force-color-profile=srgb",
    ):  # fmt: skip
        options.add_argument(word)
    logs = {"browser": "ALL"} | ({"performance": "ALL"} if records_requests else {})
    options.set_capability("goog:loggingPrefs", logs)
    return Chrome(options=options, service=Service(executable_path=DRIVER))


class Page:
    """One open page."""

    def __init__(self, chrome: Chrome) -> None:
        self.chrome = chrome

    def open(self, address: str, size: tuple[int, int] = DESK, dark: bool = False) -> None:
        """From the beginning: no token, no choice of curves, and the shape and the colours asked for."""
        self.chrome.get("about:blank")
        self.reshape(size, dark)
        self.chrome.execute_cdp_cmd("Storage.clearDataForOrigin", {"origin": address.split("#")[0], "storageTypes": "all"})
        for kind in {"browser", "performance"} & set(self.chrome.log_types):
            self.logs(kind)  # what is read from here on is of this page
        self.chrome.get(address)
        if self.script("return sessionStorage.length"):
            self.script("sessionStorage.clear()")
            self.chrome.refresh()

    def reshape(self, size: tuple[int, int], dark: bool) -> None:
        """The open page, as a window that is drawn larger and a desk on which night falls show it."""
        width, height = size
        shape = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.chrome.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", shape)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        still = {"name": "prefers-reduced-motion", "value": "reduce"}  # a click finds its place at once, and does not chase it
        self.chrome.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme, still]})

    def script(self, code: str, *arguments: object) -> Any:
        return self.chrome.execute_script(code, *arguments)

    def find(self, selector: str) -> list[WebElement]:
        return self.chrome.find_elements("css selector", selector)

    def one(self, selector: str) -> WebElement:
        return self.until(lambda: self.find(selector)[:1], f"an element {selector}")[0]

    def text(self, selector: str) -> str:
        """What all of these say, a line each."""
        return str(self.script(TEXT, selector))

    def press(self, *keys: str) -> None:
        """Keys as a person presses them, wherever the focus is."""
        self.chrome.switch_to.active_element.send_keys(*keys)

    def tab(self) -> None:
        self.press(Keys.TAB)

    def click(self, words: str) -> None:
        """On the button that can be pressed and is called so."""
        self.until(lambda: _clicked(self.script(BUTTON, words)), f"a button {words}")

    def click_on(self, selector: str) -> None:
        self.until(lambda: _clicked(next(iter(self.find(selector)), None)), f"an element {selector} to click on")

    def until(self, seen: Callable[[], Any], what: str) -> Any:
        """Until it is there; the redrawing of what is being looked at only means to look again."""
        deadline = time.monotonic() + DEADLINE_S
        while True:
            try:
                found = seen()
            except (StaleElementReferenceException, ElementNotInteractableException, ElementClickInterceptedException):
                found = None
            if found:
                return found
            assert time.monotonic() < deadline, f"no {what} within {DEADLINE_S} s; the page says: {self.text('body')[:1500]}"
            time.sleep(0.05)

    def wait_for_text(self, selector: str, words: str) -> None:
        self.until(lambda: words in self.text(selector), f"'{words}' in {selector}")

    def logs(self, kind: str) -> list[dict[str, Any]]:
        """Since they were last asked for."""
        return list(self.chrome.get_log(kind))

    def picture(self, name: str, folder: Path) -> Path:
        """The whole page, to its end."""
        folder = Path(os.environ.get(ARTEFACTS) or folder)
        folder.mkdir(parents=True, exist_ok=True)
        height = min(9000, int(self.script("return document.documentElement.scrollHeight")))
        width = int(self.script("return innerWidth"))
        clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
        shot = self.chrome.execute_cdp_cmd("Page.captureScreenshot", {"captureBeyondViewport": True, "clip": clip})
        path = folder / f"{name}.png"
        path.write_bytes(base64.b64decode(shot["data"]))
        return path


def _clicked(element: WebElement | None) -> bool:
    if element is not None:
        element.click()
    return element is not None
