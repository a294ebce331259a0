"""Where an alarm on values that are no numbers was over: when the rows without the fault began, and never on its own row."""

from __future__ import annotations

import random
from pathlib import Path

from sentinel.policy_files.loading import load_policy, shipped_policy_path
from sentinel.replay import ReplayFinding, replay_file

POLICY = load_policy(shipped_policy_path("default"))


def megatron(step: int, loss: float | None, nans: int = 0, skipped: int = 0) -> str:
    said = "" if loss is None else f"lm loss: {loss:.6E} | "
    counts = f"number of skipped iterations: {skipped:3d} | number of nan iterations: {nans:3d} |"
    return f" iteration {step:8d}/ 100000 | learning rate: 3.0E-04 | {said}loss scale: 4096.0 | grad norm: 0.300 | {counts}\n"


def found_in(path: Path, last_bad: int, *, leaves_out: bool) -> ReplayFinding:
    """Ten steps a row. From step 3010 to `last_bad` every other row holds no loss, or has its updates left out."""
    dice, rows = random.Random(1), []
    for step in range(10, 8000, 10):
        is_bad = 3000 < step <= last_bad and (leaves_out or step // 10 % 2 == 1)
        loss = 2 + 300 / (step + 100) + dice.gauss(0, 0.01)
        counts = (0, 10) if leaves_out else (4, 0)
        rows.append(megatron(step, loss if leaves_out or not is_bad else None, *(counts if is_bad else (0, 0))))
    path.write_text("".join(rows))
    (found,) = [one for one in replay_file(path, POLICY).found if one.severity != "info"]
    return found


def test_nan_iterations_in_every_other_row_are_over_where_they_are_and_never_while_they_go_on(tmp_path: Path) -> None:
    found = found_in(tmp_path / "log.txt", 3110, leaves_out=False)
    assert (found.kind, found.onset_step, found.resolved_step) == ("non_finite", 3001, 3120)
    for_ever = found_in(tmp_path / "log.txt", 8000, leaves_out=False)
    assert (for_ever.detected_step, for_ever.resolved_step, for_ever.benign) == (found.detected_step, None, False)


def test_updates_that_are_left_out_are_over_where_they_are_applied_again_however_well_the_loss_stands(tmp_path: Path) -> None:
    found = found_in(tmp_path / "log.txt", 3110, leaves_out=True)
    assert (found.kind, found.onset_step, found.resolved_step) == ("non_finite", 3001, 3120)
    assert found_in(tmp_path / "log.txt", 8000, leaves_out=True).resolved_step is None
