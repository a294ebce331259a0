"""RUN_DIR/senses.json: how every detector stands just now, written by the supervisor for whoever asks (`sentinel status`).

Verdicts are not facts: they flow by, and a journal of them would be noise. The file holds the newest only, is replaced whole, and
may be lost with the machine. Whoever reads it must say as of when: a healthy detector of an hour ago is no healthy detector.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sentinel.client.atomic_file import write_atomically
from sentinel.client.run_layout import STANDINGS_NAME
from sentinel.client.strict_json import as_float, dumps, loads, printable
from sentinel.engine import Engine
from sentinel.model.findings import Kind, Verdict

VERSION = 1
JUDGE_S = 1.0  # asking every detector at each of a hundred turns a second would be waste
WRITE_S = 5.0
BYTES_MAX = 1 << 20


class StandingsFile:
    """The supervisor's side. A disk that says no is asked again in `WRITE_S`, and nobody is disturbed."""

    def __init__(self, run_dir: Path) -> None:
        self._path = run_dir / STANDINGS_NAME
        self._judged_s = self._tried_s = float("-inf")
        self._written: dict[Kind, Verdict] = {}

    def keep(self, now_s: float, engine: Engine) -> None:
        """Write when a verdict is another than the last time, and else every `WRITE_S`. `now_s`: session seconds."""
        if now_s - self._judged_s < JUDGE_S:
            return
        self._judged_s = now_s
        standing = engine.detectors.verdicts(engine.state.blind)
        if now_s - self._tried_s >= WRITE_S or {kind: verdict for kind, (verdict, _) in standing.items()} != self._written:
            self.write(now_s, engine)

    def write(self, now_s: float, engine: Engine) -> None:
        standing = engine.detectors.verdicts(engine.state.blind)
        self._written = {kind: verdict for kind, (verdict, _) in standing.items()}
        self._tried_s = now_s
        document = {
            "v": VERSION,
            "time_s": now_s,
            "attempt": engine.watched,
            "step": engine.detectors.newest_step,
            "unwritten_remarks": engine.unwritten_remarks,
            "detectors": [{"kind": kind, "verdict": verdict, "reason": reason} for kind, (verdict, reason) in standing.items()],
        }
        with suppress(OSError):
            write_atomically(self._path, dumps(document).encode(), durable=False)


@dataclass(frozen=True, slots=True)
class DetectorStandings:
    """The file as read. `time_s`: session seconds at which it was written; `verdicts`: kind, verdict, reason.
    `missing`: why nothing is known, and then there is nothing else; empty otherwise."""

    time_s: float | None = None
    attempt: int | None = None
    step: int | None = None
    unwritten_remarks: int = 0
    verdicts: tuple[tuple[str, str, str], ...] = ()
    missing: str = ""


NO_STANDINGS = DetectorStandings(missing=f"no supervisor has written {STANDINGS_NAME} yet")


def read_standings(run_dir: Path) -> DetectorStandings:
    """What the supervisor wrote last. `missing` says so of a file that is not there, damaged or of another version."""
    try:
        with (run_dir / STANDINGS_NAME).open("rb") as file:
            raw = loads(file.read(BYTES_MAX))
        if raw["v"] != VERSION:
            why = f"{STANDINGS_NAME} is of version {raw['v']!r}, this sentinel reads version {VERSION}"
            return DetectorStandings(missing=why)
        return DetectorStandings(
            time_s=as_float(raw["time_s"]),
            attempt=int(raw["attempt"]),
            step=int(raw["step"]),
            unwritten_remarks=int(raw.get("unwritten_remarks", 0)),
            verdicts=tuple(_verdict(item) for item in raw["detectors"]),
        )
    except FileNotFoundError:
        return NO_STANDINGS
    except OSError as error:
        return DetectorStandings(missing=f"{STANDINGS_NAME} cannot be read: {error.strerror}")
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError):
        return DetectorStandings(missing=f"{STANDINGS_NAME} is damaged; a living supervisor writes it anew within {WRITE_S:g} s")


def _verdict(item: Any) -> tuple[str, str, str]:
    """A kind of a newer version passes; a verdict must be one of the three."""
    kind, reason = str(item["kind"]), " ".join(str(item["reason"]).split())
    return printable(kind), str(Verdict(item["verdict"])), printable(reason)
