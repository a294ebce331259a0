"""The ledger: every second of a run is accounted for exactly once, whatever became of the run."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sentinel.engine import evolve
from sentinel.engine.goodput import ACCOUNTS, account, surviving_steps
from sentinel.model import actions as a
from sentinel.model import facts as f
from sentinel.model.attempts import ResumePoint, SettingsInForce
from sentinel.model.findings import Kind
from sentinel.model.state import ATTEMPTS_KEPT, RunState
from tests.builders import Bench
from tests.unit.engine.test_evolve import incident


def fold(*told: tuple[float, f.Fact]) -> RunState:
    state = RunState()
    for at_s, fact in told:
        state = evolve(state, at_s, fact)
    return state


def launch(number: int, step: int = 0) -> f.AttemptLaunched:
    return f.AttemptLaunched(number, ResumePoint(step, "p") if step else None, SettingsInForce(), "test")


def saved(number: int, step: int, seconds: float = 0.0) -> f.CheckpointCommitted:
    return f.CheckpointCommitted(number, step, "p", 0, f"{number}-{step}", seconds)


def due(number: int, not_before_s: float) -> f.ActionDecided:
    return f.ActionDecided(a.StartAttempt(f"start/{number}", number, None, SettingsInForce(), not_before_s))


FIRST = ((0.0, launch(1)), (10.0, f.ReceiptSeen(1, 0, 2)))


@pytest.mark.parametrize(
    ("told", "now_s", "wanted"),
    [
        ((), 50.0, {}),
        (FIRST[:1], 50.0, {"waiting": 50}),
        (FIRST, 50.0, {"waiting": 10, "training": 40}),
        ((*FIRST, (30.0, saved(1, 50, 4.0))), 50.0, {"waiting": 10, "training": 36, "checkpointing": 4}),
        (  # killed at 60, seen at 62, goes on from the checkpoint reached at 30
            (*FIRST, (30.0, saved(1, 50, 4.0)), (62.0, f.AttemptEnded(1, "crashed", "x", 80, 60.0)), (63.0, launch(2, 50)),
             (70.0, f.ReceiptSeen(2, 50, 2))), 90.0,
            {"waiting": 10, "training": 16 + 20, "checkpointing": 4, "replay": 30, "detection": 2, "recovery": 8},
        ),
        (  # the same, under a backoff of 5 s
            (*FIRST, (62.0, f.AttemptEnded(1, "crashed", "x", 80, 60.0)), (62.0, launch(2)),
             (62.0, due(2, 67.0)), (70.0, f.ReceiptSeen(2, 0, 2))), 90.0,
            {"waiting": 15, "training": 20, "replay": 50, "detection": 2, "recovery": 3},
        ),
        (  # hung at 60, its end decided at 80
            (*FIRST, (80.0, f.AttemptStopping(1, "hang")), (82.0, f.AttemptEnded(1, "stopped", "x", 80, 60.0)),
             (83.0, launch(2)), (90.0, f.ReceiptSeen(2, 0, 2))), 95.0,
            {"waiting": 10, "training": 5, "replay": 50, "detection": 20, "recovery": 10},
        ),
        (  # its end was decided at 80, and a process survives SIGKILL: that is no training
            (*FIRST, (80.0, f.AttemptStopping(1, "hang"))), 500.0, {"waiting": 10, "training": 70, "recovery": 420},
        ),
        (  # a person's stop, decided at 60, is still being carried out
            (*FIRST, (60.0, f.StopAsked("SIGTERM")), (60.0, f.AttemptStopping(1, "stopped by SIGTERM"))), 70.0,
            {"waiting": 10, "training": 50, "checkpointing": 10},
        ),
        (  # stopped by a person at 60: what follows its last step is its checkpoint, and the night is waiting
            (*FIRST, (60.0, f.StopAsked("SIGTERM")), (60.0, f.AttemptStopping(1, "stopped by SIGTERM")),
             (70.0, f.AttemptEnded(1, "stopped", "x", 80, 62.0)),
             (70.0, f.RunEnded("stopped", "x")), (500.0, launch(2, 80)), (510.0, f.ReceiptSeen(2, 80, 2))), 520.0,
            {"waiting": 440, "training": 62, "checkpointing": 8, "recovery": 10},
        ),
        (  # failed at 62, started again by a person at 500: nobody repaired anything meanwhile
            (*FIRST, (62.0, f.AttemptEnded(1, "crashed", "x", 80, 60.0)), (62.0, f.RunEnded("failed", "x")), (500.0, launch(2)),
             (510.0, f.ReceiptSeen(2, 0, 2))), 520.0,
            {"waiting": 448, "training": 10, "replay": 50, "detection": 2, "recovery": 10},
        ),
        (  # held, and still held
            (*FIRST, (62.0, f.AttemptEnded(1, "crashed", "x", 80, 60.0)), (63.0, f.Held("x"))), 100.0,
            {"waiting": 47, "training": 50, "detection": 2, "recovery": 1},
        ),
        (  # a finished run stands still
            (*FIRST, (60.0, f.AttemptEnded(1, "finished", "x", 80, 58.0)), (60.0, f.RunEnded("finished", "x"))), 900.0,
            {"waiting": 10, "training": 48, "checkpointing": 2},
        ),
        (  # died after its receipt and before its first step: that is no training
            (*FIRST, (40.0, f.AttemptEnded(1, "crashed", "x", 0, 10.0)), (41.0, launch(2))), 50.0,
            {"waiting": 10, "detection": 30, "recovery": 10},
        ),
    ],
)  # fmt: skip
def test_each_second_has_its_account(told: tuple[tuple[float, f.Fact], ...], now_s: float, wanted: dict[str, float]) -> None:
    ledger = account(fold(*told), now_s)
    assert dict(ledger.seconds) == pytest.approx(dict.fromkeys(ACCOUNTS, 0.0) | wanted)
    assert ledger.total_s == pytest.approx(sum(wanted.values()))


def test_before_an_end_that_does_not_come_the_last_step_ends_training() -> None:
    """It hung at 50, which was believed at 80."""
    seconds = account(fold(*FIRST, (80.0, f.AttemptStopping(1, "hang"))), 500.0, 50.0).seconds
    assert dict(seconds) == dict.fromkeys(ACCOUNTS, 0.0) | {"waiting": 10, "training": 40, "detection": 30, "recovery": 420}


STOP = ((180.0, f.StopAsked("ada")), (180.0, f.AttemptStopping(1, "stopped by ada")))
GONE = ((190.0, f.AttemptEnded(1, "stopped", "x", 51, 60.0)), (190.0, f.RunEnded("stopped", "x")))


def hang_at(step: int) -> f.IncidentOpened:
    return f.IncidentOpened(replace(incident(kind=Kind.HANG), detected_step=step))


def test_a_hang_that_a_person_ended_was_no_checkpoint() -> None:
    """No step after 60, which is believed at 90. Somebody stops it at 180, and it is gone at 190."""
    wanted = dict.fromkeys(ACCOUNTS, 0.0) | {"waiting": 10, "training": 50, "detection": 120, "recovery": 10}
    hangs = (*FIRST, (90.0, hang_at(51)), *STOP)
    assert dict(account(fold(*hangs, *GONE), 900.0).seconds) == pytest.approx(wanted)
    assert dict(account(fold(*hangs), 190.0, 60.0).seconds) == pytest.approx(wanted), "while the stop is being carried out"


def test_an_old_row_alone_is_no_hang() -> None:
    """A trainer may write one every hundred steps: those behind the last are not lost, and nothing says that there were none."""
    wanted = dict.fromkeys(ACCOUNTS, 0.0) | {"waiting": 10, "training": 50, "checkpointing": 130}
    for before in ((), ((30.0, hang_at(20)),)):  # one that went on by itself, long before
        assert dict(account(fold(*FIRST, *before, *STOP, *GONE), 900.0).seconds) == pytest.approx(wanted)


def test_goodput_is_training_over_the_whole_and_nothing_before_anything_was_trained() -> None:
    assert account(fold(*FIRST), 50.0).goodput_ratio == pytest.approx(0.8)
    assert account(RunState(), 50.0).goodput_ratio == 0.0


def test_a_step_survives_until_something_later_resumes_below_it() -> None:
    state = fold((0, launch(1)), (1, launch(2, 100)), (2, launch(3, 50)), (3, launch(4, 80)))
    assert surviving_steps(state.attempts) == (50, 50, 80, float("inf"))


spans = st.floats(0, 1e4, allow_nan=False)


@st.composite
def histories(draw: st.DrawFn) -> tuple[RunState, float]:
    """Any sequence of attempts: some never answer, some save, some are stopped, some end, some stand idle afterwards."""
    at_s, state, reached = 1e6, RunState(), 0
    for number in range(1, draw(st.integers(1, 7))):
        resume = draw(st.integers(0, reached))
        state = evolve(state, at_s, launch(number, resume))
        if draw(st.booleans()):
            state = evolve(state, at_s, due(number, at_s + draw(spans)))
        at_s += draw(spans)
        if draw(st.booleans()):
            state = evolve(state, at_s, f.ReceiptSeen(number, draw(st.integers(0, resume)), 2))
            for step in sorted(draw(st.sets(st.integers(1, 400), max_size=4))):
                at_s += draw(spans)
                state = evolve(state, at_s, saved(number, resume + step, draw(spans)))
                reached = max(reached, resume + step)
        at_s += draw(spans)
        if draw(st.booleans()):
            by = draw(st.sampled_from(["x", ""]))
            state = evolve(state, at_s, f.StopAsked(by)) if by else state
            state = evolve(state, at_s, f.AttemptStopping(number, f"stopped by {by}" if by else "a plan"))
            at_s += draw(spans)
        if draw(st.booleans()):
            outcome = draw(st.sampled_from(["finished", "stopped", "crashed", "killed", "lost"]))
            last_s = at_s - draw(spans)
            at_s += draw(spans)
            state = evolve(state, at_s, f.AttemptEnded(number, outcome, "x", draw(st.integers(0, 900)), last_s))
            if draw(st.booleans()):
                end = draw(st.sampled_from([f.Held("x"), f.RunEnded("failed", "x"), f.RunEnded("finished", "x")]))
                state = evolve(state, at_s, end)
                at_s += draw(spans)
                state = replace(state, ended="", held="")
        at_s += draw(spans)
    if draw(st.booleans()):
        state = replace(state, ended=draw(st.sampled_from(["", "failed", "finished"])))
    return state, at_s + draw(spans)


@given(histories())
@settings(max_examples=400, deadline=None)
def test_the_parts_sum_to_the_whole_for_every_history(history: tuple[RunState, float]) -> None:
    state, now_s = history
    ledger = account(state, now_s)
    assert tuple(ledger.seconds) == ACCOUNTS
    assert all(value >= -1e-6 for value in ledger.seconds.values())
    assert sum(ledger.seconds.values()) == pytest.approx(ledger.total_s, abs=1e-6)
    if state.attempts and not state.ended:
        assert ledger.total_s == pytest.approx(now_s - state.attempts[0].launched_s, abs=1e-6)
    assert 0.0 <= ledger.goodput_ratio <= 1.0 + 1e-9


def test_attempts_too_old_to_keep_keep_their_seconds() -> None:
    told: list[tuple[float, f.Fact]] = []
    for number in range(1, ATTEMPTS_KEPT + 30):
        at_s = number * 100.0
        told += [
            (at_s, launch(number, 10 * (number - 1))),
            (at_s + 10, f.ReceiptSeen(number, 10 * (number - 1), 2)),
            (at_s + 60, saved(number, 10 * number, 3.0)),
            (at_s + 92, f.AttemptEnded(number, "crashed", "x", 10 * number + 5, at_s + 90)),
        ]
    state = fold(*told)
    ledger = account(state, told[-1][0] + 8)
    count = ATTEMPTS_KEPT + 29
    assert (len(state.attempts), state.archive.attempts) == (ATTEMPTS_KEPT, 29)
    assert ledger.total_s == pytest.approx(100.0 * count)
    assert sum(ledger.seconds.values()) == pytest.approx(ledger.total_s)
    assert ledger.seconds["checkpointing"] == pytest.approx(3.0 * count)
    assert ledger.seconds["training"] == pytest.approx(47.0 * count + 30.0)
    assert ledger.seconds["waiting"] == pytest.approx(10.0)


def test_a_real_history_adds_up_at_every_moment() -> None:
    bench = Bench().launched()
    bench.steps(1, 50).checkpoint(50)
    bench.steps(51, 70).steps(71, 78, loss=8.0)
    bench.launched().steps(51, 140).exits(signal=9)
    bench.launched(receipt=False).beat("init").exits(code=1).launched().steps(51, 60)
    bench.wants_stop()
    bench.exits(code=6)
    state = RunState()
    for entry in bench.entries:
        state = evolve(state, entry.at_s, entry.fact)
        ledger = account(state, entry.at_s)
        assert sum(ledger.seconds.values()) == pytest.approx(ledger.total_s)
    assert all(ledger.seconds[name] > 0 for name in ("training", "replay", "recovery", "waiting"))
