"""A wheel of the sources, and a virtual environment in which it is installed; nothing is fetched."""

from __future__ import annotations

import importlib.metadata
import os
import re
import subprocess
import sys
import sysconfig
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SETUPTOOLS_MIN = 77  # as pyproject.toml has it
# Each of these raises when it is imported: where one is taken for ours, the command fails and says so.
HOSTILE = ("sentinel", "trainer", "policies", "cuda_ext", "yaml")


def without_compiler(**more: str) -> dict[str, str]:
    """The kernels have a test of their own, and compiling them takes a minute."""
    return {**os.environ, "PATH": "", "CXX": "", "CUDACXX": "", "CUDA_HOME": "", "PYTHONPATH": "", **more}


def build_tree(sources: Path) -> Path:
    """What a wheel would hold, as folders."""
    command = [sys.executable, "setup.py", "-q", "build", "--build-lib", "made"]
    subprocess.run(command, cwd=sources, env=without_compiler(), capture_output=True, text=True, timeout=120, check=True)
    return sources / "made"


def build_wheel(sources: Path, place: Path) -> Path:
    command = [sys.executable, "-m", "pip", "wheel", ".", "-q", "--no-deps", "--no-build-isolation", "--no-index", "-w", place]
    subprocess.run(command, cwd=sources, env=without_compiler(), capture_output=True, text=True, timeout=280, check=True)
    (wheel,) = place.glob("*.whl")
    return wheel


def hostile_folder(place: Path) -> Path:
    """Somebody's project: packages that are called as ours are, or as what we import."""
    for name in HOSTILE:
        (place / name).mkdir(parents=True)
        for module in ("__init__", "__main__", "show"):
            (place / name / f"{module}.py").write_text(f"raise SystemExit('somebody else\\'s {name} was taken')\n")
    (place / "policies" / "other.yaml").write_text("not: a policy\n")
    return place


def environment(place: Path, *what: str, with_torch: bool) -> Path:
    """Its folder of programs; `what` is a wheel, or `-e` and sources. What Sentinel depends on is lent from the environment that
    runs the tests."""
    command = [sys.executable, "-m", "venv", "--without-pip", str(place)]
    subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    (site,) = (place / "lib").glob("python*/site-packages")
    lent = _all_but_sentinel(place / "lent") if with_torch else _dependencies(place / "lent")
    (site / "lent.pth").write_text(f"{lent}\n")
    python = place / "bin" / "python"
    install = [sys.executable, "-m", "pip", "--python", str(python), "install", "-q", "--no-deps", "--no-index", *what]
    environ = without_compiler(PIP_NO_BUILD_ISOLATION="0")  # pip takes 0 for: without isolation
    subprocess.run(install, env=environ, capture_output=True, text=True, timeout=120, check=True)
    return python.parent


def _all_but_sentinel(place: Path) -> Path:
    place.mkdir()
    for entry in Path(sysconfig.get_paths()["purelib"]).iterdir():
        if "sentinel" not in entry.name:
            (place / entry.name).symlink_to(entry)
    return place


def _dependencies(place: Path) -> Path:
    """Links to what the supervisor depends on, and to nothing else: no torch, no numpy."""
    place.mkdir()
    waiting, seen = ["training-sentinel"], set[str]()
    while waiting:
        name = re.sub(r"[-_.]+", "-", waiting.pop()).lower()
        if name in seen:
            continue
        seen.add(name)
        try:
            found = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            continue  # of another platform or Python
        named = [re.match(r"[\w.-]+", one) for one in found.requires or () if "extra" not in one]
        waiting += [one[0] for one in named if one is not None]
        if name != "training-sentinel":
            for top in {file.parts[0] for file in found.files or () if file.parts[0] not in ("..", "__pycache__")}:
                (place / top).exists() or (place / top).symlink_to(Path(str(found.locate_file(top))).resolve())
    return place
