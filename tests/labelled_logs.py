"""Where other people's labelled logs lie. They are test data beside the project, never part of it.

`SENTINEL_LOGS` names their directory; unset, `shared/data/logs` beside the checkout is looked at. A directory that is named and
holds no labels is an error: a measurement that was asked for must not be passed over.
"""

from __future__ import annotations

import os
from pathlib import Path

BESIDE = Path(__file__).resolve().parents[2] / "shared" / "data" / "logs"
ABSENT = (
    "the labelled real logs are not here, so nothing was scored; name their directory, which holds labels.csv: SENTINEL_LOGS=DIR"
)


class NoLabels(Exception):
    """The directory that was named is not one of labelled logs."""


def labelled_logs(given: str | None = None) -> Path | None:
    """The directory; None when none was named and none lies beside the checkout. Raises NoLabels."""
    named = given or os.environ.get("SENTINEL_LOGS", "")
    if not named:
        return BESIDE if (BESIDE / "labels.csv").is_file() else None
    if not (Path(named) / "labels.csv").is_file():
        raise NoLabels(f"{named} holds no labels.csv; name the directory of the labelled logs (--logs or SENTINEL_LOGS)")
    return Path(named)
