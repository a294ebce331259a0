"""An installation brings the kernels where torch and a compiler are there when it is built, and is whole where they are not."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from cuda_ext import tiers
from cuda_ext.sources import PACKAGE, recipe
from tests.cuda_ext.tiny import write_sources

setuptools = pytest.importorskip("setuptools")
ROOT = Path(__file__).resolve().parents[2]
SETUPTOOLS_MIN = 77  # as pyproject.toml has it
pytestmark = pytest.mark.skipif(
    int(setuptools.__version__.split(".")[0]) < SETUPTOOLS_MIN, reason=f"setuptools {setuptools.__version__} is older than 77"
)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """This project with one small kernel, and none of its other packages."""
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tmp_path)
    shutil.copytree(PACKAGE, tmp_path / "cuda_ext", ignore=shutil.ignore_patterns("csrc", "__pycache__"))
    shutil.move(write_sources(tmp_path), tmp_path / "cuda_ext" / "csrc")
    return tmp_path


def build_in(project: Path, **environ: str) -> Path:
    """The package as a wheel would hold it."""
    command = [sys.executable, "setup.py", "-q", "build", "--build-lib", "made"]
    subprocess.run(command, cwd=project, env=os.environ | environ, capture_output=True, timeout=120, check=True)
    return project / "made" / "sentinel_kernels"


@pytest.mark.usefixtures("script_compiler")
def test_with_torch_and_a_compiler_the_library_is_in_the_package_with_its_digest(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "made" / "sentinel_kernels" / "built").mkdir(parents=True)
    (project / "made" / "sentinel_kernels" / "built" / "_C_former.so").touch()
    made = build_in(project)
    assert sorted(path.name for path in (made / "built").iterdir()) == ["_C.json", "_C.so"], "no CUDA source, nothing of before"
    monkeypatch.setattr(tiers, "PACKAGE", made)
    monkeypatch.setattr(tiers, "recipe", lambda kind: recipe(kind, made / "csrc"))
    assert tiers.in_package("cpu") == made / "built" / "_C.so"
    (made / "csrc" / "host_device.h").write_text("// another\n")
    assert tiers.in_package("cpu") is None


def test_without_a_compiler_the_package_is_whole_and_has_its_sources(project: Path) -> None:
    made = build_in(project, PATH=str(project), CXX="")
    assert not (made / "built").exists()
    for name in ("__main__.py", "csrc/host_device.h", "csrc/cpu/doubled.cpp", "README.md", "LOG.md", "bench/harness.py"):
        assert (made / name).is_file(), name


def test_a_setuptools_that_is_too_old_is_said(project: Path) -> None:
    """As a new virtual environment of Python 3.11 has it, which an installation without isolation would use."""
    (project / "setuptools.py").write_text("__version__ = '65.5.0'\n")
    command = [sys.executable, "setup.py", "-q", "build"]
    done = subprocess.run(command, cwd=project, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("setuptools 65.5.0 is older than 77")


def test_torch_is_nothing_that_a_build_fetches() -> None:
    requires = (ROOT / "pyproject.toml").read_text(encoding="utf-8").split("[project]")[0]
    assert "torch" not in requires
