"""RUN_DIR/senses.json: how every detector stands just now, written by the supervisor for whoever asks (`sentinel status`).

Verdicts are not facts: they flow by, and a journal of them would be noise. The file holds the newest only, is replaced whole, and
may be lost with the machine. Whoever reads it must say as of when: a healthy detector of an hour ago is no healthy detector.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sentinel.client.atomic_file import write_atomically
from sentinel.client.regular_file import regular
from sentinel.client.run_layout import STANDINGS_NAME
from sentinel.client.strict_json import as_float, dumps, loads, printable
from sentinel.engine import Engine
from sentinel.model.amounts import time_words
from sentinel.model.disks import DiskReading
from sentinel.model.findings import Kind, Verdict
from sentinel.model.stall import StepTimes
from sentinel.run_files.gpu_standing import GpuSeen, GpuStanding, gpu_documents, read_gpus

VERSION = 1
JUDGE_S = 1.0  # asking every detector at each of a hundred turns a second would be waste
WRITE_S = 5.0
OLD_AFTER_S = 30.0  # six writes of a living supervisor were missed
BYTES_MAX = 1 << 20


Gpus = Callable[[], tuple[Sequence[GpuSeen], str]]
"""The GPUs of this machine, and why none is seen."""


class StandingsFile:
    """The supervisor's side. A disk that says no is asked again in `WRITE_S`, and nobody is disturbed."""

    def __init__(self, run_dir: Path, gpus: Gpus | None = None) -> None:
        self._path = run_dir / STANDINGS_NAME
        self._gpus = gpus
        self._judged_s = self._tried_s = float("-inf")
        self._written: dict[Kind, Verdict] = {}
        self._was_stalled = False

    def keep(self, now_s: float, engine: Engine) -> None:
        """Write when a verdict is another than the last time, and else every `WRITE_S`. `now_s`: session seconds."""
        if now_s - self._judged_s < JUDGE_S:
            return
        self._judged_s = now_s
        standing = engine.detectors.verdicts(engine.state.blind)
        is_stalled = engine.detectors.step_times.stalled_since_s(now_s) is not None
        is_news = is_stalled != self._was_stalled or {kind: one for kind, (one, _) in standing.items()} != self._written
        if is_news or now_s - self._tried_s >= WRITE_S:
            self.write(now_s, engine)

    def write(self, now_s: float, engine: Engine) -> None:
        standing = engine.detectors.verdicts(engine.state.blind)
        self._written = {kind: verdict for kind, (verdict, _) in standing.items()}
        self._tried_s = now_s
        times = engine.detectors.step_times
        self._was_stalled = times.stalled_since_s(now_s) is not None
        gpus, why_not = self._gpus() if self._gpus is not None else ((), "nobody looks at them")
        document = {
            "v": VERSION,
            "time_s": now_s,
            "attempt": engine.watched,
            "step": engine.detectors.newest_step,
            "last_step_s": times.last_step_s,
            "step_time_s": times.step_time_s,
            "steps_a_line": times.steps_seen_at_once,
            "unwritten_remarks": engine.unwritten_remarks,
            "gpus_in_use": engine.detectors.gpus_in_use,
            "disks": [
                {
                    "place": disk.place,
                    "mount": disk.mount,
                    "free_bytes": disk.free_bytes,
                    "total_bytes": disk.total_bytes,
                    "free_inodes": disk.free_inodes,
                }
                for disk in engine.detectors.disks(now_s)
            ],
            "gpus": gpu_documents(gpus),
            "gpus_why_not": why_not,
            "detectors": [{"kind": kind, "verdict": verdict, "reason": reason} for kind, (verdict, reason) in standing.items()],
        }
        with suppress(OSError):
            write_atomically(self._path, dumps(document).encode(), durable=False)


@dataclass(frozen=True, slots=True)
class DetectorStandings:
    """The file as read. `time_s`: session seconds at which it was written; `verdicts`: kind, verdict, reason.
    `step_times`: of the attempt as it stood then. `disks`: as they were looked at, without checkpoints. `gpus`: of the
    supervisor's machine, and why none is seen. `gpus_in_use`: on how many of them a process of the run was seen, None where on
    none. `missing`: why nothing is known, and then there is nothing else."""

    time_s: float | None = None
    attempt: int | None = None
    step: int | None = None
    unwritten_remarks: int = 0
    verdicts: tuple[tuple[str, str, str], ...] = ()
    step_times: StepTimes = field(default_factory=StepTimes)
    missing: str = ""
    disks: tuple[DiskReading, ...] = ()
    gpus: tuple[GpuStanding, ...] = ()
    gpus_why_not: str = ""
    gpus_in_use: int | None = None


NO_STANDINGS = DetectorStandings(missing=f"no supervisor has written {STANDINGS_NAME} yet")


def read_standings(run_dir: Path) -> DetectorStandings:
    """What the supervisor wrote last. `missing` says so of a file that is not there, damaged or of another version."""
    try:
        with open(run_dir / STANDINGS_NAME, "rb", opener=regular) as file:
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
            step_times=_step_times(raw),
            disks=tuple(_disk(item) for item in raw.get("disks", ())),
            gpus=read_gpus(raw.get("gpus", [])),
            gpus_why_not=printable(str(raw.get("gpus_why_not", "its supervisor is older and tells of none"))),
            gpus_in_use=None if raw.get("gpus_in_use") is None else int(raw["gpus_in_use"]),
        )
    except FileNotFoundError:
        return NO_STANDINGS
    except OSError as error:
        return DetectorStandings(missing=f"{STANDINGS_NAME} cannot be read: {error.strerror}")
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError):
        anew = f"a living supervisor writes it anew within {time_words(WRITE_S)}"
        return DetectorStandings(missing=f"{STANDINGS_NAME} is damaged; {anew}")


def _step_times(raw: Mapping[str, Any]) -> StepTimes:
    """What an older supervisor did not write is not known."""
    last_s, each_s = raw.get("last_step_s"), raw.get("step_time_s")
    if last_s is None or each_s is None:
        return StepTimes()
    return StepTimes(as_float(last_s), as_float(each_s), max(1, int(raw.get("steps_a_line", 1))))


def _disk(item: Any) -> DiskReading:
    inodes = item["free_inodes"]
    return DiskReading(
        place=printable(str(item["place"])),
        mount=printable(str(item["mount"])),
        free_bytes=int(item["free_bytes"]),
        total_bytes=int(item["total_bytes"]),
        free_inodes=None if inodes is None else int(inodes),
    )


def _verdict(item: Any) -> tuple[str, str, str]:
    """A kind of a newer version passes; a verdict must be one of the three."""
    kind, reason = str(item["kind"]), " ".join(str(item["reason"]).split())
    return printable(kind), str(Verdict(item["verdict"])), printable(reason)
