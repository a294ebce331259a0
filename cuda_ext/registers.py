"""What ptxas reports of each kernel (`-Xptxas -v`): registers, spills, stack and shared memory, for each architecture."""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass

from .processes import Programs

SOURCE = re.compile(r" -c \S*?([^/\s]+)\.cu ")
ENTRY = re.compile(r"Compiling entry function '(\w+)' for '(\w+)'")
SPILLS = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
USED = re.compile(r"Used (\d+) registers(?:.*?(\d+) bytes smem)?")


@dataclass(frozen=True)
class Kernel:
    source: str
    symbol: str
    architecture: str
    registers: int
    stack_bytes: int
    spilled_bytes: int
    """Stores and loads for want of registers."""
    shared_bytes: int


def read_kernels(log: str) -> list[Kernel]:
    """Every kernel of a build's log, in its order."""
    kernels = []
    source, symbol, architecture, stack, spilled = "", "", "", 0, 0
    for line in log.splitlines():
        if named := SOURCE.search(line):
            source = named[1]
        elif entry := ENTRY.search(line):
            symbol, architecture = entry.groups()
            stack = spilled = 0
        elif spills := SPILLS.search(line):
            stack, stores, loads = (int(number) for number in spills.groups())
            spilled = stores + loads
        elif symbol and (used := USED.search(line)):
            kernels.append(Kernel(source, symbol, architecture, int(used[1]), stack, spilled, int(used[2] or 0)))
            symbol = ""
    return kernels


def names_of(kernels: list[Kernel]) -> dict[str, str]:
    """A readable name of each symbol: without namespace, result and arguments. The symbol itself where there is no c++filt."""
    symbols = sorted({kernel.symbol for kernel in kernels})
    demangle = shutil.which("c++filt")
    if demangle is None or not symbols:
        return {symbol: symbol for symbol in symbols}
    names = Programs().run([demangle, *symbols], 60.0).output.splitlines()
    return dict(zip(symbols, map(shortened, names), strict=False))


def shortened(name: str) -> str:
    """`void sentinel::(anonymous namespace)::norm<float, (int)4>(float const*, int)` → `norm<float, 4>`."""
    name = re.sub(r"\((?:anonymous namespace|int|bool|long|unsigned int)\)(?:::)?", "", name).replace("sentinel::", "")
    depth, end = 0, len(name)
    for place, letter in enumerate(name):
        depth += (letter == "<") - (letter == ">")
        if letter == "(" and depth == 0:
            end = place
            break
    return name[:end].removeprefix("void ").strip()


def summary(kernels: list[Kernel]) -> str:
    """A row for all variants of a kernel (dtypes, widths), as ranges; variants that spill follow by name."""
    names = names_of(kernels)
    rows: dict[str, dict[str, list[Kernel]]] = {}
    for kernel in kernels:
        name = f"{kernel.source}: {names.get(kernel.symbol, kernel.symbol).split('<')[0]}"
        rows.setdefault(name, {}).setdefault(kernel.architecture, []).append(kernel)
    counted = {f"{name} ({max(map(len, row.values()))})": row for name, row in rows.items()}
    spilling = [kernel for kernel in kernels if kernel.spilled_bytes]
    whole = columns({name: {one: used(of) for one, of in row.items()} for name, row in counted.items()})
    return whole + (f"\n\nspilling:\n{table(spilling)}" if spilling else "")


def table(kernels: list[Kernel]) -> str:
    """Kernel by architecture, each variant for itself."""
    names = names_of(kernels)
    rows: dict[str, dict[str, str]] = {}
    for kernel in kernels:
        rows.setdefault(f"{kernel.source}: {names.get(kernel.symbol, kernel.symbol)}", {})[kernel.architecture] = used([kernel])
    return columns(rows)


def used(kernels: list[Kernel]) -> str:
    """Registers and spilled bytes; stack and shared memory where there are any."""

    def span(name: str) -> str:
        low, *_, high = sorted(getattr(kernel, name) for kernel in kernels * 2)
        return f"{low}" if low == high else f"{low} to {high}"

    cell = f"{span('registers')} registers, {span('spilled_bytes')} spilled"
    for name, word in (("stack_bytes", "stack"), ("shared_bytes", "shared")):
        cell += f", {span(name)} {word}" if span(name) != "0" else ""
    return cell


def columns(rows: dict[str, dict[str, str]]) -> str:
    architectures = sorted({one for row in rows.values() for one in row})
    wide = max(map(len, rows), default=0)
    column = max((len(cell) for row in rows.values() for cell in row.values()), default=0)
    lines = [f"{'kernel':{wide}}  " + "  ".join(f"{one:{column}}" for one in architectures)]
    for name, row in rows.items():
        lines.append(f"{name:{wide}}  " + "  ".join(f"{row.get(one, '-'):{column}}" for one in architectures))
    return "\n".join(line.rstrip() for line in lines)
