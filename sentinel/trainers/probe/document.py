"""A probe's report for programs (`--json`): one document of what was seen. `text` makes the sentences for people."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sentinel.trainers.probe.judging import expected_grades, find_missing, resume_grade
from sentinel.trainers.probe.seen import Launch, Seen
from sentinel.trainers.probe.text import remedy_of, sentence_of
from sentinel.trainers.probe.trial import Trial


def probe_document(trial: Trial, seen: Seen, folder: Path, is_kept: bool) -> dict[str, Any]:
    """`is_kept`: whether the probe's folder is left there."""
    first, places = seen.first, trial.profile.spec.checkpoints
    back = seen.back
    return {
        "trainer": trial.asked,
        "recognised_by": None if trial.by is None else list(trial.by),
        "rivals": list(trial.rivals),
        "command": list(trial.command),
        "cwd": trial.cwd,
        "run_dir": str(folder) if is_kept else None,
        "ended": {"by": first.ended_by, "status": first.status, "seconds": round(first.seconds, 2), "tail": list(first.tail)},
        "watched": _watched(trial, first) | {"printed_formats": list(seen.printed)},
        "restored": {
            "root": None if trial.real_root is None else str(trial.real_root),
            "pattern": None if places is None else places.pattern,
            "why_none": seen.mismatch.sentence if seen.mismatch is not None else None,
            "checkpoints": [
                {
                    "step": one.step,
                    "name": one.name,
                    "bytes": one.size,
                    "complete": one.is_complete,
                    "missing": list(one.missing),
                    "sealed": one.how is not None,
                    "how": one.how,
                    "seconds": one.seconds,
                }
                for one in seen.kept
            ],
            "left_by_others": [{"folder": where, "trainer": profile, "name": name} for where, profile, name in seen.left],
            "resumed": None if back is None else {"from_step": back.asked, "went_on_at": back.began, "grade": resume_grade(seen)},
        },
        "changed": {
            f"{key}={value}" if value else key: list(words)
            for key in trial.profile.settings
            for value, words in trial.profile.spec.templates(key).items()
        },
        "save_interval_asked": seen.saves_every,
        "proved": expected_grades(trial.profile, first),
        "missing": [
            {
                "lack": one.lack,
                "what": one.what,
                "severe": one.severe,
                "sentence": sentence_of(one),
                "remedy": remedy_of(one, seen, trial.profile),
            }
            for one in find_missing(trial, seen)
        ],
    }


def _watched(trial: Trial, first: Launch) -> dict[str, Any]:
    metrics, steps = trial.profile.spec.metrics, [row.step for row in first.rows]
    return {
        "from": metrics.from_,
        "path": list(metrics.path),
        "format": metrics.format,
        "rows": len(first.rows),
        "first_step": steps[0] if steps else None,
        "last_step": steps[-1] if steps else None,
        "every_steps": first.every_steps,
        "row_seconds": first.row_seconds,
        "metrics": first.metrics,
        "ranks": first.ranks,
    }
