"""Names what a wheel holds, and compiles the kernels into it where torch and a compiler are there; the rest is in pyproject.toml.

site-packages belongs to everybody, and `trainer` or `policies` is a name that other people's projects have. A wheel therefore has
three names at its top: `sentinel`, with the policies and the runbook inside, `sentinel_trainer` and `sentinel_kernels`.

torch is no build requirement: an isolated build would fetch gigabytes of it to compile a library that may not fit the torch that
is installed. So a plain `pip install` compiles nothing, and the kernels are compiled at first use into a cache; `pip install
--no-build-isolation` finds the torch of the environment and compiles them now. Nothing here can make an installation fail.
"""

from __future__ import annotations

import importlib
import json
import shutil
import sys
import tempfile
from pathlib import Path

import setuptools

if int(setuptools.__version__.split(".")[0]) < 77:  # the environment's own: an isolated build has what pyproject.toml says
    remedy = "pip install 'setuptools>=77', or leave --no-build-isolation out"
    sys.exit(f"setuptools {setuptools.__version__} is older than 77, which this package is built with; {remedy}")

from setuptools import Distribution, find_packages, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py

HERE = Path(__file__).resolve().parent
KERNELS = "sentinel_kernels"
INSTALLED_AS = {"trainer": "sentinel_trainer", "cuda_ext": KERNELS}  # the folder of the repository, its package in a wheel
FILES_INSIDE = {"sentinel.policies": "policies", "sentinel.deploy": "deploy"}  # no modules: sentinel/shipped.py finds them
# `pip install -e` is a checkout on the path: every folder keeps its name there.
if {"editable_wheel", "develop"} & set(sys.argv):
    INSTALLED_AS, FILES_INSIDE = {name: name for name in INSTALLED_AS}, {}

sys.path.insert(0, str(HERE))  # a build backend is not started in the project's folder
compilers = importlib.import_module("cuda_ext.compilers")
sources = importlib.import_module("cuda_ext.sources")


def packages_there() -> list[str]:
    """A folder may be absent: the test of the kernels' installation builds them alone."""
    found = find_packages(str(HERE), include=["sentinel", "sentinel.*"])
    for folder, name in INSTALLED_AS.items():
        if (HERE / folder).is_dir():
            found += [name, *(f"{name}.{inner}" for inner in find_packages(str(HERE / folder)))]
    return found + [name for name, folder in FILES_INSIDE.items() if (HERE / folder).is_dir()]


def can_compile() -> bool:
    """Whether an installation brings a library of its own, and so fits one platform only."""
    try:
        compilers.find_compiler("cpu")
        sources.torch_version()
    except sources.BuildError:
        return False
    return True


class BuildWithKernels(build_py):
    def run(self) -> None:
        super().run()
        folder = Path(self.build_lib) / KERNELS / "built"
        shutil.rmtree(folder, ignore_errors=True)  # what an earlier build has left in the project's build/
        if self.editable_mode or not can_compile():  # in place, sources change: the cache follows them, a library would not
            return
        for kind in sources.KINDS:
            self.compile_kernels(kind, folder)

    def compile_kernels(self, kind: str, folder: Path) -> None:
        try:
            made, compiler = sources.recipe(kind), compilers.find_compiler(kind)
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory() as place:
                compilers.compile_library(made, compiler, folder / made.library, Path(place))
        except (sources.BuildError, OSError) as error:
            print(f"cuda_ext: no {kind} kernels in this installation: {error}", file=sys.stderr)
            (folder / sources.LIBRARY[kind]).unlink(missing_ok=True)
            return
        metadata = {"digest": made.digest, "torch": sources.torch_version(), "compiler": compiler.path}
        (folder / made.library).with_suffix(".json").write_text(json.dumps(metadata) + "\n", encoding="utf-8")


class MaybeBinary(Distribution):
    def has_ext_modules(self) -> bool:
        return can_compile()


class WheelOfAnyPython(bdist_wheel):
    def get_tag(self) -> tuple[str, str, str]:
        """The libraries know nothing of Python: a wheel with them fits each version, on this platform."""
        python, abi, platform = super().get_tag()
        return ("py3", "none", platform) if can_compile() else (python, abi, platform)


setup(
    packages=packages_there(),
    package_dir={name: folder for folder, name in INSTALLED_AS.items()} | FILES_INSIDE,
    distclass=MaybeBinary,
    cmdclass={"build_py": BuildWithKernels, "bdist_wheel": WheelOfAnyPython},
)
