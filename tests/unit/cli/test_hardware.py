"""`sentinel hardware`: a table, JSON, an exit code, and the sentence why nothing is seen."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.nvml_stub import Stub, compiled_folder


def run(stub: Stub, *words: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "sentinel", "hardware", *words]
    return subprocess.run(argv, env=stub.environment, capture_output=True, text=True, timeout=60)


@pytest.fixture
def stub(tmp_path):
    compiled_folder()
    return Stub(tmp_path)


def test_gpus_that_are_well(stub) -> None:
    stub.set(gpus=2, gpu0_temperature=41, gpu0_recovery=0)
    done = run(stub)
    assert done.returncode == 0
    head, first, second, log = done.stdout.splitlines()
    assert head.startswith("gpu")
    assert first.startswith("0000:3b:00  Stub 9000  41")
    assert "none" in first
    assert second.count("unknown") == 5
    assert log.startswith("kernel log")


def test_a_sick_gpu(stub) -> None:
    stub.set(gpus=1, gpu0_recovery=1, gpu0_ecc_uncorrected=3, gpu0_pending=1, gpu0_failure=0)
    done = run(stub, "--json")
    assert done.returncode == 1
    document = json.loads(done.stdout)
    assert document["nvml"] == {"ok": True, "reason": ""}
    assert document["gpus"][0]["troubles"] == [
        "the driver asks for: GPU reset",
        "row remapping waits for a GPU reset",
        "3 uncorrected memory errors since the driver was loaded",
    ]


def test_no_driver_and_no_gpu(stub) -> None:
    stub.set(init=9)
    done = run(stub)
    assert done.returncode == 3
    assert done.stdout.startswith("gpus        none is seen: no NVIDIA driver: gpu faults cannot be seen")
    stub.set(init=0, gpus=0)
    assert "the NVIDIA driver shows no GPU" in run(stub).stdout


def test_a_driver_that_fails(stub) -> None:
    stub.set(init=999)
    done = run(stub)
    assert (done.returncode, "none is seen: NVML: " in done.stdout) == (3, True)


def test_what_the_policy_switched_off(stub, tmp_path: Path) -> None:
    stub.set(gpus=1)
    default = Path(__file__).parents[3] / "policies" / "default.yaml"
    policy = tmp_path / "mine.yaml"
    policy.write_text(default.read_text().replace("{nvml: on, kernel_log: /dev/kmsg,", "{nvml: off, kernel_log: off,"))
    done = run(stub, "--policy", str(policy))
    assert done.returncode == 3
    assert done.stdout.count("switched off by policy") == 2


def test_a_policy_that_cannot_be_read(stub) -> None:
    done = run(stub, "--policy", "no-such-policy.yaml")
    assert (done.returncode, "Traceback" in done.stderr) == (2, False)
