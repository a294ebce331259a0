"""`sentinel trainers check`: every file named, every problem of each, and what a profile that may be used can do."""

from __future__ import annotations

from collections.abc import Sequence

from sentinel.errors import PolicyError
from sentinel.policy_files.check import CheckedFile, CheckReport
from sentinel.trainers.describe import what_it_can
from sentinel.trainers.loading import load_profile


def check_profiles(asked: Sequence[str]) -> CheckReport:
    """Raises UsageError for what is neither a profile nor a file."""
    return CheckReport(tuple(_check(one) for one in asked))


def _check(asked: str) -> CheckedFile:
    try:
        profile = load_profile(asked)
    except PolicyError as error:
        return CheckedFile(asked, False, error.message, error.problems)
    return CheckedFile(asked, True, "\n".join([f"{asked}: fine", *(f"  {line}" for line in what_it_can(profile))]), ())
