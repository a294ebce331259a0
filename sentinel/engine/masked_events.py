"""An event as the engine takes it: without what looks like a secret in the words of others.

What trainers print, what a launcher or a service answers and what a person types become facts, and facts are shown, sent and
copied to other machines. So they are masked before anything is decided: state, journal and pages then say the same, also after a
restart. Only words for people are: identifiers, paths, digests and settings are compared, and stay as they are.
"""

from __future__ import annotations

from sentinel.client.masking import Masking
from sentinel.model.attempts import AttemptView, Exited, Orphaned, RankExit, Unseen
from sentinel.model.changed import replace
from sentinel.model.events import ActionDelayed, ActionDone, ActionFailed, Event, SupervisorStarted
from sentinel.model.node_checks import NodeVerdicts
from sentinel.model.operator_requests import ApplyPolicy, Remark
from sentinel.model.readings import (
    HardwareReading,
    LauncherReading,
    LogMatch,
    LogTail,
    MirrorReading,
    RequestReading,
    SourceReading,
    TrainerNote,
)

NOTE_TEXT_KEYS = ("reason", "error", "message", "passed_over")  # of a trainer's note: what it says to people


def masked(event: Event, masking: Masking) -> Event:
    """The event, or one with its words masked. Steps and beats have no words, and never come here."""
    match event:
        case SupervisorStarted():
            return replace(event, command=masking.words(event.command))
        case ActionDone(found=NodeVerdicts() as found):
            return replace(event, detail=masking.text(event.detail), found=_verdicts(found, masking))
        case ActionDone():
            return replace(event, detail=masking.text(event.detail))
        case ActionFailed() | ActionDelayed() | SourceReading():
            return replace(event, reason=masking.text(event.reason))
        case LogTail():
            begins = event.errors_from  # of a key that took several lines one is left, so each file by itself
            output, errors = masking.lines(event.lines[:begins]), () if begins is None else masking.lines(event.lines[begins:])
            return replace(event, lines=(*output, *errors), errors_from=None if begins is None else len(output))
        case LogMatch():
            groups = tuple((name, masking.text(value)) for name, value in event.groups)
            return replace(event, line=masking.text(event.line), groups=groups)
        case MirrorReading():
            return replace(event, to=masking.text(event.to), trouble=masking.text(event.trouble))
        case HardwareReading():
            return replace(event, text=masking.text(event.text))
        case LauncherReading():
            return replace(event, view=_view(event.view, masking))
        case TrainerNote():
            texts = {key: masking.document(value) for key, value in event.data.items() if key in NOTE_TEXT_KEYS}
            return replace(event, data={**event.data, **texts}) if texts else event
        case RequestReading(request=Remark() as remark):
            return replace(event, request=replace(remark, text=masking.text(remark.text)))
        case RequestReading(request=ApplyPolicy() as wanted):
            return replace(event, request=replace(wanted, note=masking.text(wanted.note)))
        case _:
            return event


def _view(view: AttemptView, masking: Masking) -> AttemptView:
    match view:
        case Exited():
            report = view.report
            ranks = tuple(_rank_exit(rank, masking) for rank in report.ranks)
            return replace(view, report=replace(report, ranks=ranks, reason=masking.text(report.reason)))
        case Orphaned() | Unseen():
            return replace(view, reason=masking.text(view.reason))
        case _:
            return view


def _verdicts(found: NodeVerdicts, masking: Masking) -> NodeVerdicts:
    sick, unknown = (
        tuple(replace(word, reason=masking.text(word.reason)) for word in words) for words in (found.sick, found.unknown)
    )
    return replace(found, sick=sick, unknown=unknown, trouble=masking.text(found.trouble))


def _rank_exit(rank: RankExit, masking: Masking) -> RankExit:
    return rank if rank.error is None else replace(rank, error=masking.text(rank.error))
