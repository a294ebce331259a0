"""A new detector is one new file and one row of the registry. Proved on a copy of the sources, by what a person sees of it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
MODULE = '''"""deep_loss: the loss of the last layer stands above a limit. Only for a test."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sentinel.detectors.contract import NOTHING, Detector, Start, WatchedRun
from sentinel.detectors.settings import setting
from sentinel.model.findings import Finding, Kind, Verdict
from sentinel.model.readings import StepReading

KIND = Kind("deep_loss", is_numeric=True)
METRIC = "loss/deep"


@dataclass(frozen=True, slots=True)
class DeepLossSettings:
    """The deep loss is high."""

    enabled: bool = setting(True, "flag", "Whether this detector runs.")
    limit: float = setting(4.0, "positive", "Above this it is high.")
    lasting_steps: int = setting(3, "steps", "For so many steps.", alias="lasting")


class DeepLoss(Detector):
    kind = KIND
    reads = needs = frozenset({METRIC})

    def __init__(self, settings: DeepLossSettings, run: WatchedRun) -> None:
        self._settings, self._severity = settings, run.severity(KIND)
        self.begin(Start(0))

    def begin(self, start: Start) -> None:
        self._attempt, self._high, self._judged = start.attempt, 0, 0

    def step(self, reading: StepReading, covered: int, now_s: float) -> Sequence[Finding]:
        value = reading.metrics[METRIC]
        self._judged += 1
        self._high = self._high + 1 if value > self._settings.limit else 0
        if self._high != self._settings.lasting_steps:
            return NOTHING
        onset, reason = reading.step - self._high + 1, f"{METRIC} stands at {value:g}"
        return (Finding(KIND, self._severity, self._attempt, onset, reading.step, now_s, reason, METRIC, value),)

    def verdict(self) -> tuple[Verdict, str]:
        if not self._judged:
            return Verdict.UNKNOWN, f"no {METRIC} read yet"
        return (Verdict.BREACHED, "high") if self._high else (Verdict.HEALTHY, "low")
'''
IMPORT = "from sentinel.detectors.deep_loss import KIND, DeepLoss, DeepLossSettings\n"
ROW = '    DetectorRow("deep_loss", "a deep loss that is high", DeepLossSettings, DeepLoss, (Finds(KIND, "warning"),)),\n'
POLICY = """apiVersion: sentinel/v1
kind: RemediationPolicy
metadata: {name: mine}
spec:
  detectors:
    deep_loss: {SETTING}
  rules:
    - {alert: Deep, on: deep_loss, labels: {severity: critical}, playbook: calling}
  playbooks:
    calling:
      - page: {severity: critical}
"""
ASKED = """
import sys
from sentinel.engine.detector_bank import build_detector_bank
from sentinel.journal.dataclass_codec import codec_of
from sentinel.model.findings import Finding, Kind
from sentinel.model.readings import Receipt, StepReading
from sentinel.policy.checks import check_policy
from sentinel.policy_files.explain import Assumed, explain
from sentinel.policy_files.loading import load_policy
from pathlib import Path

policy = load_policy(Path(sys.argv[1]))
assert not [problem for problem in check_policy(policy) if "deep_loss" in str(problem)]
print("nothing is wrong with the rule on it")
print(explain(policy, "deep_loss", Assumed()).before[0])
bank = build_detector_bank(policy)
bank.begin_attempt(1, 0.0)
found = [one for step in range(1, 9) for one in bank.step(StepReading(1, step, float(step), (), {"loss/deep": 5.0}), float(step))]
kind = Kind("deep_loss")
codec = codec_of(Finding)
assert codec.decode(codec.encode(found[0])) == found[0]
print([(str(one.kind), one.severity, one.onset_step, one.kind.is_numeric) for one in found])
print(*bank.verdicts()[kind])
bank.step(StepReading(1, 9, 9.0, (), {"loss/deep": 1.0}), 9.0)
print(*bank.verdicts()[kind])
for step in range(10, 15):
    bank.step(StepReading(1, step, float(step), (), {"loss": 1.0}), float(step))
print(*bank.verdicts()[kind])
print(*build_detector_bank(policy).verdicts()[kind])
bank.begin_attempt(2, 20.0)
before = tuple(StepReading(2, step, float(step), (), {"loss/deep": 1.0}) for step in range(1, 15))
bank.receipt(Receipt(2, 20.0, 14, None, 1, {}, {}, before), 20.0)
print(*bank.verdicts()[kind])
"""


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sources with one file more, and one row (and its import) in the registry."""
    root = tmp_path_factory.mktemp("sources")
    for name in ("sentinel", "policies"):
        shutil.copytree(ROOT / name, root / name, ignore=shutil.ignore_patterns("__pycache__"))
    (root / "sentinel/detectors/deep_loss.py").write_text(MODULE, encoding="utf-8")
    registry = root / "sentinel/detectors/registry.py"
    text = registry.read_text(encoding="utf-8")
    first = "from sentinel.detectors.divergence import"
    text = text.replace(first, IMPORT + first, 1).replace('    DetectorRow("plateau",', ROW + '    DetectorRow("plateau",', 1)
    registry.write_text(text, encoding="utf-8")
    return root


def asked(sources: Path, *words: str, status: int = 0) -> str:
    env = {**os.environ, "PYTHONPATH": str(sources), "PYTHONDONTWRITEBYTECODE": "1", "COLUMNS": "200"}
    ran = subprocess.run([sys.executable, *words], capture_output=True, text=True, timeout=120, env=env, cwd=sources)
    assert ran.returncode == status, ran.stdout + ran.stderr
    return ran.stdout + ran.stderr


def policy(folder: Path, setting: str) -> str:
    path = folder / "policy.yaml"
    path.write_text(POLICY.replace("SETTING", setting), encoding="utf-8")
    return str(path)


def test_a_policy_tunes_it_the_bank_runs_it_and_the_journal_takes_its_finding(sources: Path, tmp_path: Path) -> None:
    told = asked(sources, "-c", ASKED, policy(tmp_path, "limit: 3, lasting: 2 steps"))
    assert told.splitlines() == [
        "nothing is wrong with the rule on it",
        "rule Deep (spec.rules[0]) takes it",
        "[('deep_loss', 'critical', 1, True)]",
        "breached high",
        "healthy low",
        "unknown loss/deep is missing since step 9",
        "unknown no attempt is running",
        "unknown no loss/deep read yet",
    ]


def test_a_wrong_setting_of_it_names_value_place_and_remedy(sources: Path, tmp_path: Path) -> None:
    written = policy(tmp_path, "lastin: 2 steps, lasting: 2, limit: 0")
    told = asked(sources, "-m", "sentinel", "policy", "check", written, status=2)
    for sentence in (
        "spec.detectors.deep_loss.lastin: unknown key 'lastin'",
        "did you mean 'lasting'?",
        "spec.detectors.deep_loss.lasting: 2 has no unit",
        "write it as '200 steps'",
        "spec.detectors.deep_loss.limit: 0 is out of range",
        "write a number above 0",
    ):
        assert sentence in told


def test_replay_finds_it_in_a_log(sources: Path, tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    rows = "".join(f"{step},2.0,{5.0 if step > 300 else 1.0}\n" for step in range(1, 400))
    log.write_text("step,loss,loss/deep\n" + rows, encoding="utf-8")
    told = asked(sources, "-m", "sentinel", "replay", str(log), "--policy", policy(tmp_path, "lasting: 2 steps"))
    assert "deep_loss" in told
    assert "loss/deep stands at 5" in told
