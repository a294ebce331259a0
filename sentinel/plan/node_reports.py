"""What other programs say of a node, read into a verdict. Pure: their exit status and output in, `NodeReading` out.

Each reader knows one format. What it does not understand is unknown, whatever the exit status: a program that could not run says
nothing of the node.

    dcgm     `dcgmi diag -r 1 -j`, of DCGM 2 to 4
    nhc      LBNL Node Health Check, most sites' HealthCheckProgram of Slurm; Azure's adds FaultCode
    primus   the file smoke/HOST.json of AMD's Primus node-smoke
    nvrx     the output of the node health service of nvidia-resiliency-ext
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from sentinel.plan.exclusion import short
from sentinel.plan.node_check import one_line

NAMED_MAX = 4
_NHC_FAILED = re.compile(r"^ERROR:\s+nhc:\s+Health check failed:\s+(.+)$", re.MULTILINE)
_DCGM_ROOTS = ("DCGM GPU Diagnostic", "DCGM Diagnostic")


@dataclass(frozen=True, slots=True)
class NodeReading:
    verdict: Literal["healthy", "sick", "unknown"]
    reason: str


def read_dcgm(code: int | None, output: str, node: str) -> NodeReading:
    """Fail is sick. A warning, an end with another status than 0 although all passed, and nothing that passed are unknown."""
    del node
    root = next((found[name] for found in _objects(output) for name in _DCGM_ROOTS if isinstance(found.get(name), dict)), None)
    results = [] if root is None else list(_dcgm_results(root))
    if not results:
        return NodeReading("unknown", f"dcgmi printed no result ({_ended(code)}): {one_line(output) or 'nothing'}")
    failed = [words for status, words in results if status == "fail"]
    if failed:
        return NodeReading("sick", _named(failed))
    odd = [words for status, words in results if status not in ("pass", "skip", "skipped", "not run")]
    if odd:
        return NodeReading("unknown", f"dcgmi is not sure: {_named(odd)}")
    passed = sum(status == "pass" for status, _ in results)
    if code != 0 or not passed:
        return NodeReading("unknown", f"{passed} results of dcgmi passed and none failed, but {_ended(code)}")
    return NodeReading("healthy", f"{passed} results of dcgmi passed")


def _dcgm_results(root: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Each result's status in small letters, and what it says."""
    for category in _dicts(root.get("test_categories")):
        for test in _dicts(category.get("tests")):
            for result in _dicts(test.get("results")):
                status = str(result.get("status", "")).lower()
                warnings = result.get("warnings") or result.get("info") or ()
                words = [_warning(one) for one in (warnings if isinstance(warnings, list) else [warnings])]
                gpu = result.get("gpu_ids", result.get("gpu_id", result.get("entity_id")))
                where = "" if gpu is None else f" (GPU {gpu})"
                yield status, f"{test.get('name', 'a test')}{where}: {'; '.join(words) or status}"


def _warning(one: object) -> str:
    return str(one.get("warning", one)) if isinstance(one, dict) else str(one)


def read_nhc(code: int | None, output: str, node: str) -> NodeReading:
    """A line of its own for what failed is sick. It says nothing where all is well, and leaves with 0."""
    del node
    failed = _NHC_FAILED.findall(output)
    if failed:
        return NodeReading("sick", _named([one_line(line) for line in failed]))
    if code == 0 and "ERROR:" not in output:
        return NodeReading("healthy", "no health check failed")
    return NodeReading("unknown", f"nhc named no check that failed, and {_ended(code)}: {one_line(output) or 'no output'}")


def read_primus(code: int | None, output: str, node: str) -> NodeReading:
    """Of this node alone. It leaves with 0 once its file is written, whatever it says."""
    found = [one for one in _objects(output) if isinstance(one.get("status"), str) and isinstance(one.get("host"), str)]
    if not found:
        return NodeReading("unknown", f"node-smoke printed no verdict ({_ended(code)}): {one_line(output) or 'nothing'}")
    last = found[-1]
    if short(last["host"]) != short(node):
        return NodeReading("unknown", f"the verdict of node-smoke is of {last['host']}, and this is {node}")
    reasons = [one_line(str(reason)) for reason in last.get("fail_reasons") or ()]
    if last["status"] == "FAIL" and reasons:
        return NodeReading("sick", _named(reasons))
    if last["status"] == "PASS" and not reasons:
        return NodeReading("healthy", "node-smoke has passed")
    return NodeReading("unknown", f"node-smoke says {last['status']!r} with {len(reasons)} reasons")


def read_nvrx(code: int | None, output: str, node: str) -> NodeReading:
    """`code`: the service's exit code. It counts what failed; a service that could not look counts nothing."""
    del node
    found = next((one for one in _objects(output) if isinstance(one.get("fail_count"), int)), None)
    if found is None:
        return NodeReading("unknown", f"the service counted nothing ({_ended(code)}): {one_line(output) or 'nothing'}")
    if found["fail_count"] > 0:
        checks = found.get("failed_checks") or ()
        named = [one_line(str(check)) for check in checks] if isinstance(checks, list) else [one_line(str(checks))]
        return NodeReading("sick", f"{found['fail_count']} health checks failed: {_named(named) or 'unnamed'}")
    if code != 0:
        return NodeReading("unknown", f"no health check failed, but {_ended(code)}")
    return NodeReading("healthy", "no health check of the node health service failed")


READERS: dict[str, Callable[[int | None, str, str], NodeReading]] = {
    "dcgm": read_dcgm, "nhc": read_nhc, "primus": read_primus, "nvrx": read_nvrx,
}  # fmt: skip


def _objects(text: str) -> Iterator[dict[str, Any]]:
    """Every JSON object of a text that may hold other lines."""
    decoder, at = json.JSONDecoder(), 0
    while (at := text.find("{", at)) >= 0:
        try:
            found, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            at += 1
            continue
        if isinstance(found, dict):
            yield found
        at = end


def _dicts(value: object) -> list[dict[str, Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _named(words: list[str]) -> str:
    more = f"; and {len(words) - NAMED_MAX} more" if len(words) > NAMED_MAX else ""
    return "; ".join(words[:NAMED_MAX]) + more


def _ended(code: int | None) -> str:
    return "it did not end" if code is None else f"it left with {code}"
