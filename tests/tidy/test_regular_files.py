"""Files that others put into a run directory are opened through `client.regular_file`: a FIFO must stop neither the loop, nor
training, nor a command."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2] / "sentinel"
ROOMS = sorted(path.name for path in ROOT.iterdir() if path.suffix == ".py" or (path / "__init__.py").is_file())
ALLOWED = {
    ("actions/capture.py", "/proc"),
    ("channels/secrets.py", "an opening of its own, which looks as well"),
    ("client/spare_place.py", "an opening of its own, which looks as well"),
    ("filesystem.py", "/proc"),
    ("launcher/memory.py", "/proc, and the memory controller's files, below /sys"),
    ("mirrors/fsspec_store.py", "objects of another service"),
    ("policy_files/loading.py", "a policy that a person names; it looks at what that is before it opens it"),
    ("sim/case_file.py", "a file that a person names"),
    ("sim/drill_file.py", "a file that a person names"),
    ("supervisor/config_file.py", "a file that a person names, which may be a pipe of the shell's"),
    ("supervisor/stop_signals.py", "the terminal"),
    ("telemetry/compressed.py", "recorded logs, which log_formats has looked at"),
    ("telemetry/crash_log.py", "an opener of its own, which looks as well"),
    ("telemetry/flight_recorder.py", "an opener of its own, which looks as well"),
    ("telemetry/log_formats.py", "it looks at what they are before it opens them"),
    ("telemetry/log_tail.py", "the memory controller's files, below /sys"),
    ("trainers/loading.py", "a profile that a person names"),
    ("trainers/probe/running.py", "a folder that the probe has made, and `tmp` files of a trainer that it started"),
    ("web/report_file.py", "an opening of its own, which looks as well"),
    ("web/static_files.py", "the page of this very package"),
}
KERNEL = ("'/proc/", "os.devnull")  # nobody can put another file there
KNOWN = {name for name, _ in ALLOWED}


def reads(tree: ast.AST) -> Iterator[ast.Call]:
    """Calls that open or read a file by its path, and say nothing of an opener; `os.open` that may wait for the other end."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or any(word.arg == "opener" for word in node.keywords):
            continue
        whose = ast.unparse(node.func.value) if isinstance(node.func, ast.Attribute) else ""
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if name not in ("read_bytes", "read_text") and not (name == "open" and _reads(node, whose)):
            continue
        if not any(place in ast.unparse(node) for place in KERNEL):
            yield node


def _reads(node: ast.Call, whose: str) -> bool:
    if whose == "os":
        flags = ast.unparse(node.args[1])
        return "O_RDONLY" in flags and "O_NONBLOCK" not in flags and "O_DIRECTORY" not in flags
    words = [*node.args, *(word.value for word in node.keywords if word.arg == "mode")]
    modes = [arg.value for arg in words if isinstance(arg, ast.Constant) and isinstance(arg.value, str)]
    is_text = not modes and (not whose or any(word.arg in ("encoding", "errors") for word in node.keywords))
    return is_text or "rb" in modes or "r" in modes


@pytest.mark.parametrize("room", ROOMS)
def test_every_reader_of_the_room_refuses_what_is_no_regular_file(room: str) -> None:
    for path in sorted((ROOT / room).rglob("*.py")) if (ROOT / room).is_dir() else [ROOT / room]:
        name = path.relative_to(ROOT).as_posix()
        found = [node.lineno for node in reads(ast.parse(path.read_text(encoding="utf-8")))]
        assert not found or name in KNOWN, f"sentinel/{name}:{found}: open(path, 'rb', opener=regular), or read_regular(path)"


def test_what_is_allowed_is_needed() -> None:
    for name in sorted(KNOWN):
        assert list(reads(ast.parse((ROOT / name).read_text(encoding="utf-8")))), f"{name}: strike it off the list"
