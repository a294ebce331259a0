"""`sentinel demo` as a person types it: the bundled trainer under FSDP on two ranks, the three default faults.

The smallest model and a third of the steps, without torchrun (see forked_trainers). What a step is worth is judged by `make demo`
and the other demonstrations of `make accept`, which have torchrun. Here and in every run of the suite: one without faults.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.docs.protocol_page import bundled_metrics
from tests.integration.supervised import Supervised
from tests.unit.tensorboard.board_kit import messages, series

ROOT = Path(__file__).resolve().parents[2]
STEPS = 200
DEADLINE_S = 240.0


def demonstrate(run: Supervised, *options: str) -> subprocess.CompletedProcess[str]:
    demo = [sys.executable, "-m", "tests.integration.forked_trainers", "demo", "--run-dir", str(run.run_dir)]
    return subprocess.run([*demo, "--preset", "micro", *options], cwd=ROOT, capture_output=True, text=True, timeout=DEADLINE_S)


def test_without_faults_it_trains_to_its_end_and_nothing_is_found(tmp_path: Path) -> None:
    run = Supervised(tmp_path / "demo", [])
    done = demonstrate(run, "--steps", "20", "--no-faults")
    assert done.returncode == 0, done.stdout + done.stderr
    assert run.incidents() == []
    assert sorted(run.surviving()) == list(range(1, 21))
    assert re.search(r"^Held-out loss \d+\.\d+ at step 20\.$", done.stdout, re.MULTILINE), done.stdout


@pytest.mark.slow
def test_the_demonstration_is_hurt_three_times_and_repaired_three_times(tmp_path: Path) -> None:
    run = Supervised(tmp_path / "demo", [])
    done = demonstrate(run, "--steps", str(STEPS))
    told = f"{done.stdout}\n{done.stderr}"
    assert done.returncode == 0, told
    incidents = run.incidents()
    assert [(i["kind"], i["state"]) for i in incidents] == [(k, "recovered") for k in ("crash", "hang", "spike")], told
    crash, hang, spike = incidents
    for broken in (crash, hang):
        assert [(r["rung"], r["skip"], r["outcome"]) for r in broken["remedies"]] == [(0, [], "worked")], "resumed once"
    assert spike["onset_step"] == 127, "the poison is 0.63 of the run: 126 clean steps of 16 samples"
    assert spike["remedies"][-1]["rollback_to_step"] < spike["onset_step"]
    assert run.attempts() == [1, 2, 3, 4], told
    surviving = run.surviving()
    assert sorted(surviving) == list(range(1, STEPS + 1))
    poison = (126 * 16, 134 * 16)
    trained = [pair for line in surviving.values() for pair in line["samples"]]
    assert not any(start < poison[1] and end > poison[0] for start, end in trained), "no poisoned sample survives"
    (held_out,) = re.findall(rf"^Held-out loss (\d+\.\d+) at step {STEPS}\.$", done.stdout, re.MULTILINE)
    assert float(held_out) < 4.0, "an untrained model of bytes stands at log 256 = 5.5"
    names = {re.sub(r"/rank-\d+$", "/rank-N", key) for line in surviving.values() for key in line}
    names = {re.sub(r"/(embed|block-\d+|head)$", "/LAYER", name) for name in names}
    names -= {"kind", "step", "time_s", "samples", "nonfinite_activations", "nonfinite_logits"}  # the last two by our own kernels
    assert names == bundled_metrics() - {"overflow", "loss_scale", "mfu"}, "PROTOCOL.md's table; those are fp16's and a GPU's"
    _check_boards(run, incidents)
    assert not run.living()


def _check_boards(run: Supervised, incidents: list[dict[str, Any]]) -> None:
    """Each attempt whole, the abandoned branch too; the surviving lineage once; incidents at their steps."""
    boards = run.run_dir / "tensorboard"
    for attempt in run.attempts():
        lines = {line["step"]: line["loss"] for line in run.lines(attempt) if line["kind"] == "step"}
        assert dict(series(boards / f"attempt-{attempt:04d}")) == pytest.approx(lines)
    surviving = run.surviving()
    for tag, metric in (("lm loss", "loss"), ("grad-norm", "grad_norm"), ("learning-rate", "lr")):
        drawn = series(boards / "effective", tag)
        assert [step for step, _ in drawn] == list(range(1, STEPS + 1)), tag
        assert [value for _, value in drawn] == pytest.approx([surviving[step][metric] for step in range(1, STEPS + 1)])
    spike = incidents[-1]
    branch = dict(series(boards / f"attempt-{spike['remedies'][-1]['attempt'] - 1:04d}"))
    assert branch[spike["onset_step"]] > 1.1 * surviving[spike["onset_step"]]["loss"], "what was gone back behind is still shown"
    markers = {i["onset_step"] or i["detected_step"]: float(i["id"]) for i in incidents}
    assert dict(series(boards / "effective", "sentinel/incident")) == markers
    (sheet,) = (boards / "effective").glob("*incidents*")
    texts = [message.decode(errors="replace") for message in messages(sheet)]
    for incident in incidents:
        (text,) = (text for text in texts if f"sentinel/incidents/{incident['id']:04d}" in text)
        assert f"**Incident {incident['id']}: {incident['kind']}**" in text
        assert "worked" in text
