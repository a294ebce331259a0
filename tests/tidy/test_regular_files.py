"""Files that others put into a run directory are opened through `client.regular_file`: a FIFO must not stop the loop."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2] / "sentinel"
ROOMS = ("actions", "checkpoints", "journal", "mirrors", "paging", "run_files", "telemetry", "trackers", "trainers")
ALLOWED = {
    ("telemetry/log_tail.py", "the memory controller's files, below /sys"),
    ("telemetry/compressed.py", "recorded logs, which log_formats has looked at"),
    ("telemetry/log_formats.py", "it looks at what they are before it opens them"),
    ("telemetry/flight_recorder.py", "an opener of its own, which looks as well"),
    ("telemetry/crash_log.py", "an opener of its own, which looks as well"),
    ("mirrors/fsspec_store.py", "objects of another service"),
    ("actions/capture.py", "/proc"),
    ("trainers/life.py", "/proc"),
    ("trainers/loading.py", "a profile that a person names"),
    ("trainers/probe/running.py", "a folder that the probe has made, and `tmp` files of a trainer that it started"),
}
KNOWN = {name for name, _ in ALLOWED}


def reads(tree: ast.AST) -> Iterator[ast.Call]:
    """Calls that read a file by its path, and say nothing of an opener."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or any(word.arg == "opener" for word in node.keywords):
            continue
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        modes = [arg.value for arg in node.args if isinstance(arg, ast.Constant) and isinstance(arg.value, str)]
        if name in ("read_bytes", "read_text") or (name == "open" and ("rb" in modes or "r" in modes)):
            yield node


@pytest.mark.parametrize("room", ROOMS)
def test_every_reader_of_the_room_refuses_what_is_no_regular_file(room: str) -> None:
    for path in sorted((ROOT / room).rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        found = [node.lineno for node in reads(ast.parse(path.read_text(encoding="utf-8")))]
        assert not found or name in KNOWN, f"sentinel/{name}:{found}: open(path, 'rb', opener=regular), or read_regular(path)"


def test_what_is_allowed_is_needed() -> None:
    for name in sorted(KNOWN):
        assert list(reads(ast.parse((ROOT / name).read_text(encoding="utf-8")))), f"{name}: strike it off the list"
