"""The tables: on the terminal during a bench, and in cuda_ext/README.md, between two marks, from the newest records."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..sources import PACKAGE
from .harness import BARE, OURS
from .record import RESULTS, newest

README = PACKAGE / "README.md"
BEGIN, END = "<!-- measured: written by cuda_ext.bench.table -->", "<!-- /measured -->"
NOT_MEASURED = "Nobody has measured these kernels on a GPU yet."


def lines(case: dict[str, Any]) -> str:
    """One case on the terminal, a line for each way."""
    wide = max((len(name) for name in case["ms"]), default=0)
    rows = [f"{name:{wide}} {ms:12.3f} ms {case['share'][name]:5.0%} of copy" for name, ms in case["ms"].items()]
    rows += [f"{name} could not run: {why}" for name, why in case["failed"].items()]
    if cost := case["statistics_cost"]:
        rows.append(f"statistics cost {cost[1]:+.1%} ({cost[0]:+.1%} to {cost[2]:+.1%})")
    head = f"{case['op']}, {case['shape']} {case['dtype']}; a copy moves {case['copy_gb_s']:.0f} GB/s"
    return "\n    ".join([head, *rows])


def markdown(record: dict[str, Any]) -> str:
    """The kernels of one record."""
    kernels: list[dict[str, Any]] = [case for op in record["kernels"].values() for case in op["cases"]]
    rates = [one["copy_gb_s"] for one in kernels]
    head = ["op", "shape", "dtype", "ms", "GB/s", "of copy", "goal", "statistics cost", "what it replaces, of copy"]
    rows = [head, ["---"] * len(head), *(row(one, record["kind"]) for one in kernels)]
    header = f"{record['device']}, torch {record['torch']}, {record['compiler']}, {record['date']}; "
    header += f"a copy moves {span(rates)} GB/s, measured in turns with each."
    failed = [f"{op}: not measured to the end: {one['failed']}" for op, one in record["kernels"].items() if one["failed"]]
    return "\n\n".join([header, "\n".join("| " + " | ".join(cells) + " |" for cells in rows), *failed])


def row(one: dict[str, Any], kind: str) -> list[str]:
    cells = [one["op"], one["shape"], one["dtype"]]
    if OURS in one["ms"]:
        rate = one["moved_bytes"] / one["ms"][OURS] / 1e6
        cells += [f"{one['ms'][OURS]:.3f}", f"{rate:.0f}", f"**{one['share'][OURS]:.0%}**"]
    else:
        cells += ["failed", "", ""]
    cells.append(f"{one['goal']:.0%}" if one["goal"] and kind == "cuda" else "")
    cost = one["statistics_cost"]
    cells.append(f"{cost[1]:+.1%} ({cost[0]:+.1%} … {cost[2]:+.1%})" if cost else "")
    peers = [f"{name} {share:.0%}" for name, share in one["share"].items() if name not in (OURS, BARE)]
    return [*cells, ", ".join([*peers, *(f"{name} failed" for name in one["failed"] if name not in (OURS, BARE))])]


def span(rates: list[float]) -> str:
    low, high = f"{min(rates):.0f}", f"{max(rates):.0f}"
    return low if low == high else f"{low} to {high}"


def section(folder: Path = RESULTS) -> str:
    """What stands between the marks."""
    on_gpu, on_cpu = newest("cuda", folder), newest("cpu", folder)
    parts = [markdown(on_gpu) if on_gpu else NOT_MEASURED]
    trainer = (on_gpu or {}).get("stages", {}).get("trainer")
    if trainer and trainer["ok"]:
        parts.append(
            "The trainer on the same machine:\n\n" + "\n".join(f"    {text}" for text in trainer["said"].strip().splitlines())
        )
    if on_cpu:
        parts.append(markdown(on_cpu))
    return "\n\n".join(parts)


def write_readme(folder: Path = RESULTS, readme: Path = README) -> None:
    text = readme.read_text(encoding="utf-8")
    before, after = text.index(BEGIN) + len(BEGIN), text.index(END)
    readme.write_text(f"{text[:before]}\n{section(folder)}\n{text[after:]}", encoding="utf-8")
