"""The page's files by themselves: whole, small, strict, with nothing from outside, and the vendored ones unchanged."""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.unit.web_page.page_server import PAGE

SCRIPTS = sorted(PAGE.glob("*.js"))
OURS = sorted(path for path in PAGE.iterdir() if path.is_file())
NODE = shutil.which("node")
PARSE_ALL = """
const { readFileSync } = require('fs'), { SourceTextModule } = require('vm'), { basename } = require('path');
for (const path of process.argv.slice(1)) {
  new SourceTextModule(readFileSync(path, 'utf-8'), { identifier: path });
  console.log(basename(path));
}
"""
LINES_MAX, COLUMNS_MAX = 250, 130
MARKUP_FROM_TEXT = re.compile(
    r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function|createContextualFragment|DOMParser|"
    r"\.style\b|cssText"
)


def name(path: Path) -> str:
    return path.name


@pytest.mark.skipif(NODE is None, reason="node is not installed")
def test_every_script_is_a_module_that_parses() -> None:
    words = [str(NODE), "--experimental-vm-modules", "--no-warnings", "-e", PARSE_ALL, *map(str, SCRIPTS)]
    found = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert (found.returncode, found.stdout.split()) == (0, [path.name for path in SCRIPTS]), found.stderr


@pytest.mark.parametrize("path", OURS, ids=name)
def test_a_file_keeps_to_its_budget(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()
    assert len(lines) <= LINES_MAX, f"{path.name} has outgrown its room: split it by phenomenon"
    if path.suffix == ".js":
        wide = [number for number, line in enumerate(lines, 1) if len(line) > COLUMNS_MAX]
        assert not wide, f"{path.name}: wider than {COLUMNS_MAX}: {wide}"
        assert lines[0].startswith("/**"), f"{path.name}: opens by saying what it is"


@pytest.mark.parametrize("path", SCRIPTS, ids=name)
def test_no_script_makes_markup_or_styles_of_text(path: Path) -> None:
    assert not MARKUP_FROM_TEXT.findall(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", [path for path in PAGE.rglob("*") if path.suffix in (".html", ".css", ".js", ".svg")], ids=name)
def test_nothing_is_loaded_from_outside(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert not re.findall(r"""(?:src|href|from|import|url)\s*[=(]?\s*["'(]\s*(?:https?:)?//""", text)


def test_the_page_holds_no_script_and_no_style_of_its_own() -> None:
    text = (PAGE / "index.html").read_text(encoding="utf-8")
    assert not re.findall(r"<style|\sstyle=|\son\w+=|<script(?![^>]*\ssrc=)", text)


def test_what_is_vendored_is_what_its_page_says() -> None:
    text = (PAGE / "vendor/README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\S+)` \| `\S+` \| `([0-9a-f]{64})` \|$", text, re.M)
    assert {file for file, _ in rows} == {path.name for path in (PAGE / "vendor").iterdir()} - {"README.md"}
    for file, digest in rows:
        assert hashlib.sha256((PAGE / "vendor" / file).read_bytes()).hexdigest() == digest, f"{file} was changed"


def test_every_element_a_script_asks_for_is_in_the_page() -> None:
    ids = set(re.findall(r'\sid="([^"]+)"', (PAGE / "index.html").read_text(encoding="utf-8")))
    asked = {found for path in SCRIPTS for found in re.findall(r'(?:byId|goTo)\("([^"]+)"\)', path.read_text(encoding="utf-8"))}
    assert asked
    assert asked <= ids
