"""What was saved of an incident before it was lost: the files under incidents/NNNN, and the ends of the logs among them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sentinel.client.regular_file import regular
from sentinel.client.run_layout import HTML_REPORT_NAME, incident_folder
from sentinel.launcher.sample_text import show_sample
from sentinel.model.incidents import Incident
from sentinel.model.state import RunState
from sentinel.report.samples import rank_of_incident

FILES_MAX = 60
WALKED_MAX = 2000
LOGS_MAX = 4
TAIL_BYTES = 6000
TAIL_LINES = 40
SAMPLES_MAX = 20
TEXTS_MAX = 3  # each takes the trainer some seconds
OURS = (HTML_REPORT_NAME, "page.json")


@dataclass(frozen=True, slots=True)
class File:
    name: str
    size: str


@dataclass(frozen=True, slots=True)
class Tail:
    name: str
    text: str


@dataclass(frozen=True, slots=True)
class IncidentEvidence:
    """`folder` relative to the run. `more`: files that are not listed."""

    folder: str
    files: tuple[File, ...]
    more: int
    tails: tuple[Tail, ...]
    samples: tuple[dict[str, Any], ...]
    samples_missing: str
    guilty: int


def evidence_of(run_dir: Path, incident: Incident) -> IncidentEvidence:
    """What can be read; nothing is raised for what cannot."""
    folder = incident_folder(run_dir, incident.id)
    paths = sorted(_walked(folder))
    files = tuple(File(str(path.relative_to(folder)), _size(path)) for path in paths[:FILES_MAX])
    tails = tuple(tail for path in _logs_of_incident(paths, incident) if (tail := _tail(folder, path)) is not None)
    ranked, missing = rank_of_incident(run_dir, incident) if incident.attribution is not None else ((), "")
    guilty = sum(one["guilty"] for one in ranked)
    samples = tuple(ranked[:SAMPLES_MAX])
    more = max(0, len(paths) - FILES_MAX)
    return IncidentEvidence(str(folder.relative_to(run_dir)), files, more, tails, samples, missing, guilty)


def sample_texts(run_dir: Path, state: RunState, incident: Incident, evidence: IncidentEvidence) -> tuple[str, ...]:
    """The text of the guiltiest samples, where the trainer can show it."""
    found = incident.attribution
    guilty = [one["sample"] for one in evidence.samples if one["guilty"]][:TEXTS_MAX]
    if found is None:
        return ()
    shown = (show_sample(run_dir, state.command, state.cwd, found.attempt, sample) for sample in guilty)
    return tuple(text for text in shown if text)


def _walked(folder: Path) -> Iterator[Path]:
    count = 0
    for place, _, names in os.walk(folder):
        for name in sorted(names):
            count += 1
            if count > WALKED_MAX:
                return
            if name not in OURS and not name.startswith("."):
                yield Path(place) / name


def _logs_of_incident(paths: list[Path], incident: Incident) -> list[Path]:
    """Processes, then the blamed rank's log, then the others'."""
    blamed = f"{incident.blamed_rank}" if incident.blamed_rank is not None else "none"
    logs = [path for path in paths if path.parent.name == "logs"]
    logs.sort(key=lambda path: blamed not in "".join(c if c.isdigit() else " " for c in path.stem).split())
    return [*[path for path in paths if path.name == "processes.txt"][:1], *logs[:LOGS_MAX]]


def _tail(folder: Path, path: Path) -> Tail | None:
    try:
        with open(path, "rb", opener=regular) as file:
            size = os.fstat(file.fileno()).st_size
            file.seek(max(0, size - TAIL_BYTES))
            lines = file.read(TAIL_BYTES).decode(errors="replace").splitlines()[-TAIL_LINES:]
    except OSError:
        return None
    return Tail(str(path.relative_to(folder)), "\n".join(lines)) if lines else None


def _size(path: Path) -> str:
    try:
        size = path.stat().st_size
    except OSError:
        return "gone"
    return f"{size} bytes" if size < 2048 else f"{size / 1024:.0f} KiB"
