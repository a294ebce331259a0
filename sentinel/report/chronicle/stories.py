"""One incident as the logbook tells it: what broke, each decision and why, how it ended, what it cost, who was called.

Gathered from the facts one by one, so that incidents the state no longer keeps are told as well.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from sentinel.model import facts as f
from sentinel.model.actions import SendPage
from sentinel.model.amounts import lost_words, time_words
from sentinel.model.facts import Fact
from sentinel.model.incidents import CLOSED, Incident, IncidentState, Outcome, blamed_words
from sentinel.policy.rung_words import CONDITIONS
from sentinel.report.chronicle.plain import plain

ROUTES_LISTED = 6


@dataclass(slots=True)
class Tried:
    words: str
    reason: str
    outcome: str = ""
    verdict: str = ""


@dataclass(slots=True)
class Story:
    """`opened`: the incident as it was when it opened."""

    opened: Incident
    at_s: float
    tries: list[Tried] = field(default_factory=list)
    state: IncidentState = IncidentState.OPEN
    closed_s: float | None = None
    verdict: str = ""
    restored_s: float | None = None
    steps_lost: int = 0
    steps_unseen: int | None = 0  # as of an incident
    remarks: list[str] = field(default_factory=list)  # Markdown, in the order they came
    called: dict[str, tuple[float, SendPage]] = field(default_factory=dict)  # deliveries of the page, by key
    refused: list[str] = field(default_factory=list)
    seen_by: str = ""
    seen_s: float | None = None
    settled: str = ""  # why its page is over, and by whom

    @property
    def called_s(self) -> float | None:
        """When a person was first called; None where nobody was. A message that all is well again calls nobody."""
        return min((at_s for at_s, page in self.called.values() if page.stage == "trigger"), default=None)

    @property
    def needed_a_person(self) -> bool:
        return self.called_s is not None or self.state is IncidentState.EXHAUSTED

    @property
    def remedies(self) -> str:
        return ", ".join(tried.words for tried in self.tries if tried.outcome != Outcome.PASSED_OVER) or "none"

    @property
    def seconds(self) -> float | None:
        """From when it could first be seen until the run made new ground."""
        return None if self.restored_s is None else max(0.0, self.restored_s - self.opened.visible_s)

    def take(self, at_s: float, fact: Fact) -> None:
        """A fact about this incident."""
        match fact:
            case f.RungTaken(remedy=remedy):
                words = "+".join(word for word in remedy.words if word not in CONDITIONS)
                self.tries.append(Tried(words, remedy.reason))
            case f.RungJudged(outcome=outcome, reason=reason) if self.tries:
                self.tries[-1].outcome, self.tries[-1].verdict = str(outcome), reason
            case f.IncidentMoved(to=to, reason=reason):
                self.state, self.verdict = to, reason
                self.closed_s = at_s if to in CLOSED else None
            case f.Restored():
                self.restored_s = at_s
            case f.StepsLost(steps=steps, unseen=unseen):
                self.steps_lost += steps
                self.steps_unseen = None if self.steps_unseen is None or unseen is None else self.steps_unseen + unseen
            case f.BlameFound(rank=rank, node=node, reason=reason):
                self.remarks.append(f"Blamed: {plain(blamed_words(rank, node))}: {plain(reason)}")
            case f.Diagnosed(diagnosis=found):
                self.remarks.append(f"Diagnosis: {found.cause}: {plain(found.reason)}")
            case f.Attributed(attribution=found):
                self.remarks.append(f"Samples looked at: {plain(found.reason)}")
            case f.GaveUp(then=then, reason=reason):
                self.remarks.append(f"Out of remedies: {plain(reason)}; then: {plain(then)}")
            case f.ApprovalAsked(reason=reason):
                self.remarks.append(f"Waited for a person: {plain(reason)}")
            case f.NodeExcluded(node=node, reason=reason):
                self.remarks.append(f"Node {plain(node)} left out from now on: {plain(reason)}")
            case f.ActionDecided(action=SendPage() as page):
                self.called[page.key] = (at_s, page)
            case f.ActionAbandoned(reason=reason, withdrawn=False):  # a call that was answered before failed nobody
                self.refused.append(reason)
            case f.PageResolved(reason=reason, by=by):
                self.settled = " by ".join(filter(None, (reason, by)))
            case _:
                pass


def story_lines(story: Story, when: Callable[[float], str]) -> list[str]:
    """The bullets below the incident's own line. `when`: a time of the run as the logbook writes it."""
    opened = story.opened
    lines = [plain(opened.reason)]
    if opened.value and opened.baseline:
        lines.append(f"Seen {plain(opened.value)}, before that {plain(opened.baseline)}")
    blamed = [f"rank {opened.blamed_rank}"] if opened.blamed_rank is not None else []
    blamed += [f"node {plain(opened.blamed_node)}"] if opened.blamed_node else []
    lines += [f"Blamed: {', '.join(blamed)}"] if blamed else []
    for number, tried in enumerate(story.tries, 1):
        verdict = f": {plain(tried.verdict)}" if tried.verdict not in ("", tried.reason) else ""
        lines.append(f"Try {number}, {plain(tried.words)}: {plain(tried.reason)} → {tried.outcome or 'not judged'}{verdict}")
    lines += story.remarks
    if story.called:
        lines.append(page_words(story, when))
    if story.verdict and not any(tried.verdict == story.verdict for tried in story.tries):
        lines.append(f"{str(story.state).capitalize()}: {plain(story.verdict)}")
    return lines


def page_words(story: Story, when: Callable[[float], str]) -> str:
    """Who was called, when and where, and who answered."""
    pages = [page for _, page in story.called.values()]
    routes = sorted({page.route for page in pages if page.route})
    stages = ", ".join(f"{count} {stage}" for stage, count in Counter(page.stage for page in pages).items())
    on = f" on {', '.join(map(plain, routes[:ROUTES_LISTED]))}" if routes else ""
    called_s = story.called_s
    words = f"People were told{on} ({stages})" if called_s is None else f"A person was called at {when(called_s)}{on} ({stages})"
    if story.refused:
        words += f"; {many(len(story.refused), 'delivery', 'deliveries')} given up, the first: {plain(story.refused[0])}"
    if called_s is not None and not story.seen_by:
        words += "; nobody acknowledged it"
    if story.seen_by:
        after = f", {time_words(story.seen_s - called_s)} after" if story.seen_s is not None and called_s is not None else ""
        words += f"; acknowledged by {plain(story.seen_by)}{after}"
    return words + (f"; over: {plain(story.settled)}" if story.settled else "")


def many(count: int, one: str, more: str = "") -> str:
    """`1 incident`, `2 incidents`."""
    return f"{count} {one if count == 1 else more or one + 's'}"


def outcome_words(story: Story) -> str:
    """`recovered in 7.7 s, 32 steps lost`."""
    took = story.seconds
    words = str(story.state) + (f" in {time_words(took)}" if took is not None else "")
    has_lost = story.steps_lost or story.steps_unseen != 0
    return words + (f", {lost_words(story.steps_lost, story.steps_unseen)} lost" if has_lost else "")
