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
from collections.abc import Callable, Container, Mapping
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import cast

from sentinel.actions.runner import Handler, ThreadRunner, carry_out
from sentinel.channels.opening import problems_of
from sentinel.clock import SystemClock
from sentinel.engine import Engine
from sentinel.errors import PolicyError, SentinelError, UsageError
from sentinel.journal.answering import answering
from sentinel.journal.lost_history import refuse_no_journal
from sentinel.journal.run_file import read_run_file, write_run_file
from sentinel.journal.session import RunSession, take_run
from sentinel.model import operator_requests as w
from sentinel.model.actions import Action, LoadPolicy, SendPage, policy_key
from sentinel.model.events import ActionFailed, Event
from sentinel.model.facts import Fact, RequestAnswered
from sentinel.model.readings import RequestReading
from sentinel.model.records import LoadedPolicy
from sentinel.operator.applied import find_applied
from sentinel.operator.applying import load_wanted
from sentinel.paging.asked import lay_routes
from sentinel.paging.desk import Desk, Ways
from sentinel.policy.schema import Policy
from sentinel.policy_files.loading import load_policy, shipped_policy_path
from sentinel.report.masked import run_masking
from sentinel.report.summary import leave_report

ANSWERS = (w.Acknowledge, w.Resolve, w.Remark, w.ApplyPolicy)  # what changes nothing that trains
SEND_S = 20.0  # the person waits meanwhile; what could not be sent is sent by whoever starts the run again
RETRY_MAX_S = 2.0


def answer_unattended(run_dir: Path, by: str, request: w.OperatorRequest, within_s: float = SEND_S) -> RequestAnswered:
    """Let the engine answer, and send what is due.

    Raises:
        AlreadySupervised: somebody has taken the run since; ask them.
        UsageError, JournalError, RetryLater: the run cannot be taken, or its journal not be written.
    """
    refuse_no_journal(run_dir)
    with answering(run_dir), take_run(run_dir) as session:
        policy, unread = load_run_policy(run_dir)
        engine = Engine(policy, masking=run_masking(run_dir))
        answering_run = _Answering(run_dir, session, engine)
        answer = answering_run.ask(by, request)
        if answer.granted and isinstance(request, w.ApplyPolicy):
            _name_applied(run_dir)
        # An engine whose policy was replaced decides nothing more: what is still to be sent goes out at the next start.
        if answering_run.pages() and not engine.is_outdated:
            # those that an earlier leaver could not send among them, whatever was answered now
            ways = Ways(lambda: engine.state, _ignore)
            with closing(Desk(run_dir, engine.policy.spec.paging, ways, answering_run.clock)) as desk:
                answering_run.send(desk.courier.send, within_s, answering_run.out_of_reach(unread))
        answering_run.print_undelivered(unread)
        if engine.state.ended:
            leave_report(run_dir, engine.state, answering_run.clock.now_s())
    if answer.granted and isinstance(request, w.Acknowledge | w.Resolve):
        _rewrite_report(run_dir, request.incident)  # the run is free again: that takes seconds
    return answer


def _name_applied(run_dir: Path) -> None:
    """In run.json, as a supervisor does that applies one: whoever answers or shows the run reads there which policy is its own.
    It may fail, and the answer stands all the same: the next start goes by the journal."""
    try:
        run = read_run_file(run_dir)
        applied = find_applied(run_dir, run)
        write_run_file(run_dir, run if applied is None else replace(run, policy=applied))
    except (SentinelError, OSError) as error:
        _print(f"{run_dir}: run.json names the policy of before ({error}); the next `sentinel run` writes it anew")


def _rewrite_report(run_dir: Path, incident: int) -> None:
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
        self._run_dir = run_dir
        self._session = session
        self._engine = engine
        self._why: dict[str, str] = {}  # by key of a page: why it is not out
        self._given_up: dict[str, str] = {}
        self.clock = SystemClock(session.journal.last_at_s())
        engine.restore(session.journal.read_entries())
        if not engine.state.run_id:
            raise UsageError(f"{run_dir}: nothing is recorded of this run yet; start it with `sentinel run`")

    def ask(self, by: str, request: w.OperatorRequest) -> RequestAnswered:
        number = uuid.uuid4().hex[:12]
        facts = self._handle(RequestReading(number, by, request, is_attended=False))
        if (action := self._engine.state.pending.get(policy_key(number))) is not None:
            facts = self._handle(carry_out({LoadPolicy: self._load}, action))
        return next(fact for fact in facts if isinstance(fact, RequestAnswered))

    def _load(self, action: Action) -> LoadedPolicy:
        assert isinstance(action, LoadPolicy)
        return load_wanted(self._run_dir, action, checks_routes=False)  # the secrets are the supervisor's, and not here

    def out_of_reach(self, unread: str) -> dict[str, str]:
        """Routes that cannot be served from here, with the reason. A secret of the supervisor's is not in everybody's
        environment, and what is tried without it would be given up for good."""
        routes = self._engine.policy.spec.paging.routes
        found = {route.name: "; ".join(wrong) for route in routes if (wrong := problems_of(route))}
        known = {route.name for route in routes}
        strange = {page.route for page in self.pages() if page.route and page.route not in known} if unread else set()
        return found | dict.fromkeys(strange, unread)

    def send(self, deliver: Callable[[SendPage], str], within_s: float, out_of_reach: Mapping[str, str]) -> None:
        """Everything decided and not yet sent, each as often as there is time for it; the rest stays decided."""
        self._why = {page.key: out_of_reach[page.route] for page in self.pages() if page.route in out_of_reach}
        wake, end_s = threading.Event(), self.clock.now_s() + within_s
        runner = ThreadRunner({SendPage: cast(Handler, deliver)}, wake)
        due_s: dict[str, float] = {}  # by key: when it may be tried, infinity while it is
        while (left := self.pages(out_of_reach)) and (now_s := self.clock.now_s()) < end_s:
            for page in left:
                if due_s.setdefault(page.key, now_s) <= now_s:
                    due_s[page.key] = math.inf
                    runner.submit(page)
            self.clock.wait(wake, min(end_s, *(due_s[page.key] for page in left)) - now_s)
            wake.clear()
            for outcome in runner.outcomes():
                if isinstance(outcome, ActionFailed):
                    why = self._given_up if outcome.retry_in_s is None else self._why
                    why[outcome.key] = outcome.reason
                if isinstance(outcome, ActionFailed) and outcome.retry_in_s is not None:
                    due_s[outcome.key] = self.clock.now_s() + min(outcome.retry_in_s, RETRY_MAX_S)
                else:
                    self._handle(outcome)
        runner.close(0.0)

    def print_undelivered(self, unread: str) -> None:
        """The person was told that it is answered, and must know which routes that has not reached."""
        if unread:
            _print(f"{self._run_dir}: {unread}: whom its own routes have called is told when the run is started again with it")
        for page in self.pages():
            later = "it goes out with the next answer, or when the run is started again"
            why = self._why.get(page.key, "there was no answer in time")
            _print(f"{self._run_dir}: route {page.route}: {page.stage} is not out: {why}; {later}")
        for key, why in self._given_up.items():
            _print(f"{self._run_dir}: {key} could not be delivered: {why}")

    def pages(self, but_on: Container[str] = ()) -> list[SendPage]:
        """Decided and not yet sent."""
        pages = [action for action in self._engine.state.pending.values() if isinstance(action, SendPage)]
        return [page for page in pages if page.route not in but_on]

    def _handle(self, event: Event) -> tuple[Fact, ...]:
        now_s = self.clock.now_s()
        facts = self._engine.handle(now_s, event)
        if facts:
            self._session.journal.append(now_s, facts, self._session.epoch)
        return facts


def _ignore(*_: object) -> None:
    """A silence in Alertmanager is for whoever supervises to take for an acknowledgement."""


def _print(words: str) -> None:
    with suppress(OSError, ValueError):
        print(words, file=sys.stderr)


def load_run_policy(run_dir: Path) -> tuple[Policy, str]:
    """The run's own, with the routes that its command line asked for; where its file is gone or can no longer be read, the
    default's, and why."""
    run, unread = read_run_file(run_dir), ""
    try:
        policy = load_policy(shipped_policy_path(run.policy.path))
    except PolicyError:
        unread = f"its policy {run.policy.path} is gone, or no policy any more"
        policy = load_policy(shipped_policy_path("default"))
    return lay_routes(policy, run.pages), unread
