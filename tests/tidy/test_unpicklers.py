"""Whatever loads a file that somebody else may have written runs nothing of it. What could is named here, with the reason."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PLACES = ("sentinel", "trainer", "cuda_ext", "docs/examples")
PICKLES = {"pickle", "_pickle", "cPickle", "dill", "cloudpickle", "marshal", "shelve", "joblib"}
DISTRIBUTED = {"FileSystemReader", "DefaultLoadPlanner", "dcp.load", "load_state_dict_from_keys"}
ALLOWED = {
    "trainer/checkpoint/pickled.py": "its unpicklers give stand-ins, and no class or function",
    "sentinel/client/torch/whole_state.py": "pickle's errors alone: it loads with weights_only=True",
    "trainer/checkpoint/reading.py": "torch's reader and planner, with the parts replaced that unpickle",
}


def written(node: ast.AST) -> str:
    return ast.unparse(node) if isinstance(node, ast.Attribute | ast.Name) else ""


def loading(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Imports of what unpickles, torch.load that does not say `weights_only=True`, and what of torch unpickles by itself."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names if alias.name.split(".")[0] in PICKLES)
        elif isinstance(node, ast.ImportFrom):
            found = [node.module or ""] if (node.module or "").split(".")[0] in PICKLES and not node.level else []
            found += [alias.name for alias in node.names if alias.name in DISTRIBUTED]
            yield from ((node.lineno, name) for name in found)
        elif isinstance(node, ast.Call) and (name := written(node.func)) in ("torch.load", "np.load", "numpy.load", *DISTRIBUTED):
            said = {word.arg: getattr(word.value, "value", None) for word in node.keywords}
            is_data = said.get("weights_only") is True if name == "torch.load" else not said.get("allow_pickle")
            if not is_data or name in DISTRIBUTED:
                yield node.lineno, name


def test_nothing_else_unpickles() -> None:
    found = {
        path.relative_to(ROOT).as_posix(): sites
        for place in PLACES
        for path in sorted((ROOT / place).rglob("*.py"))
        if (sites := list(loading(ast.parse(path.read_text(encoding="utf-8")))))
    }
    assert set(found) == set(ALLOWED), "load it through trainer.checkpoint.reading, or as data alone (weights_only=True)"


def test_the_search_finds_each_way() -> None:
    ways = ["import pickle", "from pickle import loads", "torch.load(x)", "torch.load(x, weights_only=False)", "dcp.load({})"]
    ways += ["from torch.distributed.checkpoint import FileSystemReader", "np.load(x, allow_pickle=True)"]
    assert all(list(loading(ast.parse(way))) for way in ways)
    assert not list(loading(ast.parse("torch.load(x, weights_only=True)\nimport pickletools")))
