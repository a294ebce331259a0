"""The CUDA library without a GPU: it compiles for every architecture, loads, registers each op, and no kernel spills."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from cuda_ext.build import BuildError, Built, build
from cuda_ext.compilers import find_compiler
from cuda_ext.registers import read_kernels, table
from cuda_ext.registry import declared, register, without_kernel
from cuda_ext.sources import ARCHITECTURES, recipe

pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def cuda_library() -> Built:
    """From the cache where these very sources were compiled before."""
    try:
        find_compiler("cuda")
    except BuildError as error:
        pytest.skip(error.sentence)
    return build("cuda")


def test_every_kernel_is_compiled_for_every_architecture_and_none_spills(cuda_library: Built) -> None:
    kernels = read_kernels(cuda_library.log)
    assert {kernel.architecture for kernel in kernels} == set(ARCHITECTURES)
    names = {arch: {kernel.symbol for kernel in kernels if kernel.architecture == arch} for arch in ARCHITECTURES}
    assert len(set(map(frozenset, names.values()))) == 1
    spilling = [kernel for kernel in kernels if kernel.spilled_bytes]
    assert not spilling, table(spilling)


def test_every_source_is_in_it(cuda_library: Built) -> None:
    for source in recipe("cuda").units:
        assert f"{source.name}.o" in cuda_library.log


def test_it_loads_without_a_gpu_and_registers_every_op_for_cuda(cuda_library: Built) -> None:
    register(cuda_library.path)
    assert declared()
    assert without_kernel("cuda") == []


def test_every_op_has_a_kernel_for_the_cpu_too(cpu_library: Built) -> None:
    assert cpu_library.path.is_file()
    assert without_kernel("cpu") == []


def test_nothing_of_torch_but_its_stable_interface_is_asked_for(cuda_library: Built, cpu_library: Built) -> None:
    if shutil.which("nm") is None:
        pytest.skip("no nm (binutils) on PATH")
    for built in (cuda_library, cpu_library):
        command = ["nm", "-DC", "--undefined-only", str(built.path)]
        output = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
        names = [line.split(maxsplit=1)[-1] for line in output.splitlines()]
        assert [name for name in names if name.startswith(("aoti_torch", "torch_"))]
        assert not [name for name in names if name.startswith(("at::", "c10::", "torch::"))]
