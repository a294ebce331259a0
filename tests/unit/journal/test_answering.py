"""Who only answers a page holds the run for some seconds, and is not taken for its supervisor."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from sentinel.channels.terminal import Terminal
from sentinel.errors import AlreadySupervised
from sentinel.journal.answering import answering, is_being_answered
from sentinel.journal.session import take_run
from sentinel.model import operator_requests as w
from sentinel.operator.unattended import answer_unattended
from sentinel.supervisor import app as supervising
from tests.unit.operator.test_unattended import failed_run, pages_left


def test_the_sign_stands_while_somebody_answers_and_several_may(tmp_path: Path) -> None:
    assert not is_being_answered(tmp_path)
    with answering(tmp_path), answering(tmp_path):
        assert is_being_answered(tmp_path)
    assert not is_being_answered(tmp_path)
    with answering(tmp_path / "nowhere"):
        assert not is_being_answered(tmp_path / "nowhere"), "a sign that cannot be given keeps nobody from answering"


def test_who_comes_to_supervise_meanwhile_waits_for_the_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Refused, it would leave with 2, and systemd would start nobody any more."""
    run_dir = failed_run(tmp_path)
    under_way, refused = threading.Event(), threading.Event()

    def deliver(*_: object) -> str:
        under_way.set()
        assert refused.wait(20.0)
        return "printed"

    def watch(*_: object) -> int:
        try:
            with take_run(run_dir):
                return 0
        except AlreadySupervised:
            refused.set()
            raise

    monkeypatch.setattr(Terminal, "deliver", deliver)
    monkeypatch.setattr(supervising, "_watch", watch)
    answerer = threading.Thread(target=answer_unattended, args=(run_dir, "ada", w.Acknowledge(2)))
    answerer.start()
    assert under_way.wait(20.0)
    assert is_being_answered(run_dir)
    # A process is never refused by a lease of its own, and the lock stands in the way all the same.
    assert supervising.supervise(supervising.RunRequest(run_dir, "demo", (), "/")) == 0
    answerer.join(20.0)
    assert (refused.is_set(), is_being_answered(run_dir), pages_left(run_dir)) == (True, False, [])
