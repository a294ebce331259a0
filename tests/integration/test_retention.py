"""A real run deletes its old checkpoints behind a link to another place, and says of each of the others why it is there."""

from __future__ import annotations

from pathlib import Path

from sentinel.policy_files.loading import shipped_policy_path
from sentinel.report.checkpoints import read_trust, trust_text
from tests.integration.supervised import Supervised, double

RETAIN = "  checkpoints: {retain: {last: 2, every: 100 steps}}\n"


def policy(place: Path) -> str:
    """demo.yaml, with retention, rungs that go back 20 and 40 steps, and onsets that are dated back 20."""
    text = shipped_policy_path("demo").read_text(encoding="utf-8")
    text = text.replace("onset_lookback: 100 steps", "onset_lookback: 20 steps").replace("further: 2x", "further: 1.1x")
    assert "\n  detectors:\n" in text
    path = place / "retain.yaml"
    path.write_text(text.replace("\n  detectors:\n", f"\n{RETAIN}\n  detectors:\n", 1), encoding="utf-8")
    return str(path)


def test_old_checkpoints_go_and_the_list_says_why_the_others_stay(tmp_path: Path) -> None:
    place, scratch = tmp_path / "run", tmp_path / "scratch"
    place.mkdir()
    scratch.mkdir()
    (place / "checkpoints").symlink_to(scratch)
    run = Supervised(place, double(300, pruned=150), policy=policy(tmp_path)).start()
    assert run.wait() == 0, run.log
    assert sorted(run.surviving()) == list(range(1, 301))

    listed = read_trust(place)
    gone = {c["step"] for c in listed["checkpoints"] if c["trust"] == "pruned"}
    left = {c["step"]: c["kept"] for c in listed["checkpoints"] if c["trust"] not in ("pruned", "quarantined")}
    assert gone >= {25, 50, 75, 125, 150}
    assert left[100] == "a multiple of 100 steps: kept for ever"
    assert left[275] == "one of the newest 2"
    assert f"{len(gone)} deleted, the last of step {max(gone)}: " in trust_text(listed)
    there = {path.name for path in scratch.iterdir() if path.is_dir()}
    assert there == {f"step-{step:08d}" for step in left}, "what the journal says is what lies there, and nothing half deleted"
