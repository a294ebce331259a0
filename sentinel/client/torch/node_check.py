"""A check of the node that it runs on: `sentinel node-check` is this program. It leaves with 0, 1 or 2: healthy, sick, unknown.

    python -m sentinel.client.torch.node_check --gpus 8

- Matrix products whose every element is an integer that the number format holds exactly, so that any order of the additions gives
  the same bits. The digest that they must have is computed on the CPU in integers, another way than the device took. Repeated
  products must have it each time.
- A pattern in memory that is written, read back and compared: every bit as 0 and as 1, and each place its own number.
- With `--pairs`, under torchrun or as a step of Slurm: all-reduces between pairs of nodes (`node_pairs`, `pair_check`).

A device that computes wrongly is sick; so is one that says of itself that it has lost its memory or its bus, or fewer GPUs than
`--gpus`. What could not be tried is unknown.
"""

from __future__ import annotations

import argparse
import ctypes
import hashlib
import operator
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from sentinel.client.node_verdicts import Sick, Unknown, first_line
from sentinel.client.regular_file import regular
from sentinel.client.torch.pair_check import check_pairs

HEALTHY, SICK, UNKNOWN = 0, 1, 2
# Parts of CUDA's own words for a device that needs a reset or a repair. Other errors may be a program's.
DEVICE_WORDS = ("uncorrectable", "ecc error", "fallen off the bus", "gpu is lost", "hardware stack error", "nvlink error")
PATTERNS = (0x00, 0xFF, 0xAA, 0x55)
# By format, the largest integer in its matrices: a sum of DEEP products of two of them is exact in it (bfloat16: up to 256).
FORMATS = {"float32": 15, "float64": 15, "bfloat16": 1}
SIDE, DEEP, REPEATS, SEED = 512, 256, 8, 20240229
CHUNK_BYTES = 1 << 26
SPREAD = 2654435761  # odd, so that it maps no two of 2**31 places to one number


@dataclass(frozen=True, slots=True)
class NodeTrial:
    """`device`: cpu, cuda, or auto: CUDA where there is any. `gpus`: how many there must be; None: as many as there are.
    `memory_mib`: how much of each device's memory is tried."""

    device: str = "auto"
    gpus: int | None = None
    memory_mib: int = 256
    pairs: bool = False


def check_node(trial: NodeTrial, say: Callable[[str], None]) -> None:
    """Raises Sick or Unknown. `say`: what was found good."""
    for device in find_devices(trial):
        with judging(device):
            check_products(device)
            check_memory(device, trial.memory_mib << 20)
        say(f"{device}: products and {trial.memory_mib} MiB of memory are as they must be")


@contextmanager
def judging(device: str) -> Iterator[None]:
    """An error of a device is the device's only where its driver says so: Sick; else Unknown."""
    try:
        yield
    except RuntimeError as error:
        words = f"{device}: {first_line(error)}"
        if any(word in str(error).lower() for word in DEVICE_WORDS):
            raise Sick(words) from error
        raise Unknown(words) from error


def find_devices(trial: NodeTrial) -> list[str]:
    import torch

    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if trial.gpus is not None and count < trial.gpus:
        raise Sick(f"{count} of {trial.gpus} GPUs are seen")
    if trial.device == "cuda" and not count:
        raise Unknown("no GPU is seen; say with --gpus how many there must be")
    return ["cpu"] if trial.device == "cpu" or not count else [f"cuda:{index}" for index in range(count)]


def check_products(device: str, multiply: Callable[[Any, Any], Any] = operator.matmul) -> None:
    """Of integers, in formats that devices multiply. `multiply`: what is tried. Raises Sick."""
    import torch

    generator = torch.Generator().manual_seed(SEED)
    for name, largest in FORMATS.items():
        dtype = getattr(torch, name)
        left = torch.randint(-largest, largest + 1, (SIDE, DEEP), generator=generator)
        right = torch.randint(-largest, largest + 1, (DEEP, SIDE), generator=generator)
        exact = (left @ right).to(torch.float64)  # in 64-bit integers, on the CPU
        expected = digest_of(exact)
        first, second = left.to(device=device, dtype=dtype), right.to(device=device, dtype=dtype)
        for repeat in range(1, REPEATS + 1):
            product = multiply(first, second).to(device="cpu", dtype=torch.float64)
            if digest_of(product) != expected:
                wrong = int((product != exact).sum())
                raise Sick(f"{device}: {wrong} of {SIDE * SIDE} elements of a product in {name} are wrong (repeat {repeat})")


def digest_of(matrix: Any) -> str:
    """SHA-256 of its bytes. `matrix`: float64 on the CPU. Minus zero counts as zero."""
    plain = (matrix + 0.0).contiguous()
    return hashlib.sha256(ctypes.string_at(plain.data_ptr(), plain.numel() * plain.element_size())).hexdigest()


def check_memory(device: str, size: int, between: Callable[[list[Any]], None] = lambda _: None) -> None:
    """`size` in bytes. `between`: called with the memory between each writing and its reading. Raises Sick where what is read is
    not what was written; Unknown where there is no such room."""
    import torch

    chunks = _take_memory(device, size)
    for pattern in PATTERNS if chunks else ():
        for chunk in chunks:
            chunk.fill_(pattern)
        between(chunks)
        _compare(device, f"0x{pattern:02x}", (int((chunk != pattern).sum()) for chunk in chunks))
    words = [chunk.view(torch.int32) for chunk in chunks]
    for number, chunk in enumerate(words):
        chunk.copy_(_numbered(chunk, number))
    between(chunks)
    wrong = (int((chunk != _numbered(chunk, number)).sum()) for number, chunk in enumerate(words))
    _compare(device, "a number for each place", wrong)


def _take_memory(device: str, size: int) -> list[Any]:
    import torch

    free = _free_bytes(device)
    if free is not None and free < size:
        raise Unknown(f"{device}: {size >> 20} MiB of memory are not free: {free >> 20} MiB are")
    try:
        return [torch.empty(length, dtype=torch.uint8, device=device) for length in _lengths(size)]
    except (RuntimeError, MemoryError) as error:
        if any(word in str(error).lower() for word in DEVICE_WORDS):
            raise
        raise Unknown(f"{device}: {size >> 20} MiB of memory are not free: {first_line(error)}") from error


def _free_bytes(device: str) -> int | None:
    """None where that is not known. Without this look a processor would promise more than it has, and end somebody for it."""
    import torch

    if device != "cpu":
        return int(torch.cuda.mem_get_info(device)[0])
    try:
        with open("/proc/meminfo", encoding="ascii", opener=regular) as file:
            found = next((line.split() for line in file if line.startswith("MemAvailable:")), None)
    except OSError:
        return None
    return int(found[1]) << 10 if found and len(found) > 1 and found[1].isdigit() else None


def _lengths(size: int) -> Iterator[int]:
    for begin in range(0, size, CHUNK_BYTES):
        yield max(8, min(CHUNK_BYTES, size - begin) // 8 * 8)


def _numbered(words: Any, number: int) -> Any:
    """Each of a chunk's words with a number of its own: no two places of 8 GiB have the same."""
    import torch

    places = torch.arange(words.numel(), dtype=torch.int64, device=words.device) + number * (CHUNK_BYTES // 4)
    return ((places * SPREAD) & 0x7FFFFFFF).to(torch.int32)


def _compare(device: str, what: str, wrong: Iterator[int]) -> None:
    if count := sum(wrong):
        raise Sick(f"{device}: {count} places of its memory do not hold what was written ({what})")


def parse(words: Sequence[str]) -> NodeTrial:
    parser = argparse.ArgumentParser(prog="sentinel node-check", description="Whether this node computes and remembers.")
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto", help="What is tried (auto: CUDA if any).")
    parser.add_argument("--gpus", type=int, help="How many GPUs there must be.")
    parser.add_argument("--memory", type=int, default=256, metavar="MIB", help="MiB of each device that are tried (256).")
    parser.add_argument("--pairs", action="store_true", help="All-reduces between pairs of nodes, too.")
    given = parser.parse_args(words)
    if given.memory < 0 or (given.gpus is not None and given.gpus < 0):
        parser.error("--memory and --gpus are whole numbers from 0 on")
    return NodeTrial(given.device, given.gpus, given.memory, given.pairs)


def main(words: Sequence[str] | None = None) -> int:
    trial = parse(sys.argv[1:] if words is None else words)
    try:
        check_node(trial, lambda line: print(line, file=sys.stderr))
        if trial.pairs:
            check_pairs(lambda line: print(line, file=sys.stderr))
    except Sick as found:
        print(found)
        return SICK
    except Unknown as why:
        print(why, file=sys.stderr)
        return UNKNOWN
    return HEALTHY


if __name__ == "__main__":
    sys.exit(main())
