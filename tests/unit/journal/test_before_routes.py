"""A whole journal as it was written before pages had routes and a life of their own: a crash, then a job that cannot run. Frozen:
whatever pages become, this folds to the same, can be looked at, and can be gone on with."""

from __future__ import annotations

import json
from pathlib import Path

from sentinel.engine import Engine
from sentinel.journal.codec import decode_fact
from sentinel.model.actions import SendPage
from sentinel.model.events import SupervisorStarted, Tick
from sentinel.model.facts import ActionDecided, Entry
from sentinel.model.incidents import IncidentState
from sentinel.report.documents import incident_document
from sentinel.report.text import incident_story
from tests.builders import build_policy

LINES = (Path(__file__).parent / "journal_before_routes.jsonl").read_text(encoding="utf-8").splitlines()


def restored(lines: list[str] = LINES) -> Engine:
    engine = Engine(build_policy())
    rows = [json.loads(line) for line in lines]
    engine.restore(Entry(n, at_s, epoch, decode_fact(kind, body)) for n, (at_s, epoch, kind, body) in enumerate(rows, 1))
    return engine


def go_on(engine: Engine) -> list[str]:
    """Another supervisor starts, and an hour passes. What pages it decides."""
    state = engine.state
    started = SupervisorStarted(
        9, "here", 7, state.run_id, state.command, state.cwd, state.policy_name, state.policy_digest, False, ("skip",)
    )
    facts = [*engine.handle(2_000_000.0, started)]
    for minute in range(60):
        facts += engine.handle(2_000_000.0 + 60 * minute, Tick())
    return [fact.action.key for fact in facts if isinstance(fact, ActionDecided) and isinstance(fact.action, SendPage)]


def test_it_folds_to_the_run_it_was() -> None:
    state = restored().state
    assert (state.ended, len(state.attempts), dict(state.pending)) == ("failed", 2, {})
    assert [(i.state, i.pages, i.page) for i in state.incidents] == [
        (IncidentState.EXHAUSTED, ("page/1/1",), None),
        (IncidentState.EXHAUSTED, ("page/2/1",), None),
    ]


def test_nothing_of_its_old_pages_is_repeated_or_resolved() -> None:
    engine = restored()
    assert not [key for key in go_on(engine) if key.startswith(("page/1/", "page/2/"))]
    assert not engine.state.ended, "it was started again"


def test_a_page_it_never_sent_is_still_to_be_sent() -> None:
    unsent = restored([line for line in LINES if '"ActionConfirmed", "{\\"key\\":\\"page/' not in line])
    assert set(unsent.state.pending) == {"page/1/1", "page/2/1"}
    go_on(unsent)
    assert unsent.state.ended == "failed", "nobody was told, so starting it again was nobody's answer"


def test_it_can_be_looked_at() -> None:
    story = incident_story(incident_document(restored().state.incidents[1]))
    assert story[-1] == "  a person was paged: incidents/0002/page.json"
