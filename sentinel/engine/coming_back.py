"""A condition that goes and comes back: its first pages are taken back as it goes, and then one page stays open for all of it.

    page, resolved ─▶ page, resolved ─▶ page "keeps coming back" ─▶ what comes next waits behind it ─▶ resolved once it is over

Everything is read from the pages on record, so a supervisor that takes over decides the same. Only kinds that their detector
measures the end of can flap so: the others are closed by a repair, of which there is a budget.
"""

from __future__ import annotations

from collections.abc import Iterator

from sentinel.detectors.registry import FINDS
from sentinel.model.incidents import Incident
from sentinel.model.paging import IncidentPage
from sentinel.model.state import RunState
from sentinel.policy.schema_paging import RANK

PAGES_MAX = 3  # one may be chance, and two; the third within the time below says that resolving tells nobody anything
# Longer than the usual pause before a page that nobody answers is repeated: what flaps calls no more often than what lasts.
WITHIN_S = AWAY_S = 3600.0
WORDS = f"it keeps coming back, {PAGES_MAX} times within an hour; this page stays open until it has stayed away for an hour"


def keeps_coming_back(state: RunState, incident: Incident, now_s: float) -> bool:
    """Whether pages about the same were taken back, by measurement, so often since an hour before this one was raised."""
    finds = FINDS.get(incident.kind)
    if finds is None or not finds.is_measured:
        return False
    since_s = (now_s if incident.page is None else incident.page.raised_s) - WITHIN_S
    ends_s = [page.resolved_s for page in _other_pages(state, incident) if not page.resolved_by]
    return sum(end_s is not None and end_s >= since_s for end_s in ends_s) >= PAGES_MAX - 1


def page_in_front(state: RunState, incident: Incident, page: IncidentPage, now_s: float) -> Incident | None:
    """The older incident whose open page stands for this one too; not where this one is more severe than anybody was told."""
    for other in _same(state, incident):
        if other.id >= incident.id or other.page is None or not other.page.is_open:
            continue
        if RANK[other.page.severity] >= RANK[page.severity] and keeps_coming_back(state, other, now_s):
            return other
    return None


def must_stay_open(state: RunState, incident: Incident, now_s: float) -> bool:
    """Whether it may come back any moment, although it is over just now. What waits behind another page need not stay."""
    page = incident.page
    if page is None or not keeps_coming_back(state, incident, now_s) or page_in_front(state, incident, page, now_s) is not None:
        return False
    others = tuple(_other_pages(state, incident))
    newest_s = max((p.resolved_s for p in others if p.resolved_s is not None), default=page.raised_s)
    return any(p.is_open for p in others) or now_s - max(page.raised_s, newest_s) < AWAY_S


def _other_pages(state: RunState, incident: Incident) -> Iterator[IncidentPage]:
    return (other.page for other in _same(state, incident) if other.page is not None)


def _same(state: RunState, incident: Incident) -> Iterator[Incident]:
    """Other incidents about the same: of this kind, and of this filesystem where it is one."""
    about = (incident.kind, incident.metric)
    return (other for other in state.incidents if (other.kind, other.metric) == about and other.id != incident.id)
