"""One word for each checkpoint, and the same word for the same facts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sentinel.model.attempts import ResumePoint, SettingsInForce
from sentinel.model.findings import Kind
from sentinel.model.incidents import Incident, IncidentState, Outcome, Remedy, Try
from sentinel.model.state import Attempt, Checkpoint, Mark, RunState
from sentinel.plan.ahead import AHEAD_STEPS, ReportedProgress
from sentinel.plan.rollback import choose_newest
from sentinel.plan.sparing import choose_spared
from sentinel.plan.trust import judge_trust
from tests.builders import build_policy

PROBATION = 60


def checkpoint(step: int, attempt: int = 1, **more: object) -> Checkpoint:
    return replace(Checkpoint(step, f"checkpoints/step-{step:08d}", attempt, step * 16, f"{attempt}-{step}"), **more)  # type: ignore[arg-type]


def attempt(number: int, last: int, resumed: int = 0, over: bool = True) -> Attempt:
    resume = ResumePoint(resumed, "", None) if resumed else None
    made = Attempt(
        number, 0.0, resume, SettingsInForce(), "x", resumed_step=resumed, first_step=resumed + 1, last_step=last if over else 0
    )
    return replace(made, ended_s=1.0 if over else None)


def incident(onset: int, state: IncidentState = IncidentState.OPEN, attempt: int = 1, **more: object) -> Incident:
    found = Incident(1, Kind.SPIKE, "critical", "A", "numeric", attempt, onset, onset + 2, onset + 4, 0.0, 0.0, "x", state)
    return replace(found, **more)  # type: ignore[arg-type]


def words(state: RunState, probation: int | None = PROBATION, newest: int | None = None) -> dict[int, str]:
    return {trust.checkpoint.step: trust.word for trust in judge_trust(state, probation, newest)}


def run(
    *attempts: Attempt, checkpoints: tuple[Checkpoint, ...], incidents: tuple[Incident, ...] = (), **more: object
) -> RunState:
    return replace(RunState(attempts=attempts, checkpoints=checkpoints, incidents=incidents), **more)  # type: ignore[arg-type]


SAVED = tuple(checkpoint(step) for step in (25, 50, 75, 100))


def test_what_was_never_looked_at_is_a_candidate_and_what_held_is_verified() -> None:
    state = run(attempt(1, 30), checkpoints=(checkpoint(25), checkpoint(30, verified="3 files match")))
    assert words(state) == {25: "candidate", 30: "verified"}
    assert judge_trust(state, PROBATION)[1].reason == "3 files match"


@pytest.mark.parametrize(("last", "proven"), [(84, []), (85, [25]), (134, [25, 50]), (160, [25, 50, 75, 100])])
def test_proven_is_a_probations_length_of_training_beyond_it(last: int, proven: list[int]) -> None:
    assert [step for step, word in words(run(attempt(1, last), checkpoints=SAVED)).items() if word == "proven"] == proven


def test_the_living_attempt_proves_by_its_stream_and_without_it_nothing() -> None:
    state = run(marked(attempt(1, 0, over=False), 25, 50, 75, 100, 125), checkpoints=SAVED)
    assert words(state, newest=112)[50] == "proven"
    assert words(state, newest=None)[50] == "candidate"


def test_steps_that_nobody_saw_prove_nothing_however_many_checkpoints_lie_behind_them() -> None:
    """A profile from which no row comes, or whose rows stopped: what was saved later was called 'without harm'."""
    blind = run(replace(marked(attempt(1, 0), 25, 50, 75, 100, 180), first_step=None), checkpoints=SAVED)
    assert set(words(blind).values()) == {"candidate"}
    stopped = run(marked(attempt(1, 40), 25, 50, 75, 100, 139), checkpoints=SAVED)
    assert set(words(stopped).values()) == {"candidate"}


def test_without_the_policy_nothing_is_proven() -> None:
    assert set(words(run(attempt(1, 900), checkpoints=SAVED), probation=None).values()) == {"candidate"}


@pytest.mark.parametrize("state", [IncidentState.OPEN, IncidentState.PROBATION])
def test_at_or_after_an_onset_that_is_not_closed_it_is_suspect_and_steps_after_it_prove_nothing(state: IncidentState) -> None:
    found = run(attempt(1, 200), checkpoints=SAVED, incidents=(incident(76, state),))
    assert words(found) == {25: "candidate", 50: "candidate", 75: "candidate", 100: "suspect"}
    assert "onset of incident 1 (spike)" in judge_trust(found, PROBATION)[-1].reason


def test_a_crash_takes_no_proof_back() -> None:
    crash = replace(incident(0), kind=Kind.CRASH, onset_step=None, break_step=200)
    assert words(run(attempt(1, 200), attempt(2, 101, 100), checkpoints=SAVED, incidents=(crash,)))[100] == "proven"


def test_what_was_repaired_is_proven_by_the_attempt_that_was_repaired() -> None:
    tried = Try(Remedy(1, ("rollback",), "x", 75), 0.0, 80, 2, Outcome.WORKED)
    repaired = incident(77, IncidentState.RECOVERED, tries=(tried,))
    before = run(attempt(1, 90), attempt(2, 130, 75), checkpoints=SAVED[:3], incidents=(repaired,))
    assert words(before) == {25: "proven", 50: "proven", 75: "candidate"}
    assert words(replace(before, attempts=(attempt(1, 90), attempt(2, 135, 75))))[75] == "proven"
    failed = replace(repaired, tries=(replace(tried, outcome=Outcome.FAILED),), state=IncidentState.OPEN)
    assert words(replace(before, attempts=(attempt(1, 90), attempt(2, 135, 75)), incidents=(failed,)))[75] == "candidate"


def test_what_was_saved_while_something_healed_is_proven_from_its_end_on() -> None:
    healed = incident(76, IncidentState.RECOVERED, benign=True, break_step=110)
    saved = (checkpoint(75), checkpoint(100))
    assert words(run(attempt(1, 169), checkpoints=saved, incidents=(healed,))) == {75: "proven", 100: "candidate"}
    assert words(run(attempt(1, 170), checkpoints=saved, incidents=(healed,)))[100] == "proven"


def test_what_training_went_on_from_all_the_same_is_called_suspect_on_that_branch_only() -> None:
    let_go = incident(76, IncidentState.EXHAUSTED)
    went_on = run(attempt(1, 120), attempt(2, 900, 100), checkpoints=(*SAVED, checkpoint(200, 2)), incidents=(let_go,))
    assert words(went_on) == {25: "candidate", 50: "candidate", 75: "candidate", 100: "suspect", 200: "suspect"}
    assert "used all the same" in judge_trust(went_on, PROBATION)[-1].reason
    behind = run(attempt(1, 120), attempt(2, 900, 75), checkpoints=(*SAVED[:3], checkpoint(200, 2)), incidents=(let_go,))
    assert words(behind) == {25: "proven", 50: "proven", 75: "proven", 200: "proven"}


def test_condemned_ones_say_what_speaks_against_them() -> None:
    saved = (
        checkpoint(25, condemned="sha256 differs", damaged=True, evidence="bytes"),
        checkpoint(50, condemned="attempts 2 and 3 …", evidence="failures"),
        checkpoint(75, condemned="at or after the onset of incident 1"),
    )
    state = run(attempt(1, 900), checkpoints=saved, quarantined=(checkpoint(100, condemned="roll back to 75"),))
    assert words(state) == {100: "quarantined", 25: "damaged", 50: "suspect", 75: "suspect"}
    assert [trust.reason for trust in judge_trust(state, PROBATION)] == [
        "moved aside: roll back to 75",
        "sha256 differs",
        "attempts 2 and 3 …",
        "at or after the onset of incident 1",
    ]


@pytest.mark.parametrize("onset", [20, 26, 60, 76, 101])
@pytest.mark.parametrize("condemned", [(), (100,), (75, 100)])
def test_the_words_and_the_choice_agree(onset: int, condemned: tuple[int, ...]) -> None:
    """What is resumed from is never called suspect or damaged, and nothing newer has another word."""
    saved = tuple(replace(c, condemned="x", damaged=True) if c.step in condemned else c for c in SAVED)
    state = run(attempt(1, 200), attempt(2, 120, 100), checkpoints=saved, incidents=(incident(onset),))
    chosen = choose_newest(state.checkpoints, state.open_incidents).step
    trusted = [step for step, word in words(state).items() if word in ("candidate", "verified", "proven")]
    assert chosen == max(trusted, default=0)


def test_the_past_is_looked_at_once_however_many_checkpoints_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run of months has hundreds of checkpoints, incidents and attempts: the loop judges them at every save."""
    looked = []
    limit_step = Incident.limit_step.fget  # type: ignore[attr-defined]
    monkeypatch.setattr(Incident, "limit_step", property(lambda self: (looked.append(self.id), limit_step(self))[1]))

    def count(checkpoints: int) -> int:
        looked.clear()
        saved = tuple(checkpoint(25 * number) for number in range(1, checkpoints + 1))
        healed = tuple(incident(30 * n, IncidentState.RECOVERED, benign=n % 2 == 0) for n in range(1, 21))
        judge_trust(run(attempt(1, 400), attempt(2, 9000, 200), checkpoints=saved, incidents=healed), PROBATION)
        return len(looked)

    assert count(100) == count(10)
FAR = checkpoint(900000)


def marked(made: Attempt, *steps: int) -> Attempt:
    """As every checkpoint that is seen marks its attempt."""
    return replace(made, marks=tuple(Mark(step, 1.0, 0.0) for step in steps))


def test_what_is_ahead_of_every_step_seen_is_suspect_and_proves_nothing() -> None:
    state = run(marked(attempt(1, 130), 25, 50, 75, 100, 900000), checkpoints=(*SAVED, FAR))
    assert words(state) == {25: "proven", 50: "proven", 75: "candidate", 100: "candidate", 900000: "suspect"}
    assert judge_trust(state, PROBATION)[-1].reason == "ahead of every step seen: no stream or heartbeat came near it"


@pytest.mark.parametrize(("step", "word"), [(130 + AHEAD_STEPS, "candidate"), (130 + AHEAD_STEPS + 50, "suspect")])
def test_a_crash_may_lose_the_last_lines(step: int, word: str) -> None:
    assert words(run(attempt(1, 130), checkpoints=(checkpoint(step),))) == {step: word}


def test_a_line_may_stand_for_many_steps() -> None:
    every_thousandth = replace(attempt(1, 3000), first_step=1000)
    assert words(run(every_thousandth, checkpoints=(checkpoint(4000),))) == {4000: "candidate"}
    living = attempt(1, 0, over=False)
    sparse = run(living, checkpoints=(checkpoint(1500),))
    assert judge_trust(sparse, PROBATION, 900, ReportedProgress(0, 300))[0].word == "candidate"


def test_heartbeats_explain_what_a_stream_that_lost_its_lines_does_not() -> None:
    living = run(attempt(1, 0, over=False), checkpoints=(*SAVED, checkpoint(600)))
    assert words(living, newest=100)[600] == "suspect"
    assert judge_trust(living, PROBATION, 100, ReportedProgress(610))[-1].word == "candidate"


def test_one_that_an_attempt_trained_on_from_is_explained() -> None:
    state = run(attempt(1, 130), attempt(2, 1010, resumed=1000), checkpoints=(checkpoint(1000),))
    assert words(state) == {1000: "candidate"}


def test_nothing_is_ahead_of_what_nobody_knows() -> None:
    assert words(run(attempt(1, 0, over=False), checkpoints=(FAR,))) == {900000: "candidate"}
    assert words(run(replace(attempt(1, 0), first_step=None), checkpoints=(FAR,))) == {900000: "candidate"}


def test_a_person_who_makes_room_keeps_what_a_rollback_needs_beside_one_that_is_far_ahead() -> None:
    steps = tuple(range(25, 1001, 25))
    ended = run(marked(attempt(1, 1000), *steps), checkpoints=tuple(map(checkpoint, steps)))
    planted = replace(ended, attempts=(marked(attempt(1, 1000), *steps, 900000),), checkpoints=(*ended.checkpoints, FAR))
    policy = build_policy()
    kept = [[r.checkpoint.step for r in choose_spared(state, policy, 1, None) if not r.prune] for state in (ended, planted)]
    assert kept[1] == [*kept[0], 900000]
    assert len(kept[0]) > 2


def test_nothing_is_spared_while_nobody_knows_how_far_the_run_came() -> None:
    living = run(attempt(1, 0, over=False), checkpoints=tuple(checkpoint(step) for step in range(25, 5001, 25)))
    assert not [r for r in choose_spared(living, build_policy(), 1, None) if r.prune]
