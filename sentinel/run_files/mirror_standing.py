"""RUN_DIR/mirror/standing.json: how far the run's mirror is, written by the process that pushes it, for whoever asks.

What was reached is told by wall time, so that its age grows for whoever reads it, also when that process is long dead.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

from sentinel.client.atomic_file import write_atomically
from sentinel.client.regular_file import read_regular
from sentinel.client.strict_json import as_float, dumps, loads, printable
from sentinel.model.readings import MirrorPart

Part = MirrorPart
PARTS: tuple[Part, ...] = get_args(MirrorPart)
VERSION = 1
BYTES_MAX = 1 << 20


def mirror_folder(run_dir: Path) -> Path:
    """What the mirror's process keeps beside the run. Never mirrored itself."""
    return run_dir / "mirror"


@dataclass(frozen=True, slots=True)
class PartStanding:
    """since_s: wall time since which the mirror is not known to hold all of the part that was due; it was up to date until then.
    None: it never was. there: what it holds, in words. error: why it could not be pushed the last time; empty: it could.
    every_s: how often it is due; 0: as checkpoints come."""

    since_s: float | None = None
    there: str = ""
    error: str = ""
    every_s: float = 0.0


@dataclass(frozen=True, slots=True)
class MirrorStanding:
    to: str = ""
    began_s: float = 0.0  # wall time at which this process began to push
    parts: Mapping[Part, PartStanding] = field(default_factory=dict)

    def lag_s(self, part: Part, wall_s: float) -> float | None:
        """For how long the mirror is not known to hold what was due; 0 where nothing is due. None: the part is not mirrored."""
        found = self.parts.get(part)
        if found is None:
            return None
        return max(0.0, wall_s - (found.since_s if found.since_s is not None else self.began_s))

    def document(self) -> dict[str, Any]:
        parts = {
            name: {"since_s": one.since_s, "there": one.there, "error": one.error, "every_s": one.every_s}
            for name, one in self.parts.items()
        }
        return {"v": VERSION, "to": self.to, "began_s": self.began_s, "parts": parts}

    @staticmethod
    def of(raw: Mapping[str, Any]) -> MirrorStanding:
        """Raises ValueError, KeyError, TypeError, AttributeError."""
        if raw["v"] != VERSION:
            raise ValueError(f"version {raw['v']!r}")
        parts: dict[Part, PartStanding] = {}
        for name in PARTS:
            if name in raw["parts"]:
                one = raw["parts"][name]
                since_s = None if one["since_s"] is None else as_float(one["since_s"])
                parts[name] = PartStanding(since_s, printable(one["there"]), printable(one["error"]), as_float(one["every_s"]))
        return MirrorStanding(printable(raw["to"]), as_float(raw["began_s"]), parts)


def write_mirror_standing(run_dir: Path, standing: MirrorStanding) -> None:
    """Raises OSError."""
    write_atomically(mirror_folder(run_dir) / "standing.json", dumps(standing.document()).encode() + b"\n", durable=False)


def read_mirror_standing(run_dir: Path) -> MirrorStanding | None:
    """None where the run has no mirror, or the file cannot be read."""
    try:
        return MirrorStanding.of(loads(read_regular(mirror_folder(run_dir) / "standing.json", BYTES_MAX)))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def read_mirror_lags(run_dir: Path, wall_s: float) -> dict[str, float]:
    """By part, as `MirrorStanding.lag_s`; empty where the run has no mirror."""
    standing = read_mirror_standing(run_dir)
    lags = {part: standing.lag_s(part, wall_s) for part in standing.parts} if standing is not None else {}
    return {part: lag_s for part, lag_s in lags.items() if lag_s is not None}
