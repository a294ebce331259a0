"""The checks as text, as a document and as an exit code."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sentinel.report.doctor.patient import Check

EXIT_FINE, EXIT_MISSING = 0, 1


def doctor_text(checks: Sequence[Check]) -> str:
    """A line for each, and below what is not fine its remedy."""
    width = max((len(check.standing) for check in checks), default=0)
    lines = []
    for check in checks:
        lines.append(f"{check.standing:<{width}}  {check.topic}: {check.what}")
        lines += [f"{'':<{width}}    remedy: {check.remedy}"] if check.remedy else []
    return "\n".join(lines)


def doctor_document(run_dir: Path, checks: Sequence[Check]) -> dict[str, Any]:
    return {
        "run_dir": str(run_dir),
        "ok": exit_code(checks) == EXIT_FINE,
        "checks": [
            {"topic": check.topic, "standing": check.standing, "what": check.what, "remedy": check.remedy} for check in checks
        ],
    }


def exit_code(checks: Sequence[Check]) -> int:
    """What is unknown is not fine."""
    return EXIT_MISSING if any(check.standing in ("missing", "unknown") for check in checks) else EXIT_FINE
