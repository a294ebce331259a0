"""An answer to a page when nobody supervises the run: it failed in the night, sentinel has ended, and a person says that it was
seen, that it is settled, or what there is to remember.

This process takes the run as a supervisor would, lets the engine answer, sends what the answer makes due on the routes, and
leaves. Nothing is launched, ended or resumed, and it is no session: whoever starts the run again still answers its end.

    answer = answer_unattended(run_dir, "ada@desk", Acknowledge(4))
"""

from __future__ import annotations

import math
import sys
import threading
import uuid
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import cast

from sentinel.actions.runner import Handler, ThreadRunner
from sentinel.clock import SystemClock
from sentinel.engine import Engine
from sentinel.errors import PolicyError, SentinelError, UsageError
from sentinel.journal.answering import answering
from sentinel.journal.run_file import read_run_file
from sentinel.journal.session import RunSession, refuse_lost_journal, take_run
from sentinel.model import wishes as w
from sentinel.model.actions import SendPage
from sentinel.model.events import ActionFailed, Event
from sentinel.model.facts import Fact, WishAnswered
from sentinel.model.readings import WishReading
from sentinel.pages.asked import lay_routes
from sentinel.pages.desk import Desk, Ways
from sentinel.policy.schema import Policy
from sentinel.policy_file import load_policy, shipped_policy_path
from sentinel.report.summary import leave_report

ANSWERS = (w.Acknowledge, w.Resolve, w.Remark)  # what changes nothing in the run
SEND_S = 20.0  # the person waits meanwhile; what could not be sent is sent by whoever starts the run again
RETRY_MAX_S = 2.0


def answer_unattended(run_dir: Path, by: str, wish: w.Wish, within_s: float = SEND_S) -> WishAnswered:
    """Let the engine answer, and send what is due.

    Raises:
        AlreadySupervised: somebody has taken the run since; ask them.
        UsageError, JournalError, RetryLater: the run cannot be taken, or its journal not be written.
    """
    refuse_lost_journal(run_dir)
    with answering(run_dir), take_run(run_dir) as session:
        engine = Engine(_load_policy(run_dir))
        asked = _Answering(run_dir, session, engine)
        answer = asked.ask(by, wish)
        if asked.pages():  # those that an earlier leaver could not send among them, whatever was answered now
            ways = Ways(lambda: engine.state, _heard)
            with closing(Desk(run_dir, engine.policy.spec.paging, ways, asked.clock)) as desk:
                asked.send(desk.courier.send, within_s)
        if engine.state.ended:
            leave_report(run_dir, engine.state, asked.clock.now_s())
    if answer.granted and isinstance(wish, w.Acknowledge | w.Resolve):
        _tell_anew(run_dir, wish.incident)  # the run is free again: that takes seconds
    return answer


def _tell_anew(run_dir: Path, incident: int) -> None:
    """The incident's report, which is what a page links to. It may fail, and the answer stands all the same."""
    try:
        from sentinel.report.html.writing import report_command  # here, because jinja2 takes its time to load

        report_command(run_dir, incident, None, with_texts=False)
    except (SentinelError, OSError) as error:
        print(f"{run_dir}: the report of incident {incident} is as it was ({error}); "
              f"`sentinel report {run_dir} {incident}` writes it", file=sys.stderr)  # fmt: skip


class _Answering:
    """The engine of a run that is not supervised, and the journal it may write for a moment."""

    def __init__(self, run_dir: Path, session: RunSession, engine: Engine) -> None:
        self._session = session
        self._engine = engine
        self.clock = SystemClock(session.journal.last_at_s())
        engine.restore(session.journal.read_entries())
        if not engine.state.run_id:
            raise UsageError(f"{run_dir}: nothing is recorded of this run yet; start it with `sentinel run`")

    def ask(self, by: str, wish: w.Wish) -> WishAnswered:
        facts = self._tell(WishReading(uuid.uuid4().hex[:12], by, wish))
        return next(fact for fact in facts if isinstance(fact, WishAnswered))

    def send(self, deliver: Callable[[SendPage], str], within_s: float) -> None:
        """Everything decided and not yet sent, each as often as there is time for it; the rest stays decided."""
        wake, end_s = threading.Event(), self.clock.now_s() + within_s
        runner = ThreadRunner({SendPage: cast(Handler, deliver)}, wake)
        due_s: dict[str, float] = {}  # by key: when it may be tried, infinity while it is
        while (left := self.pages()) and (now_s := self.clock.now_s()) < end_s:
            for page in left:
                if due_s.setdefault(page.key, now_s) <= now_s:
                    due_s[page.key] = math.inf
                    runner.submit(page)
            self.clock.wait(wake, min(end_s, *(due_s[page.key] for page in left)) - now_s)
            wake.clear()
            for outcome in runner.outcomes():
                if isinstance(outcome, ActionFailed) and outcome.retry_in_s is not None:
                    due_s[outcome.key] = self.clock.now_s() + min(outcome.retry_in_s, RETRY_MAX_S)
                else:
                    self._tell(outcome)
        runner.close(0.0)

    def pages(self) -> list[SendPage]:
        return [action for action in self._engine.state.pending.values() if isinstance(action, SendPage)]

    def _tell(self, event: Event) -> tuple[Fact, ...]:
        now_s = self.clock.now_s()
        facts = self._engine.handle(now_s, event)
        if facts:
            self._session.journal.append(now_s, facts, self._session.epoch)
        return facts


def _heard(*_: object) -> None:
    """A silence in Alertmanager is for whoever supervises to take for an acknowledgement."""


def _load_policy(run_dir: Path) -> Policy:
    """The run's own, with the routes that its command line asked for; where its file is gone or was changed since, the
    default's."""
    run = read_run_file(run_dir)
    try:
        policy = load_policy(shipped_policy_path(run.policy.path))
    except PolicyError:
        policy = load_policy(shipped_policy_path("default"))
    return lay_routes(policy, run.pages)
