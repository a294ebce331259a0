"""What goes and comes back calls people for its first times, and then keeps one page open until it has stayed away."""

from __future__ import annotations

from sentinel.engine.coming_back import AWAY_S, PAGES_MAX, WORDS
from sentinel.model import actions as a
from sentinel.model import facts as f
from sentinel.model import operator_requests as w
from sentinel.model.readings import StepReading
from tests.builders import Bench
from tests.sim.kit import policy_named
from tests.unit.engine.paged import deliver

SPELL = 60  # rows with a loss, then as many without one


def started() -> Bench:
    return Bench(policy_named("default")).launched().steps(1, 300)


def newest_step(bench: Bench) -> int:
    newest = bench.stream[-1]
    assert isinstance(newest, StepReading)
    return newest.step


def calm(bench: Bench, seconds: float) -> None:
    """Healthy rows, twenty seconds apart."""
    for _ in range(int(seconds) // 20):
        bench.now_s += 19.0
        bench.step(newest_step(bench) + 1)
        bench.tick(0.0)
        deliver(bench)


def flap(bench: Bench, times: int) -> Bench:
    """The loss is gone and comes back, so many times, a row each second; every page and every resolve arrives."""
    for _ in range(times):
        before = newest_step(bench)
        for step in range(before + 1, before + 2 * SPELL + 1):
            if step <= before + SPELL:
                bench.now_s += 1.0
                bench.says(StepReading(1, step, bench.now_s, (), {"grad_norm": 0.3}))
            else:
                bench.step(step)
            bench.tick(0.0)
            deliver(bench)
    return bench


def stages(bench: Bench) -> list[str]:
    return [page.stage for page in bench.decided(a.SendPage)]


def test_sixty_flaps_call_for_the_first_three_and_one_page_stays_open() -> None:
    bench = flap(started(), 60)
    assert len(bench.state.incidents) == 60, "what happens is on record as ever"
    done = stages(bench)
    assert done.count("resolve") == PAGES_MAX - 1
    repeats = sum(page.incident == PAGES_MAX for page in bench.decided(a.SendPage)) - 1
    assert done.count("trigger") == PAGES_MAX + repeats
    assert repeats == 3, "in two hours, one each half hour: as any page that nobody has answered"
    assert [i.id for i in bench.state.open_pages] == [PAGES_MAX]
    texts = [page.text for page in bench.decided(a.SendPage)]
    assert [WORDS in text for text in texts] == [False] * 4 + [True] * 4


def test_it_is_resolved_once_it_has_stayed_away_for_an_hour_and_then_calls_again() -> None:
    bench = flap(started(), 5)
    calm(bench, AWAY_S - SPELL)
    assert [i.id for i in bench.state.open_pages] == [PAGES_MAX]
    calm(bench, SPELL)
    assert not bench.state.open_pages
    before = stages(bench).count("trigger")
    flap(bench, 1)
    assert stages(bench).count("trigger") == before + 1
    assert not bench.state.open_pages, "it begins anew: this one is taken back as it goes"


def test_an_acknowledgement_holds_for_all_of_it_and_after_a_resolve_by_hand_it_calls_once_more() -> None:
    bench = flap(started(), PAGES_MAX)
    bench.asks(w.Acknowledge(PAGES_MAX), by="ada")
    before = stages(bench).count("trigger")
    flap(bench, 10)
    assert stages(bench).count("trigger") == before
    bench.asks(w.Resolve(PAGES_MAX), by="ada")
    flap(bench, 10)
    assert stages(bench).count("trigger") == before + 1


def test_flaps_that_lie_far_apart_are_pages_of_their_own() -> None:
    bench = started()
    for _ in range(4):
        calm(flap(bench, 1), AWAY_S)
    assert stages(bench) == ["trigger", "resolve"] * 4


def test_after_a_restart_it_is_the_same() -> None:
    """What waits behind which page stands in the journal."""
    bench = flap(started(), 6)
    holds = [fact for fact in bench.facts if isinstance(fact, f.PageHeld)]
    assert [(hold.incident, hold.incidents) for hold in holds if hold.routes] == [(4, (3,)), (5, (3,)), (6, (3,))]
    before = stages(bench).count("trigger")
    bench.die()
    assert [i.id for i in bench.state.open_pages] == [PAGES_MAX]
    flap(bench, 3)
    assert stages(bench).count("trigger") == before
