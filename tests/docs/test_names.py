"""A name in backquotes, in a page, a docstring or a comment, is the name of something: prose follows what is renamed."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("sentinel", "trainer", "cuda_ext")
FOLDERS = (*PACKAGES, "tests", "docs", "deploy", "policies")
SOURCES = {package: sorted((ROOT / package).rglob("*.py")) for package in PACKAGES}
SETUP = ROOT / "setup.py"
NOT_OF_TODAY = ("LOG.md", "vendor/README.md")  # what was tried stands under the names of its time; a library has names of its own
PAGES = [
    page
    for page in sorted({ROOT / "ARCHITECTURE.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "sentinel").rglob("*.md")})
    if not page.as_posix().endswith(NOT_OF_TODAY)
]
# Programs, files and functions that are not in these packages, and names in examples.
OTHERS = {
    "LONG", "_max", "_min", "_x3", "assert", "dmesg", "ft_launcher", "global_step1200", "msteams.entities", "rich",
    "simple_value", "srun", "will_close", "json.py", "megatron/core/datasets/indexed_dataset.py", "tools/preprocess_data.py",
    "torch/cuda/__init__.py", "trainer/model.py",
}  # fmt: skip


@cache
def words() -> frozenset[str]:
    """What a name may consist of: identifiers, words of short strings, and names of files and folders."""
    found: set[str] = set()
    for folder in FOLDERS:
        for path in [ROOT / folder, *(ROOT / folder).rglob("*")]:
            found |= {path.name, *re.findall(r"\w+", path.stem)}
    found.add(SETUP.name)  # names the packages of a wheel
    for path in (SETUP, *(path for sources in SOURCES.values() for path in sources)):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            for kind in ("id", "attr", "arg", "name"):
                found |= set(str(getattr(node, kind, "")).split("."))
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value) < 80:
                found |= set(re.findall(r"\w+", node.value))
    profiles = ("sentinel/trainers/shipped", "*.yaml")
    for folder, ending in (("sentinel/web/page", "*.js"), ("cuda_ext/csrc", "*.[ch]*"), ("policies", "*.yaml"), profiles):
        for path in (ROOT / folder).rglob(ending):
            found |= set(re.findall(r"\w+", path.read_text(encoding="utf-8")))
    return frozenset(found)


def is_file(name: str) -> bool:
    """A Python file of that name anywhere; of that path from the root or from a package, where folders are named."""
    if "/" not in name:
        return name in words()
    return any(True for place in (ROOT, *(ROOT / package for package in PACKAGES)) for _ in place.glob(name))


def unknown_names(text: str) -> Iterator[str]:
    """Names in backquotes of which a part is nowhere in the sources, and Python files that are not there."""
    for name in re.findall(r"`([A-Za-z_][\w.]*)`", text):
        if name not in OTHERS and not name.endswith(".py") and not set(name.strip(".").split(".")) <= words():
            yield name
    for name in re.findall(r"\b(?:\w+/)*\w+\.py\b", text):
        if name not in OTHERS and not is_file(name):
            yield name


@pytest.mark.parametrize("package", PACKAGES)
def test_what_the_sources_name_is_there(package: str) -> None:
    texts = {path.relative_to(ROOT): path.read_text(encoding="utf-8") for path in SOURCES[package]}
    faults = [f"{where} names {name}" for where, text in texts.items() for name in unknown_names(text)]
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_what_a_page_names_is_there(page: Path) -> None:
    faults = list(unknown_names(page.read_text(encoding="utf-8")))
    assert not faults, f"{page.relative_to(ROOT)} names {faults}"


def test_a_name_that_is_gone_is_found() -> None:
    gone = "no" + "_such_thing"
    found = list(unknown_names(f"`{gone}`, `detectors.{gone}`, {gone}.py and plan/{gone}.py"))
    assert found == [gone, f"detectors.{gone}", f"{gone}.py", f"plan/{gone}.py"]
    assert not list(unknown_names("`find_row`, `detectors.bank.DetectorBank`, bank.py and detectors/bank.py"))
