"""What is recorded of sources: blindness and its end, remarks, a stream that stands still under ranks that go on."""

from __future__ import annotations

from sentinel.engine.decision import Decision
from sentinel.model import facts as f
from sentinel.model.readings import HardwareReading, MirrorReading, SourceReading
from sentinel.model.state import REMARKS_KEPT

STREAM = "step lines"  # a source that telemetry cannot judge: the file can be read, and nothing comes


def on_hardware(decision: Decision, reading: HardwareReading) -> None:
    decision.detectors.hardware(reading, decision.now_s)
    if reading.what == "absent":  # nothing to look at is no blindness, and worth a note
        decision.note(reading.source, reading.text)


def on_source(decision: Decision, reading: MirrorReading | SourceReading) -> None:
    """A mirror has a detector of its own. Blindness is on record once, and so is its end; so is a remark: a stream that is
    rewritten all day must not fill the journal."""
    if isinstance(reading, MirrorReading):
        return decision.detectors.mirror(reading)
    decision.detectors.source(reading)
    if (reading.source in decision.state.blind) == reading.ok:
        return decision.record(f.SourceChanged(reading.source, reading.ok, reading.reason))
    if reading.remark:
        write_down(decision, f"{reading.source}: {reading.reason}")
    return None


def write_down(decision: Decision, remark: str) -> None:
    """Once in an attempt, and not without bound."""
    known = decision.state.remarks
    if remark in known:
        return
    if len(known) < REMARKS_KEPT:
        decision.note(f.ABOUT_SOURCE, remark)
        return
    decision.live.unwritten_remarks += 1
    if len(known) == REMARKS_KEPT:
        decision.note(f.ABOUT_SOURCE, f"{REMARKS_KEPT} remarks are written down, more in this attempt are only counted")


def report_stream_gap(decision: Decision) -> None:
    """No step lines under ranks that go on: not a hang, but what is judged from the stream is not seen. Where the stream
    cannot be read at all, that was said already."""
    gap, blind = decision.detectors.stream_gap, decision.state.blind
    if gap is None and not blind:
        return
    if gap is not None and not {STREAM, "metrics", "heartbeats"} & blind.keys():
        decision.record(f.SourceChanged(STREAM, False, gap))
    elif gap is None and STREAM in blind:
        decision.record(f.SourceChanged(STREAM, True, "no rank is ahead of the stream"))
