"""Real runs under a real supervisor: a flipped bit that `diagnose` calls hardware, a NaN, a crash in `sentinel demo`; and the
GPU's health as NVML tells it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.gpu.live.conftest import ROOT, Typed

SIZES = ("schedule.steps=60", "data.seq_len=32", "checkpoint.every=10", "evaluation.batches=1", "numerics.deterministic=true")


def supervised(typed: Typed, run_dir: Path, policy: str, *faults: str) -> list[dict[str, Any]]:
    """`sentinel run` of the trainer on one GPU with these faults, to its end; its incidents."""
    hurt = [word for fault in faults for word in ("--fault", fault)]
    command = [sys.executable, "-m", "trainer", "--preset", "micro", "--set", *SIZES, *hurt]
    typed("sentinel", "run", "--run-dir", str(run_dir), "--policy", policy, "--listen", "off", "--", *command)
    found: list[dict[str, Any]] = json.loads(typed("sentinel", "incidents", str(run_dir), "--json").stdout)
    return found


def diagnosing_policy(place: Path) -> str:
    """The demo policy, and a diagnosis as the first rung of `non_finite`."""
    head, mark, playbooks = (ROOT / "policies" / "demo.yaml").read_text(encoding="utf-8").partition("\n    non_finite:")
    line, _, rest = playbooks.partition("\n")
    rung = "      - {rollback: {before_onset: 4 steps}, diagnose: true}"
    assert mark
    path = place / "policy.yaml"
    path.write_text(f"{head}{mark}{line}\n{rung}\n{rest}", encoding="utf-8")
    return str(path)


def test_a_flipped_bit_is_diagnosed_as_hardware(typed: Typed, tmp_path: Path) -> None:
    (incident,) = supervised(typed, tmp_path / "run", diagnosing_policy(tmp_path), "bit_flip@step=25:rank=0")
    assert (incident["kind"], incident["state"]) == ("non_finite", "recovered")
    assert incident["diagnosis"]["cause"] == "hardware"


def test_a_nan_in_the_weights_is_rolled_back(typed: Typed, tmp_path: Path) -> None:
    (incident,) = supervised(typed, tmp_path / "run", "demo", "nan_state@step=25")
    assert (incident["kind"], incident["state"]) == ("non_finite", "recovered")
    assert incident["remedies"][-1]["rollback_to_step"] < 25


def test_a_crash_in_the_demonstration_is_repaired(typed: Typed, tmp_path: Path, kernels: str) -> None:
    run_dir = tmp_path / "demo"
    sizes = ("--steps", "120", "--preset", "micro", "--fault", "kill@step=60")
    typed("sentinel", "demo", "--run-dir", str(run_dir), *sizes)
    incidents = json.loads(typed("sentinel", "incidents", str(run_dir), "--json").stdout)
    assert [(one["kind"], one["state"]) for one in incidents] == [("crash", "recovered")]
    receipt = json.loads((run_dir / "attempts/0002/metrics.jsonl").read_text(encoding="utf-8").splitlines()[0])
    assert receipt["kernels"]["name"] == kernels


def test_nvml_tells_of_the_gpu(typed: Typed, kernels: str) -> None:
    if kernels != "cuda":
        pytest.skip("rehearsed on a CPU: there is no GPU to be told of (tests/unit/cli/test_hardware.py has a stand-in)")
    done = typed("sentinel", "hardware", "--json", code=None)
    document = json.loads(done.stdout)
    assert document["nvml"] == {"ok": True, "reason": ""}
    assert document["gpus"]
    for gpu in document["gpus"]:
        print(gpu)
        assert gpu["name"]
        assert gpu["temperature_c"] is not None
