"""What is made in a run directory is made through `client.closed_files`, so that it is as closed as the directory."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2] / "sentinel"
ELSEWHERE = {
    "client/closed_files.py": "the one place",
    "client/spare_place.py": "folders of its own, 0700, in places that are everybody's",
    "journal/run_folder.py": "the run directory itself",
    "cli/drill_real.py": "a folder for the drill's run, above it",
    "integrations/linking.py": "a trainer's own folder of checkpoints",
    "mirrors/fsspec_store.py": "objects of another service",
    "mirrors/local_store.py": "a mirror: its owner's alone, whatever lies above it",
    "replay/command.py": "charts, where a person asked for them",
    "trainers/probe/command.py": "the folder of a trial, which a person named",
    "trainers/sealing.py": "copies of a trainer's checkpoints, in folders that are closed",
}
WRITING = set("wax")


def makes(tree: ast.AST) -> Iterator[int]:
    """Lines that may make a file or a folder without asking how closed the one above it is."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or any(word.arg == "opener" for word in node.keywords):
            continue
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        texts = [arg.value for arg in node.args if isinstance(arg, ast.Constant) and isinstance(arg.value, str)]
        opens = name == "open" and any(WRITING & set(text) and set(text) <= set("wax+bt") for text in texts)
        creates = name == "open" and "O_CREAT" in ast.unparse(node)
        if opens or creates or name in ("mkdir", "makedirs", "write_text", "write_bytes"):
            yield node.lineno


def found() -> dict[str, list[int]]:
    """`sim` has a world of its own, and no disk."""
    paths = [path for path in sorted(ROOT.rglob("*.py")) if path.relative_to(ROOT).parts[0] != "sim"]
    lines = {path.relative_to(ROOT).as_posix(): list(makes(ast.parse(path.read_text(encoding="utf-8")))) for path in paths}
    return {name: at for name, at in lines.items() if at}


def test_files_and_folders_are_made_in_one_way() -> None:
    faults = [f"sentinel/{name}:{at}: open_closed, opener=closed, or ensure_directory" for name, at in found().items()
              if name not in ELSEWHERE]  # fmt: skip
    assert not faults, "\n".join(faults)


def test_what_is_allowed_is_needed() -> None:
    assert not (gone := set(ELSEWHERE) - set(found())), f"strike off the list: {sorted(gone)}"
