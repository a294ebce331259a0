"""The pages of a standby: what it cannot do with the run that it took over, and a lease that it cannot read.

Each is sent by a thread of its own, and nothing waits for it.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from pathlib import Path

from sentinel.clock import SystemClock
from sentinel.errors import PolicyError, UsageError
from sentinel.policy.schema_paging import Paging
from sentinel.supervisor.journal_outage import say
from sentinel.supervisor.own_pages import OwnPage, Stage, send_own_page
from sentinel.supervisor.ruled import rule_run
from sentinel.supervisor.run_request import RunRequest


def page_what_it_lacks(run_dir: Path, run: str, paging: Paging, lacks: str) -> None:
    """A person is needed: the run has a supervisor that cannot repair it."""
    if not lacks:
        return
    title = f"{run}: a standby on {socket.gethostname()} has taken the run over, and does not reach its ranks"
    answers = (f"sentinel status {run_dir}", f"sentinel agent {run_dir}")
    page = OwnPage("standby_without_reach", "what the standby cannot do", title, answers, topic="standby")
    _begin_sending(lambda: _send(run_dir, run, paging, page, "trigger", f"{lacks}."))


def page_unread_lease(request: RunRequest, run_dir: Path, stage: Stage, text: str) -> None:
    """By the routes of the policy that the standby would supervise under."""

    def send() -> None:
        try:
            ruled = rule_run(request, run_dir, SystemClock().wall_s())
        except (UsageError, PolicyError) as error:
            say(f"{run_dir}: nobody can be called about the lease: {error}")
            return
        run = ruled.run_file.id
        title = f"{run}: a standby on {socket.gethostname()} cannot tell whether the run has a supervisor"
        answers = (f"sentinel status {run_dir}", f"sentinel run --run-dir {run_dir}")
        page = OwnPage("lease_unreadable", "the lease that cannot be read", title, answers, topic="lease")
        _send(run_dir, run, ruled.policy.spec.paging, page, stage, text)

    _begin_sending(send)


def _begin_sending(send: Callable[[], None]) -> None:
    threading.Thread(target=send, name="sentinel-standby-page", daemon=True).start()


def _send(run_dir: Path, run: str, paging: Paging, page: OwnPage, stage: Stage, text: str) -> None:
    for route in paging.routes:
        send_own_page(run_dir, run, route, page, stage, text, SystemClock().wall_s(), say)
