"""A run to compare with: any log, in a bounded table, refused with a sentence where it cannot serve."""

from __future__ import annotations

from pathlib import Path

import pytest

from sentinel.errors import PolicyError, UsageError
from sentinel.policy_files.loading import load_policy, shipped_policy_path
from sentinel.replay import replay_file
from sentinel.telemetry.reference import POINTS_MAX, load_reference, read_reference


def write_run(path: Path, add: float = 0.0, count: int = 3000, tokens_per_step: int = 1000) -> Path:
    path.parent.mkdir(exist_ok=True)
    start = f'{{"kind":"start","v":1,"resume_step":0,"tokens_per_step":{tokens_per_step}}}\n'
    losses = [3.0 + 6.0 / (1 + step * tokens_per_step / 200_000) + add * (step > 800) for step in range(1, count + 1)]
    path.write_text(start + "".join(f'{{"step":{n},"loss":{loss + 0.05 * (-1) ** n:.5f}}}\n' for n, loss in enumerate(losses, 1)))
    return path


def test_a_long_run_becomes_a_short_table(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("step,loss,tokens\n" + "".join(f"{n},{100 / n + n % 2},{n * 10}\n" for n in range(1, 200_001)))
    table = read_reference(path)
    assert POINTS_MAX / 2 <= len(table.steps) <= 2 * POINTS_MAX
    assert len(table.steps) == len(table.losses) == len(table.tokens)
    assert table.tokens[7] == pytest.approx(10 * table.steps[7])
    assert list(table.steps) == sorted(table.steps)


def test_a_resumed_run_counts_as_it_was_written_last(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("step,loss\n" + "".join(f"{n},9\n" for n in range(1, 101)) + "".join(f"{n},2\n" for n in range(51, 201)))
    table = read_reference(path)
    assert list(table.steps) == sorted(table.steps)
    assert [loss for step, loss in zip(table.steps, table.losses, strict=True) if step > 55] == [2.0] * 29
    assert table.tokens == ()


@pytest.mark.parametrize(
    ("content", "words"), [(None, "No such file"), (b"", "empty"), (b"step,loss\n1,2\n", "at least"), (b"\0" * 99, "binary")]
)
def test_what_cannot_serve_is_refused(tmp_path: Path, content: bytes | None, words: str) -> None:
    path = tmp_path / "log.csv"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UsageError, match=words):
        read_reference(path)


def test_a_policy_names_it_relative_to_itself(tmp_path: Path) -> None:
    text = shipped_policy_path("default").read_text()
    policy_path = tmp_path / "policies" / "mine.yaml"
    policy_path.parent.mkdir()
    policy_path.write_text(text.replace("behind_reference: {", "behind_reference: {reference: ../other/metrics.jsonl, "))
    policy = load_policy(policy_path)
    with pytest.raises(PolicyError, match=r"(?s)behind_reference.*No such file"):
        load_reference(policy, policy_path)
    write_run(tmp_path / "other" / "metrics.jsonl")
    known = load_reference(policy, policy_path)
    assert known is not None
    assert (known.name, bool(known.tokens)) == ("other/metrics.jsonl", True)
    assert load_reference(load_policy(shipped_policy_path("default")), shipped_policy_path("default")) is None


LOGS = Path(__file__).parents[4] / "shared" / "data" / "logs" / "cs336__zli12"


@pytest.mark.skipif(not LOGS.is_dir(), reason="the labelled logs are test data beside the project")
def test_real_runs_of_one_model(tmp_path: Path) -> None:
    """One course model on one data set: post-norm at a high rate stays at 5.8 where the others come to 1.6."""
    policy = load_policy(shipped_policy_path("default"))
    known = read_reference(LOGS / "lr-sweep-bs128-fixed-lr3e-3.csv")
    told = {}
    for name in (
        "ablation-postnorm-fixed-lr2e-3",
        "ablation-nope-fixed-lr2e-3",
        "lr-sweep-bs128-fixed-lr5e-3",
        "lr-sweep-bs128-cos-lr1e-3",
    ):
        result = replay_file(LOGS / f"{name}.csv", policy, reference=known)
        told[name] = [one.detected_step for one in result.found if one.kind == "behind_reference"]
    assert [name for name, steps in told.items() if steps] == ["ablation-postnorm-fixed-lr2e-3"], told


def test_two_runs_of_different_batches_through_the_whole_engine(tmp_path: Path) -> None:
    """BLOOM's story in small: twice the batch, and a level that stands 1.8 above the small run's at the same tokens."""
    policy = load_policy(shipped_policy_path("default"))
    known = read_reference(write_run(tmp_path / "small" / "metrics.jsonl", count=6000))
    good = replay_file(write_run(tmp_path / "good.jsonl", 0.0, tokens_per_step=2000), policy, reference=known)
    assert [one.kind for one in good.found if one.kind == "behind_reference"] == []
    bad = replay_file(write_run(tmp_path / "bad.jsonl", 1.8, tokens_per_step=2000), policy, reference=known)
    (found,) = [one for one in bad.found if one.kind == "behind_reference"]
    assert (found.severity, found.intervened, found.remedy) == ("warning", False, None)
    assert found.onset_step is not None
    assert 800 < found.onset_step < 860
    assert "small/metrics.jsonl" in found.reason
    assert "tokens" in found.reason
