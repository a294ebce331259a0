"""What is recorded of sources: blindness and its end, remarks, numbers that were lost, a stream that stands still under ranks
that go on."""

from __future__ import annotations

from math import isfinite

from sentinel.client.run_layout import STREAM_NAME
from sentinel.engine.decision import Decision
from sentinel.engine.disk_room import sound_only
from sentinel.model import facts as f
from sentinel.model.disks import DiskReading
from sentinel.model.readings import HardwareReading, MirrorReading, SourceReading, TrainerNote
from sentinel.model.state import REMARKS_KEPT
from sentinel.plan.holes import add_hole

LOST, DROPPED = "lines_lost", "lines_dropped"
HOLES_KEPT = 1024
HOLES_RECORDED = 64  # in an attempt; more are only counted
WORD_MAX = 200
STEP_MAX = 2**53
STREAM = "step lines"  # a source that telemetry cannot judge: the file can be read, and nothing comes


def on_hardware(decision: Decision, reading: HardwareReading | DiskReading) -> None:
    if isinstance(reading, DiskReading):
        return decision.detectors.disk(sound_only(decision.state, reading), decision.now_s)
    decision.detectors.hardware(reading, decision.now_s)
    if reading.what == "absent":  # nothing to look at is no blindness, and worth a note
        decision.note(reading.source, reading.text)
    return None


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


def on_numbers_missing(decision: Decision, note: TrainerNote) -> None:
    """The trainer says that lines of its own were lost: its disk was full (`lines_lost`), or a device or a disk was too slow
    (`lines_dropped`, which tells their count alone). Recorded once, however often the stream is read."""
    attempt = decision.attempt
    if attempt is None:
        return
    newest, data = decision.newest_step, note.data
    is_dropped = note.event == DROPPED
    lines = _count(data.get("count" if is_dropped else "lines"))
    first = newest + 1 if is_dropped else _count(data.get("first_step"))
    last = note.step - 1 if is_dropped else _count(data.get("last_step"))
    file, error, reason = (str(data.get(name) or "")[:WORD_MAX] for name in ("file", "errno", "reason"))
    if lines > 0 and 0 < first <= newest < last:
        first = newest + 1  # what stands in the stream was seen, whatever is said of it
    if lines <= 0 or not 0 < first <= last or last <= newest:
        if lines > 0 and not 0 < first <= last:
            whose = f"{lines} lines of {file or 'its stream'}"
            write_down(decision, f"trainer: {whose} that are no steps were lost ({error}: {reason})")
        return
    add_hole(decision.live.holes, (first, last), HOLES_KEPT)
    if any(start <= first and last <= end for start, end in attempt.holes):
        return
    if len(attempt.holes) >= HOLES_RECORDED:
        decision.live.unwritten_remarks += 1
        return
    decision.record(
        f.NumbersMissing(
            attempt=attempt.attempt,
            file=file or STREAM_NAME,
            lines=lines,
            first_step=first,
            last_step=last,
            first_s=_seconds(data.get("first_s")),
            last_s=_seconds(data.get("last_s")),
            error=error,
            reason=reason,
        )
    )


def _count(value: object) -> int:
    return value if type(value) is int and 0 <= value < STEP_MAX else 0


def _seconds(value: object) -> float:
    return float(value) if isinstance(value, (int, float)) and isfinite(value) and value > 0 else 0.0


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
