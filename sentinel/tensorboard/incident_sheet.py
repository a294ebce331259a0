"""The incidents of a run on its stitched board: a text each, and a marker at the step each began.

Rows of one chart must rise, and incidents are not found in the order of their onsets. So the sheet is small and written whole,
under a new name each time: TensorBoard reads new files and never again an old one, and what begins at a lower step than what
it knows replaces that. It sorts before the attempts' files, because a reader that follows the newest file only must follow those.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

from sentinel.client.atomic_file import write_atomically
from sentinel.client.masking import Masking
from sentinel.client.regular_file import read_regular
from sentinel.model.amounts import number_between
from sentinel.model.incidents import Incident
from sentinel.report.documents import incident_document
from sentinel.report.tables import markdown_table
from sentinel.report.text import rung_words
from sentinel.tensorboard.charts import MARKER, STORY, layout
from sentinel.tensorboard.event_bytes import RowEncoder, layout_record, text_record, version_record
from sentinel.tensorboard.event_file import SHEET

_NAME = re.compile(rf"{re.escape(SHEET)}\.0{{10}}\.incidents-(\d{{6}})")


class IncidentSheet:
    """The newest sheet in a folder. Raises OSError; what was last written is then unknown and read again."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._written: tuple[Incident, ...] | None = None

    def tell(self, incidents: tuple[Incident, ...], created_s: float) -> None:
        """Write the sheet where it says something else than the one that lies there. Done twice, it changes nothing."""
        if incidents is self._written:
            return
        data = sheet(incidents, created_s)
        found = self._found()
        newest = found[-1] if found else None
        if newest is None or read_regular(newest) != data:
            number = int(_NAME.fullmatch(newest.name)[1]) + 1 if newest is not None else 1  # type: ignore[index]
            write_atomically(self._folder / f"{SHEET}.{0:010d}.incidents-{number:06d}", data, durable=False)
        else:
            found.pop()
        for old in found:
            old.unlink(missing_ok=True)
        self._written = incidents

    def _found(self) -> list[Path]:
        if not self._folder.is_dir():
            return []
        return sorted(path for path in self._folder.iterdir() if _NAME.fullmatch(path.name))


def sheet(incidents: Sequence[Incident], created_s: float) -> bytes:
    """The file's bytes: the layout of the charts, the texts, the markers by rising step (of several at one step the newest)."""
    out = [version_record(created_s), layout_record(created_s, layout())]
    markers: dict[int, Incident] = {}
    for incident in incidents:
        markers[step_of(incident)] = incident
        out.append(text_record(step_of(incident), incident.detected_s, f"{STORY}/{incident.id:04d}", story(incident)))
    encoder = RowEncoder()
    for step, incident in sorted(markers.items()):
        out.append(encoder.encode(step, incident.detected_s, {MARKER: float(incident.id)}))
    return b"".join(out)


def step_of(incident: Incident) -> int:
    """Where it stands on the charts: its onset; what has none (a crash) where it was found."""
    return incident.detected_step if incident.onset_step is None else incident.onset_step


def story(incident: Incident) -> str:
    """The incident in Markdown: kind, onset, reason, what was tried and how that ended."""
    document = Masking.of(os.environ).document(incident_document(incident))
    onset = "" if document["onset_step"] is None else f", onset at step {document['onset_step']}"
    lines = [
        f"**Incident {document['id']}: {document['kind']}** ({document['severity']}){onset}, "
        f"found at step {document['detected_step']} of attempt {incident.attempt}: **{document['state']}**",
        _plain(document["reason"]),
    ]
    rows = [
        (remedy["rung"] + 1, rung_words(remedy), remedy["attempt"], remedy["outcome"], _plain(remedy["chosen"]))
        for remedy in document["remedies"]
    ]
    if rows:
        lines.append(markdown_table(("rung", "remedy", "attempt launched", "outcome", "why"), rows))
    if document["diagnosis"]:
        lines.append(f"Diagnosis: {document['diagnosis']['cause']}: {_plain(document['diagnosis']['reason'])}")
    lines.append(f"Steps lost: {number_between(incident.steps_lost, incident.steps_unseen)}. {_plain(incident.verdict)}".strip())
    return "\n\n".join(lines)


def _plain(text: str) -> str:
    """One line, in which nothing is taken for a mark-up that it is not."""
    return re.sub(r"([\\`*_<>\[\]])", r"\\\1", " ".join(str(text).split()))
