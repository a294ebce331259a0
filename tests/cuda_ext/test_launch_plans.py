"""Every launch of add_norm is one that a GPU accepts: its dynamic shared memory beside the static that ptxas reports."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from cuda_ext.build import BuildError, build
from cuda_ext.compilers import find_compiler
from cuda_ext.registers import Kernel, names_of, read_kernels
from tests.cuda_ext.emulated import ops
from tests.cuda_ext.emulated.library import emulated_library

pytestmark = pytest.mark.timeout(900)
# Of a block that asked for no more, its static shared memory included (CUDA C++ Programming Guide, compute capability 8.x, 9.0).
DEFAULT_BYTES = 48 * 1024
WIDEST = 16384
DEVICES = {"sm_80": ops.A100, "sm_90": ops.H200}


class PlannedLaunch(NamedTuple):
    symbol: str
    threads: int
    shared: int
    allowed: int  # what cudaFuncSetAttribute was asked for before; -1: it was not called
    widths: str


def planned() -> Iterator[PlannedLaunch]:
    lines = ctypes.c_char_p()
    ops.call("emulated_norm_plans", WIDEST, ctypes.byref(lines))
    assert lines.value is not None
    for line in lines.value.decode().splitlines():
        symbol, threads, shared, allowed, widths = line.split(" ", 4)
        yield PlannedLaunch(symbol, int(threads), int(shared), int(allowed), widths)


def kernel_name(source: str, name: str) -> str:
    """`add_norm.rows_in_registers<float, 4, 1>`: the same of g++'s symbol and of nvcc's."""
    name = re.sub(r"\b(of_\w+|norm)::", "", name)
    name = re.sub(r"\([\w:]*\)", "", name)  # an enumerator is printed as (Team)1
    return f"{source}.{name.replace('true', '1').replace('false', '0')}"


def static_bytes(architecture: str) -> dict[str, int]:
    """By kernel_name, from the log of the build."""
    kernels = read_kernels(build("cuda").log)
    names = names_of(kernels)
    found = {kernel_name(one.source, names[one.symbol]): one.shared_bytes for one in kernels if one.architecture == architecture}
    assert found
    return found


def names_of_symbols(symbols: set[str]) -> dict[str, str]:
    names = names_of([Kernel("", symbol, "", 0, 0, 0, 0) for symbol in symbols])
    stems = {symbol: re.search(r"\d+of_(add_norm(?:_backward)?)\d", symbol) for symbol in symbols}
    return {symbol: kernel_name(stem[1], names[symbol]) for symbol, stem in stems.items() if stem}


@pytest.mark.parametrize("architecture", DEVICES)
def test_no_launch_has_more_shared_memory_than_it_was_allowed(architecture: str) -> None:
    try:
        find_compiler("cuda")
        emulated_library()
    except BuildError as error:
        pytest.skip(error.sentence)
    static = static_bytes(architecture)
    with ops.emulated_device(**DEVICES[architecture]):
        launches = list(planned())
    names = names_of_symbols({launch.symbol for launch in launches})
    assert {name.split(".")[0] for name in names.values()} == {"add_norm", "add_norm_backward"}
    pairs = {name for name in names.values() if re.search(r"backward\.rows_in_registers<\w+, \d, 2, ", name)}
    assert len(pairs) == (9 if architecture == "sm_90" else 0), "a pair of blocks takes the longest rows where there are clusters"
    refused = []
    for launch in launches:
        own = static[names[launch.symbol]]
        most = DEFAULT_BYTES if launch.allowed < 0 else own + launch.allowed
        if own + launch.shared > most or most > DEVICES[architecture]["shared_of_block"]:
            refused.append(f"{names[launch.symbol]}: {own} + {launch.shared} bytes of {most}, widths {launch.widths}")
    assert not refused, "\n".join(refused)
