"""The tables: on the terminal during a bench, and in cuda_ext/README.md, between two marks, a card each."""

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
    """What stands between the marks: each GPU's kernels and trainer, a table a card, then each processor's."""
    parts: list[str] = []
    for on_gpu in newest("cuda", folder):
        parts.append(markdown(on_gpu))
        if on_gpu.get("trainer"):
            parts.append(trainer_table(on_gpu["trainer"]))
    return "\n\n".join([*(parts or [NOT_MEASURED]), *(markdown(on_cpu) for on_cpu in newest("cpu", folder))])


def trainer_table(figures: dict[str, dict[str, Any]]) -> str:
    """Tokens a second of each way the trainer was run, and what telling costs; of what was measured."""
    head = ["the trainer on the same machine", "tokens/s", "MFU", "plain loop, tokens/s", "of the plain loop", "peak memory"]
    rows = [head, ["---"] * len(head)]
    for label, one in figures.items():
        if rates := one.get("tokens_per_s"):
            mfu, low_high = one.get("mfu", {}).get("trainer"), one.get("of_plain")
            rows.append(
                [
                    label,
                    f"**{rates['trainer']:,.0f}**",
                    f"{mfu:.1%}" if mfu is not None else "",
                    f"{rates['plain']:,.0f}" if "plain" in rates else "",
                    f"{low_high[1]:.1%} ({low_high[0]:.1%} … {low_high[2]:.1%})" if low_high else "",
                    f"{one['peak_memory_bytes'] / 2**30:.1f} GiB" if "peak_memory_bytes" in one else "",
                ]
            )
    costs = [
        f"Telemetry costs {quartiles[1]:+.2%} of a step ({quartiles[0]:+.2%} … {quartiles[2]:+.2%}, quartiles)."
        for one in figures.values()
        if (quartiles := one.get("cost of all"))
    ]
    return "\n\n".join(["\n".join("| " + " | ".join(cells) + " |" for cells in rows), *costs])


def write_readme(folder: Path = RESULTS, readme: Path = README) -> None:
    text = readme.read_text(encoding="utf-8")
    before, after = text.index(BEGIN) + len(BEGIN), text.index(END)
    readme.write_text(f"{text[:before]}\n{section(folder)}\n{text[after:]}", encoding="utf-8")
