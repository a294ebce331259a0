"""`python -m cuda_ext.bench`: every op beside what it replaces, on this machine's GPU or, with --device cpu, on its processor."""

from __future__ import annotations

import argparse
import importlib
import pkgutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from .. import __all__ as ops_there
from .. import bench
from ..build import BuildError, build
from ..registry import declared, register
from ..sources import Kind
from ..tiers import KernelsUnavailable, load
from . import record, table
from .harness import OURS, keep_memory, measure

_without = torch.library.Library("sentinel_bare", "DEF")


def main(argv: Sequence[str] | None = None) -> int:
    ops = benched()
    parser = argparse.ArgumentParser(prog=f"python -m {__package__}", description="Every op beside what it replaces.")
    parser.add_argument("--device", choices=("cuda", "cpu"), help="the GPU where there is one")
    parser.add_argument("--op", action="append", choices=ops, metavar="NAME", help=f"only these: {', '.join(ops)}")
    parser.add_argument("--rounds", type=int, default=30, metavar="N", help="turns of every way, 4 or more (30)")
    alone_help = "no peers, and only the shapes that matter most: what a GPU is asked first"
    parser.add_argument("--alone", action="store_true", help=alone_help)
    record_help = "keep what is measured: in FILE, or as today's results and the table of cuda_ext/README.md"
    parser.add_argument(
        "--record", nargs="?", const="", metavar="FILE", type=lambda word: Path(word) if word else "", help=record_help
    )
    args = parser.parse_args(argv)
    if args.rounds < 4:
        parser.error(f"--rounds {args.rounds}: quartiles need 4")
    kind: Kind = args.device or ("cuda" if torch.cuda.is_available() else "cpu")
    try:
        tier = load(kind)
    except KernelsUnavailable as error:
        print(f"{__package__}: {error}", file=sys.stderr)
        return 1
    print(tier, flush=True)
    device = torch.device(kind)
    keep_memory()
    machine = record.describe_machine(device) if args.record is not None else {}
    bare, ok = without_statistics(kind), True
    for op in args.op or ops:
        for results in run(op, device, bare, args.rounds, alone=args.alone):
            if args.record is not None:
                save(op, results, machine, args.record)
        ok = ok and not results["failed"] and not any(OURS in case["failed"] for case in results["cases"])
    return 0 if ok else 1


def benched() -> list[str]:
    """The ops that have cases in a file of their name."""
    return sorted({module.name for module in pkgutil.iter_modules(bench.__path__)} & set(ops_there))


def run(op: str, device: torch.device, bare: Any, rounds: int, *, alone: bool = False) -> Iterator[dict[str, Any]]:
    """Yields what was measured so far, after every case and at the end, with the reason if the cases ended early. The failure of
    one op hides no other's figures."""
    results: dict[str, Any] = {"cases": [], "failed": "it was ended"}
    try:
        for case in importlib.import_module(f"{bench.__name__}.{op}").cases(device, alone):
            results["cases"].append(asdict(measure(case, device, bare=bare, rounds=rounds, alone=alone)))
            print(table.lines(results["cases"][-1]), flush=True)
            yield results
        results["failed"] = None
    except Exception as error:  # noqa: BLE001
        results["failed"] = f"{type(error).__name__}: {error}"
        print(f"{op}: {results['failed']}", flush=True)
    yield results


def save(op: str, results: dict[str, Any], machine: dict[str, Any], file: Path | str) -> None:
    """Called after each case, so that an interrupted bench keeps its results. Without a file: today's record and the README."""
    place = Path(file) if file else record.place_of(machine)
    whole = with_earlier(record.read(place).get("kernels", {}).get(op, {}), results | {"sources": machine.get("sources")})
    record.write(place, machine, {"kernels": {op: whole}})
    if not file:
        table.write_readme()


def with_earlier(earlier: dict[str, Any], results: dict[str, Any]) -> dict[str, Any]:
    """The results of an op, and behind them the cases of the same record that this bench has not measured (again): one that is
    cut short takes nothing away. Not those of other sources."""
    if earlier.get("sources") != results["sources"]:
        return results
    known = {(case["op"], case["shape"], case["dtype"]) for case in results["cases"]}
    kept = [case for case in earlier["cases"] if (case["op"], case["shape"], case["dtype"]) not in known]
    return results | {"cases": results["cases"] + kept}


def without_statistics(kind: Kind) -> Any:
    """The namespace of the same ops, their statistics compiled out; None, with a message, if they cannot be built."""
    schemas = declared().values()
    try:
        built = build(kind, bare=True)
        for schema in schemas:
            _without.define(schema.removeprefix("sentinel::"))
        register(built.path)
    except (BuildError, OSError) as error:
        print(f"without statistics: not measured, {error}", flush=True)
        return None
    return torch.ops.sentinel_bare


if __name__ == "__main__":
    sys.exit(main())
