"""Another policy on a live run, and the pages that wait: its windows count at once, and nothing is lost or told twice."""

from __future__ import annotations

from math import nan
from typing import Any

from sentinel.model import facts as f
from sentinel.policy.schema import Policy
from tests.builders import Bench
from tests.unit.engine.paged import HOOK, MINUTE, PHONE, TERMINAL, deliver, page_of, policy
from tests.unit.engine.test_applying import apply
from tests.unit.engine.test_muted_pages import QUIET, later, sent, to_the_end

PATIENT: dict[str, Any] = {"severity": "warning", "then": "keep_training"}


def by(*mute: dict[str, Any], routes: tuple[dict[str, Any], ...] = (TERMINAL, HOOK, PHONE)) -> Policy:
    return policy(*routes, mute=list(mute), **PATIENT)


def paged(under: Policy) -> Bench:
    bench = Bench(under).launched()
    bench.steps(1, 60).step(61, nan)
    return bench


def test_what_a_window_kept_goes_out_once_where_the_new_policy_has_no_such_window() -> None:
    bench = paged(by(QUIET))
    assert sent(bench) == []
    later(apply(bench, by()))
    assert sent(bench) == [("trigger", "terminal"), ("trigger", "hook")]
    assert bench.of(f.PageHeld)[-1].routes == ()
    later(deliver(bench), MINUTE)
    assert sent(bench) == [("trigger", "terminal"), ("trigger", "hook")]


def test_it_goes_to_the_new_routes_and_to_no_other() -> None:
    bench = later(apply(paged(by(QUIET)), by(routes=(HOOK,))))
    assert sent(bench) == [("trigger", "hook")]


def test_a_new_window_holds_repetitions_and_the_next_in_line_until_its_end() -> None:
    bench = deliver(paged(by()))
    assert sent(bench) == [("trigger", "terminal"), ("trigger", "hook")]
    later(apply(bench, by(QUIET)))
    held = page_of(bench).hold
    assert held is not None
    assert (held.windows, set(held.routes)) == (("nights",), {"terminal", "hook", "phone"})
    later(bench, 40 * MINUTE)
    assert len(sent(bench)) == 2, "neither repeated nor passed on to the phone"
    assert len(sent(to_the_end(bench))) > 2


def test_a_new_window_holds_what_nobody_was_told_of_yet() -> None:
    bench = paged(by(QUIET | {"routes": ["terminal"]}, routes=(TERMINAL,)))
    later(apply(bench, by(QUIET | {"name": "longer"}, routes=(TERMINAL,))))
    held = page_of(bench).hold
    assert held is not None
    assert held.windows == ("longer",)
    assert sent(bench) == []
    assert sent(to_the_end(bench)) == [("trigger", "terminal")]
