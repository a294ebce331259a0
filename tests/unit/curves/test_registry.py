"""One row in the table of metrics, and the curve is on every surface; the checker of policies knows it, too."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from sentinel.curves.registry import CURVES
from sentinel.telemetry.tensorboard import OURS

ROOT = Path(__file__).resolve().parents[3]

PRETEND = """
from sentinel.model import metrics
row = metrics.KnownMetric(
    "quark_ratio", label="quarks of all", short="quarks", unit="ratio", page=True, report=True, terminal=True,
    board="update", gauge="sentinel_quark_ratio", meaning="Share of quarks",
)
metrics.METRICS = (*metrics.METRICS, row)  # before any surface is imported: what a new row in the file does
metrics.BY_NAME = {metric.name: metric for metric in metrics.METRICS}

import io
from pathlib import Path
from rich.console import Console
from sentinel.metrics.exposition import exposition
from sentinel.model.state import RunState
from sentinel.report.following import RunSnapshot
from sentinel.report.html import curves as report
from sentinel.report.html.collected import Collected
from sentinel.report.lineage import Branch
from sentinel.tensorboard.incident_sheet import sheet
from sentinel.terminal.panel import draw_plain
from sentinel.terminal.picture import Picture
from sentinel.curves.blocks import Point
from sentinel.web.routes import find_route

route, words = find_route("GET", ("api", "curves"))
print("page", b'"quark_ratio"' in route.answer(None, None, words).body)

place = Path("run/attempts/0001")
place.mkdir(parents=True)
(place / "metrics.jsonl").write_text("".join(f'{{"kind":"step","step":{n},"quark_ratio":0.{n}}}\\n' for n in range(1, 9)))
panels, _ = report.run_panels(Collected(Path("run"), branches=[Branch(1, None, 0, "", {}, 8)]))
print("report", [panel.metric for panel in panels] == ["quark_ratio"])

console = Console(file=io.StringIO(), width=80)
picture = Picture(RunState(), 0.0, None, (Point(1, 1, {"quark_ratio": 0.5}),), (), None, True)
console.print(draw_plain(picture))
print("terminal", "quarks" in console.file.getvalue())

told = sheet((), 0.0)
print("tensorboard", b"quarks of all" in told and b"^quark_ratio$" in told)

text = exposition([RunSnapshot(Path("run"), newest={"quark_ratio": 0.5})]).decode()
print("metrics", "# HELP sentinel_quark_ratio Share of quarks" in text and 'sentinel_quark_ratio{run="run"} 0.5' in text)

from sentinel.policy_files.check import check_files
Path("mine.yaml").write_text(
    "apiVersion: sentinel/v1\\nkind: RemediationPolicy\\nmetadata: {name: mine}\\nextends: default\\nspec:\\n  rules:\\n"
    "    - {alert: Quarks, expr: quark_ratio > 0.5, labels: {severity: info}}\\n"
)
report = check_files(["mine.yaml"])
print("policy", report.ok and "quark_ratio" not in report.text)
"""


def test_a_row_shows_its_curve_on_every_surface(tmp_path: Path) -> None:
    """In a process of its own: the surfaces read the registry when they are imported."""
    words = [sys.executable, "-c", PRETEND]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    ended = subprocess.run(words, capture_output=True, text=True, cwd=tmp_path, env=environment, timeout=60, check=False)
    assert ended.stdout.split("\n")[:-1] == [
        f"{name} True" for name in ("page", "report", "terminal", "tensorboard", "metrics", "policy")
    ], ended.stderr


def test_rows_do_not_contradict_each_other() -> None:
    tags = [curve.tag or curve.name for curve in CURVES]
    assert len(tags) == len(set(tags))
    assert not [tag for tag in tags if tag.startswith(OURS)]
    explained = [curve.gauge for curve in CURVES if curve.meaning]
    assert len(explained) == len(set(explained))
    assert {curve.gauge for curve in CURVES if curve.gauge} == set(explained)
