"""What a launch would wait for is begun with the first act of a plan that ends in one, and with no other."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import cast

import pytest

from sentinel.actions.runner import Handler
from sentinel.journal import codec, dataclass_codec
from sentinel.launcher.made_ahead import MadeAhead
from sentinel.launcher.ready_keeper import ReadyKeeper
from sentinel.model.actions import Action, Capture, SendPage, StartAttempt, WriteOverrides
from sentinel.model.attempts import SettingsInForce
from sentinel.model.state import PlanInProgress, RunState
from sentinel.supervisor.before_launch import BeforeLaunch
from sentinel.supervisor.ruled import Ruled

START = StartAttempt("start/2", 2, None, SettingsInForce())
CAPTURE = Capture("capture/1/2", 1, 1)
LIVE = WriteOverrides("overrides/1", 1, SettingsInForce())
PAGE = SendPage("page/1/1/trigger/", 1, "critical", "t", "x")


class Begun(MadeAhead):
    def __init__(self) -> None:
        super().__init__()
        self.times = 0

    def begin(self) -> None:
        self.times += 1


class Run:
    command, cwd, code = ("python", "train.py"), "/work", ()


class Ruling:
    run_dir, run_file = Path("/run"), Run()

    def __init__(self, has_profile: bool) -> None:
        self.profile = object() if has_profile else None


class Subject:
    def __init__(self, *plan: Action, has_profile: bool = False) -> None:
        self.made, self.threads, self.done = Begun(), list[str](), list[Action]()
        state = RunState(plan=PlanInProgress(1, plan) if plan else None)
        before = BeforeLaunch(self.made, cast(Ruled, Ruling(has_profile)), lambda: state, frozenset(), self.start)
        kinds = (StartAttempt, Capture, WriteOverrides, SendPage)
        plain = cast(Mapping[type[Action], Handler], dict.fromkeys(kinds, self.do))
        self.acts = before.around(plain)

    def start(self, run: Callable[[], None], name: str) -> threading.Thread:
        self.threads.append(name)
        return threading.current_thread()

    def do(self, action: Action) -> str:
        self.done.append(action)
        return "done"

    def act(self, action: Action) -> Subject:
        assert self.acts[type(action)](action) == "done"
        return self


def test_the_first_act_of_a_relaunch_begins_both() -> None:
    subject = Subject(CAPTURE, START).act(CAPTURE)
    assert (subject.made.times, len(subject.threads)) == (1, 1)
    assert subject.done == [CAPTURE]


def test_a_change_to_the_living_attempt_a_page_and_an_act_without_a_plan_begin_nothing() -> None:
    for subject in (Subject(LIVE).act(LIVE), Subject(CAPTURE, START).act(PAGE), Subject().act(CAPTURE)):
        assert (subject.made.times, subject.threads) == (0, [])


def test_what_a_trainer_under_a_profile_runs_is_read_at_its_launch() -> None:
    subject = Subject(CAPTURE, START, has_profile=True).act(CAPTURE)
    assert (subject.made.times, subject.threads) == (1, [])


def test_what_a_recovery_would_build_is_built_once_when_the_run_has_settled() -> None:
    is_done, times = threading.Event(), list[int]()

    def prepare() -> None:
        times.append(1)
        is_done.set()

    made = MadeAhead(prepare=prepare)
    made.look(0.0, 1, is_settled=False)
    assert times == []
    made.look(1.0, 1, is_settled=True)
    assert is_done.wait(30.0)
    made.look(2.0, 1, is_settled=True)
    assert times == [1]


def test_every_fact_has_its_codec_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    codec.prepare()
    built: list[type] = []
    plain = dataclass_codec._dataclass_codec
    monkeypatch.setattr(dataclass_codec, "_dataclass_codec", lambda cls: built.append(cls) or plain(cls))
    for cls in codec._FACTS.values():
        codec.codec_of(cls)
    assert built == []


def test_a_closed_ready_keeper_starts_none() -> None:
    ready = ReadyKeeper()
    ready.close()
    ready.begin()
    assert ready._held is None
