"""What the next attempt runs is read before its launch, and what was read serves that launch alone, while it is fresh."""

from __future__ import annotations

import threading
from collections.abc import Callable

from sentinel.launcher.environment import LaunchQuestion
from sentinel.launcher.read_ahead import FRESH_S, ReadAhead
from sentinel.model.environment import Environment

QUESTION = LaunchQuestion(("python", "train.py"), "/work")


def environment(name: str) -> Environment:
    return Environment((), (), name, (), (), (), ())


class Subject:
    """Reads are numbered. Threads run when they are let."""

    def __init__(self, fails: bool = False) -> None:
        self.now_s = 0.0
        self.reads = 0
        self.waiting: list[Callable[[], None]] = []
        self.ahead = ReadAhead(QUESTION, self.start, self.read, lambda: self.now_s)
        self.fails = fails

    def start(self, run: Callable[[], None], name: str) -> threading.Thread:
        self.waiting.append(run)
        return threading.current_thread()

    def read(self, question: LaunchQuestion) -> Environment:
        self.reads += 1
        if self.fails and self.reads == 1:
            raise OSError("a disk that says no")
        return environment(f"read {self.reads}")

    def begun(self) -> Subject:
        self.ahead.begin()
        self.waiting.pop()()
        return self


def test_it_is_read_once_for_all_acts_of_a_plan_and_serves_its_launch() -> None:
    subject = Subject().begun()
    subject.ahead.begin()
    assert subject.waiting == []
    assert subject.ahead.environment(QUESTION) == environment("read 1")
    assert subject.reads == 1


def test_the_next_launch_reads_anew() -> None:
    subject = Subject().begun()
    subject.ahead.environment(QUESTION)
    assert subject.ahead.environment(QUESTION) == environment("read 2")


def test_what_has_become_old_is_read_again_by_whoever_begins_and_by_the_launch() -> None:
    subject = Subject().begun()
    subject.now_s = FRESH_S + 0.1
    assert subject.ahead.environment(QUESTION) == environment("read 2")
    subject.begun()
    subject.now_s += FRESH_S + 0.1
    subject.begun()
    assert subject.ahead.environment(QUESTION) == environment("read 4")


def test_an_answer_to_another_question_is_none() -> None:
    subject = Subject().begun()
    assert subject.ahead.environment(LaunchQuestion(("python", "other.py"), "/work")) == environment("read 2")


def test_a_launch_waits_for_what_is_being_read() -> None:
    subject = Subject()
    subject.ahead.begin()
    (run,) = subject.waiting
    reader = threading.Thread(target=run)
    found: list[Environment] = []
    launch = threading.Thread(target=lambda: found.append(subject.ahead.environment(QUESTION)))
    launch.start()
    reader.start()
    launch.join(30.0)
    assert found == [environment("read 1")]


def test_a_read_that_failed_is_the_launchs_to_make() -> None:
    assert Subject(fails=True).begun().ahead.environment(QUESTION) == environment("read 2")


def test_without_threads_the_launch_reads() -> None:
    def none_left(run: Callable[[], None], name: str) -> threading.Thread:
        raise RuntimeError("can't start new thread")

    subject = Subject()
    ahead = ReadAhead(QUESTION, none_left, subject.read, lambda: 0.0)
    ahead.begin()
    assert ahead.environment(QUESTION) == environment("read 1")
