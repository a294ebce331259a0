"""Which tier runs, and why: every way down, every refusal, each in a process that has loaded nothing yet."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from cuda_ext import tiers
from cuda_ext.build import BuildError, Built
from cuda_ext.sources import Kind, Recipe
from cuda_ext.tiers import ENVIRONMENT, KernelsUnavailable, load

MADE = Recipe("cpu", Path("csrc"), (Path("csrc/cpu/op.cpp"),), ("-O3",), "digest")


class Machine:
    """What a machine has: libraries in the cache, a compiler that works, fails or is not there; what was built and loaded."""

    def __init__(self) -> None:
        self.cache: dict[Kind, Built] = {}
        self.failing: str | None = None
        self.built: list[str] = []
        self.loaded: list[str] = []
        self.refused: set[Path] = set()

    def cached(self, spec: Recipe, version: str) -> Built | None:
        return self.cache.get(spec.kind)

    def build(self, kind: Kind) -> Built:
        if self.failing:
            raise BuildError(self.failing)
        self.built.append(kind)
        self.cache[kind] = Built(Path("/cache/key") / f"{kind}.so", "")
        return self.cache[kind]

    def find_compiler(self, kind: Kind) -> None:
        if self.failing:
            raise BuildError(self.failing)

    def load_library(self, kind: Kind, path: Path) -> None:
        if path in self.refused:
            raise KernelsUnavailable(f"{path} cannot be loaded")
        self.loaded.append(kind)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Machine:
    """A fresh process, without a GPU."""
    monkeypatch.delenv(ENVIRONMENT, raising=False)
    fake = Machine()
    monkeypatch.setattr(tiers, "_chosen", {})
    monkeypatch.setattr(tiers, "_loaded", {})
    monkeypatch.setattr(tiers, "PACKAGE", tmp_path)
    monkeypatch.setattr(tiers, "recipe", lambda kind: Recipe(kind, MADE.folder, MADE.files, MADE.flags, MADE.digest))
    for name in ("cached", "build", "find_compiler", "load_library"):
        monkeypatch.setattr(tiers, name, getattr(fake, name))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    return fake


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    card = SimpleNamespace(capability=(9, 0))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "NVIDIA Test")
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: card.capability)
    return card


def test_without_a_gpu_the_cpu_library_is_built_at_first_use_and_found_later(machine: Machine) -> None:
    tier = load()
    assert (tier.name, machine.built, machine.loaded) == ("cpu", ["cpu"], ["cpu"])
    assert tier.why.startswith(f"no GPU is visible to torch {torch.__version__}; C++ for this processor")
    assert "built at first use into /cache/key" in tier.why
    assert tier.libraries == (Path("/cache/key/cpu.so"),)
    assert load() is tier
    assert load("cpu").libraries == tier.libraries
    assert machine.loaded == ["cpu"], "a library is loaded once"


def test_with_a_gpu_cuda_is_taken(machine: Machine, gpu: SimpleNamespace) -> None:
    tier = load()
    assert (tier.name, machine.built) == ("cuda", ["cuda"])
    assert tier.why.startswith(f"NVIDIA Test, torch {torch.__version__}, built at first use")


def test_what_was_built_before_is_not_built(machine: Machine) -> None:
    machine.cache["cpu"] = Built(Path("/cache/key/cpu.so"), "")
    assert "built before in /cache/key" in load().why
    assert machine.built == []


def test_a_library_in_the_package_comes_first_if_it_is_of_these_sources(machine: Machine, tmp_path: Path) -> None:
    (tmp_path / "built").mkdir()
    (tmp_path / "built" / "_C.so").touch()
    assert load(may_build=False).libraries == (), "without its digest it is nobody's"
    (tmp_path / "built" / "_C.json").write_text(json.dumps({"digest": "of former sources"}))
    assert load(may_build=False).libraries == ()
    machine.failing = "no C++ compiler on PATH"
    assert load(may_build=False).why.endswith("the package's library does not serve here, and no C++ compiler on PATH")
    (tmp_path / "built" / "_C.json").write_text(json.dumps({"digest": "digest"}))
    tier = load()
    assert tier.libraries == (tmp_path / "built" / "_C.so",)
    assert tier.why.endswith("built when the package was installed")
    assert machine.built == []


def test_a_library_of_the_package_that_does_not_load_gives_way_to_one_built_here(
    machine: Machine, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """As one of another distribution, linked to a newer C library."""
    (tmp_path / "built").mkdir()
    (tmp_path / "built" / "_C.so").touch()
    (tmp_path / "built" / "_C.json").write_text(json.dumps({"digest": "digest"}))
    machine.refused.add(tmp_path / "built" / "_C.so")
    tier = load()
    assert tier.libraries == (Path("/cache/key/cpu.so"),)
    assert f"{tmp_path}/built/_C.so cannot be loaded; looking for another" in capfd.readouterr().err


def test_without_a_compiler_plain_torch_runs_and_every_reason_is_said(machine: Machine) -> None:
    machine.failing = "no C++ compiler on PATH"
    tier = load()
    assert (tier.name, tier.libraries) == ("torch", ())
    assert str(tier) == f"torch: no GPU is visible to torch {torch.__version__}; no C++ compiler on PATH"


def test_a_compile_that_fails_is_shown_whole_and_reasoned_in_a_line(machine: Machine, capfd: pytest.CaptureFixture[str]) -> None:
    machine.failing = "c++ of op.cpp failed with 1\nop.cpp:3: error"
    assert load().why.endswith("c++ of op.cpp failed with 1")
    assert "op.cpp:3: error" in capfd.readouterr().err


def test_a_gpu_that_is_too_old_is_said(machine: Machine, gpu: SimpleNamespace) -> None:
    gpu.capability = (7, 5)
    tier = load()
    assert tier.name == "cpu"
    assert tier.why.startswith("NVIDIA Test has compute capability 7.5, the CUDA kernels need 8.0")


def test_a_gpu_that_does_not_answer_is_said_in_a_line(
    machine: Machine, gpu: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> str:
        raise RuntimeError("CUDA error: all CUDA-capable devices are busy or unavailable\nCUDA kernel errors might be …")

    monkeypatch.setattr(torch.cuda, "get_device_name", refuse)
    message = str(load())
    assert "does not answer torch" in message
    assert "all CUDA-capable devices are busy or unavailable; C++" in message


@pytest.mark.parametrize(
    ("outcome", "message"),
    [
        (RuntimeError("CUDA driver version is insufficient\nmore"), "CUDA driver version is insufficient; "),
        (torch.tensor([[0.0, 2.0, 0.0]]), r"computes \[\[0.0, 2.0, 0.0\]\] on this GPU"),
    ],
    ids=["an old driver", "no code for this GPU"],
)
def test_kernels_that_do_not_run_here_are_refused_before_a_run_begins(
    monkeypatch: pytest.MonkeyPatch, outcome: RuntimeError | torch.Tensor, message: str
) -> None:
    def grad_stats(*_: object) -> torch.Tensor:
        if isinstance(outcome, RuntimeError):
            raise outcome
        return outcome

    full, ones = torch.full, torch.ones
    monkeypatch.setattr(torch, "full", lambda size, value, device: full(size, value))
    monkeypatch.setattr(torch, "ones", lambda size, device: ones(size))
    tiers.check_on_gpu(Path("x.so"))  # the references compute what is right
    monkeypatch.setattr(importlib.import_module("cuda_ext.ops.grad_stats"), "grad_stats", grad_stats)
    with pytest.raises(KernelsUnavailable, match=message) as refused:
        tiers.check_on_gpu(Path("x.so"))
    assert "\n" not in str(refused.value)


def test_what_is_asked_for_by_name_is_had_or_refused(machine: Machine) -> None:
    with pytest.raises(KernelsUnavailable, match="the cuda kernels were asked for and cannot be had: no GPU is visible"):
        load("cuda")
    assert machine.built == [], "nothing is built for what is refused"
    machine.failing = "no C++ compiler on PATH"
    with pytest.raises(KernelsUnavailable, match=r"the cpu kernels .*: no C\+\+ compiler on PATH"):
        load("cpu")
    tier = load("torch")
    assert (tier.name, tier.why, machine.loaded) == ("torch", "it was asked for", [])


def test_without_torch_nothing_runs_and_that_is_said_once(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(KernelsUnavailable, match=r"^there is no torch here, .*; install torch >= 2\.11$"):
        load()


def test_a_reason_that_goes_for_both_libraries_is_said_once(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "__version__", "2.10.1")
    assert str(load()).count("torch 2.10.1 is older than 2.11") == 1


def test_plain_torch_cannot_be_had_after_kernels_were_loaded(machine: Machine) -> None:
    load("cpu")
    with pytest.raises(KernelsUnavailable, match=r"has loaded kernels \(cpu\)"):
        load("torch")


def test_the_environment_asks_too_and_the_argument_outranks_it(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ENVIRONMENT, "torch")
    assert load().name == "torch"
    assert load("cpu").name == "cpu"
    monkeypatch.setenv(ENVIRONMENT, "")
    assert load().name == "cpu"


@pytest.mark.parametrize("word", ["CUDA", "gpu", "none"])
def test_another_word_is_refused_with_those_there_are(machine: Machine, monkeypatch: pytest.MonkeyPatch, word: str) -> None:
    with pytest.raises(ValueError, match=f"kernels='{word}': must be one of cuda, cpu, torch"):
        load(word)
    monkeypatch.setenv(ENVIRONMENT, word)
    with pytest.raises(ValueError, match=f"{ENVIRONMENT}='{word}': must be one of cuda, cpu, torch"):
        load()


def test_looking_builds_nothing_and_is_not_remembered(machine: Machine) -> None:
    tier = load(may_build=False)
    assert (tier.name, tier.libraries, machine.built) == ("cpu", (), [])
    assert "not built yet: it is compiled at first use, or now by `python -m cuda_ext --build`" in tier.why
    machine.failing = "no C++ compiler on PATH"
    assert load(may_build=False).name == "torch", "what could not be built is not promised"
    machine.failing = None
    assert load().libraries


def test_a_file_that_is_no_library_is_said_with_the_remedy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "_C.so"
    path.write_text("no library")
    with pytest.raises(KernelsUnavailable, match=r"cannot be loaded: .*; delete it to have it built again"):
        tiers.load_library("cpu", path)


@pytest.mark.skipif(torch.version.cuda is not None, reason="this torch has CUDA")
def test_a_cuda_library_that_torch_gives_no_stream_is_refused_before_it_is_loaded(tmp_path: Path) -> None:
    with pytest.raises(KernelsUnavailable, match="has no CUDA streams"):
        tiers.load_library("cuda", tmp_path / "not_there.so")
