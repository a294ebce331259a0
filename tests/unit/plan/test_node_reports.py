"""What other programs say of a node. Outputs are as the programs print them, cut down to a few entries:

- dcgm: DCGM 3.1.0, as its own tests of its reader have it (JsonResult, "Deserialize real output"); failures and warnings in the
  shape that its sources document (status PASS|FAIL|WARN|SKIPPED with `warnings`); DCGM 4 names entities, under another root.
- nhc: LBNL Node Health Check 1.4.3, and Azure's with its FaultCode.
- primus: the file that `primus.tools.preflight.node_smoke` writes (host, node_rank, status, duration_sec, fail_reasons, tier1,
  tier2).
- nvrx: what its own client reads of the service's output: fail_count, failed_checks.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from sentinel.plan.node_reports import READERS

NODE = "n1"


def dcgm(*results: dict[str, Any], root: str = "DCGM GPU Diagnostic", name: str = "PCIe") -> str:
    deployment = {"name": "Denylist", "results": [{"gpu_ids": "0,1,2,3,4,5,6,7", "status": "PASS"}]}
    tests = [deployment, None, {"name": name, "results": list(results)}]
    return json.dumps({root: {"test_categories": [{"category": "Deployment", "tests": tests}], "version": "3.1.0"}})


GPU_FAILS = {"gpu_ids": 3, "status": "FAIL", "warnings": ["GPU 3 has uncorrectable memory errors."]}
DCGM_4 = dcgm(
    {"entity_group": "GPU", "entity_id": 0, "status": "Fail", "warnings": [{"error_id": 24, "warning": "XID 79"}]},
    root="DCGM Diagnostic", name="memory",
)  # fmt: skip
AZURE = (
    "SUCCESS:  nhc:  Health check passed:  check_gpu_count: Expected 8 and found 8\n"
    "ERROR:  nhc:  Health check failed:  check_ecc: GPU id 3: SRAM Uncorrectable ECC error count detected, (0,1). "
    "FaultCode: NHC2019\n"
)


def primus(status: str, *reasons: str, host: str = NODE) -> str:
    found = {"host": host, "node_rank": 0, "status": status, "duration_sec": 41.2, "fail_reasons": list(reasons)}
    return json.dumps({**found, "tier1": {"per_gpu": [{"gpu": 0, "status": "PASS"}]}, "tier2": {}}, indent=2)


@pytest.mark.parametrize(
    ("name", "code", "output", "verdict", "reason"),
    [
        ("dcgm", 0, dcgm({"gpu_ids": 0, "status": "PASS"}), "healthy", "2 results of dcgmi passed"),
        ("dcgm", 0, f"\tWARNING: THIS SHOULD NOT HAPPEN\n{dcgm({'gpu_ids': 0, 'status': 'Pass'})}", "healthy", "2 results"),
        ("dcgm", 226, dcgm({"gpu_ids": 0, "status": "PASS"}, GPU_FAILS), "sick", "PCIe (GPU 3): GPU 3 has uncorrectable memory"),
        ("dcgm", 226, DCGM_4, "sick", "memory (GPU 0): XID 79"),
        ("dcgm", 0, dcgm({"gpu_ids": 1, "status": "WARN", "warnings": ["Thermal violations."]}), "unknown", "Thermal violations"),
        ("dcgm", 0, dcgm({"gpu_ids": 1, "status": "SKIPPED"}), "healthy", "1 results"),
        ("dcgm", 1, dcgm({"gpu_ids": 0, "status": "PASS"}), "unknown", "it left with 1"),
        ("dcgm", 1, "Error: Unable to run diagnostic on unsupported GPU 0.", "unknown", "unsupported GPU"),
        ("dcgm", 0, '{"DCGM GPU Diagnostic": {"version": "4.2.3"}}', "unknown", "printed no result"),
        ("dcgm", None, "", "unknown", "it did not end"),
        ("nhc", 0, "", "healthy", "no health check failed"),
        ("nhc", 1, "ERROR:  nhc:  Health check failed:  check_hw_mem_free:  1mb\n", "sick", "check_hw_mem_free: 1mb"),
        ("nhc", 1, AZURE, "sick", "check_ecc: GPU id 3: SRAM Uncorrectable ECC"),
        ("nhc", 1, "", "unknown", "it left with 1"),
        ("nhc", 127, "nhc: command not found", "unknown", "it left with 127"),
        ("nhc", None, "", "unknown", "it did not end"),
        ("primus", 0, primus("PASS"), "healthy", "node-smoke has passed"),
        ("primus", 0, f"[12:00:01][node-smoke][n1] gpu0: PASS\n{primus('FAIL', 'gpu3: TIMEOUT')}", "sick", "gpu3: TIMEOUT"),
        ("primus", 0, primus("PASS", host="n1.cluster"), "healthy", "passed"),
        ("primus", 0, primus("FAIL", "gpu3", host="n7"), "unknown", "is of n7, and this is n1"),
        ("primus", 0, primus("FAIL"), "unknown", "'FAIL' with 0 reasons"),
        ("primus", 1, "Traceback (most recent call last):", "unknown", "printed no verdict"),
        ("nvrx", 0, '{"fail_count": 0, "failed_checks": []}', "healthy", "no health check"),
        ("nvrx", 0, '{"fail_count": 2, "failed_checks": ["dcgm", "ib_link"]}', "sick", "2 health checks failed: dcgm; ib_link"),
        ("nvrx", 42, '{"detail":"failed"}', "unknown", "counted nothing (it left with 42)"),
        ("nvrx", 3, '{"fail_count": 0}', "unknown", "it left with 3"),
        ("nvrx", None, "", "unknown", "counted nothing"),
    ],
)
def test_the_verdict_of_a_report(name: str, code: int | None, output: str, verdict: str, reason: str) -> None:
    found = READERS[name](code, output, NODE)
    assert (found.verdict, reason in found.reason) == (verdict, True), found


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("output", ["{", "[[[[", "{}" * 50, "null", "{" * 5000, '{"status": 3, "host": []}', "\x00\xff"])
def test_what_is_not_understood_is_unknown(name: str, output: str) -> None:
    assert READERS[name](1, output, NODE).verdict == "unknown"


def test_many_reasons_are_cut_short() -> None:
    found = READERS["primus"](0, primus("FAIL", *[f"gpu{number}" for number in range(8)]), NODE)
    assert found.reason == "gpu0; gpu1; gpu2; gpu3; and 4 more"
