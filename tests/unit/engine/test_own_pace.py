"""What is only told: a person is called, training goes on, nothing is relaunched, and nobody is called twice for the same."""

from __future__ import annotations

from copy import deepcopy

from sentinel.model import actions as a
from sentinel.model import facts as f
from sentinel.model.readings import Heartbeat
from sentinel.policy.schema import Policy
from tests.builders import POLICY, Bench

TOLD = ("slowdown", "straggler", "stale_checkpoint", "layer_imbalance")


def telling() -> Policy:
    plain = deepcopy(POLICY)
    plain["spec"]["detectors"] |= {
        "slowdown": {"lasting": "20 steps", "at_least": "10s", "min_history": "40 steps"},
        "straggler": {"lasting": "20 steps", "at_least": "10s"},
    }
    plain["spec"]["rules"] += [{"alert": kind, "on": kind, "playbook": "tell"} for kind in TOLD]
    plain["spec"]["playbooks"]["tell"] = [{"page": {"severity": "warning"}, "then": "keep_training"}]
    return Policy.model_validate(plain)


def train(bench: Bench, first: int, last: int, *, slow_rank: int | None = None, rate: float = 1e5) -> Bench:
    for step in range(first, last + 1):
        bench.step(step, tokens_per_s=rate)
        for rank in range(2):
            busy_s = 0.6 if rank == slow_rank else 0.1
            bench.tell(Heartbeat(bench.number, rank, step + 1, "forward", 0.0, busy_s, step))
        bench.tick(0.2)
    return bench


def kinds(bench: Bench) -> list[tuple[str, str, int | None]]:
    return [(incident.kind, incident.state, incident.blamed_rank) for incident in bench.state.incidents]


def goes_on(bench: Bench) -> bool:
    state = bench.state
    return not (bench.decided(a.KillAttempt) or state.giving_up or state.ended or state.plan) and len(state.attempts) == 1


def test_a_straggler_is_told_and_training_goes_on() -> None:
    bench = train(Bench(telling()).launched(), 1, 60, slow_rank=1)
    assert kinds(bench) == [("straggler", "exhausted", 1)]
    (page,) = bench.decided(a.SendPage)
    assert page.severity == "warning"
    assert "rank 1 is busy for 0.6 s a step" in page.text
    assert goes_on(bench)


def test_another_supervisor_finds_it_again_and_does_not_say_it_again() -> None:
    bench = train(Bench(telling()).launched(), 1, 60, slow_rank=1)
    bench.die()
    train(bench, 61, 120, slow_rank=1)
    assert len(bench.decided(a.SendPage)) == 1
    again = [fact.reason for fact in bench.of(f.FindingRecorded) if fact.finding.kind == "straggler" and fact.became is None]
    assert again == ["incident 1 told of it before this supervisor came"]


def layers(bench: Bench, first: int, last: int, *raised: str) -> Bench:
    """Norms of six layers; those of the raised ones are thrice the others'."""
    for step in range(first, last + 1):
        stray = 1.0 + 0.1 * (step * 7 % 5 - 2)
        norms = {f"grad_norm/{layer}": (3.0 if layer in raised else 1.0) * stray for layer in "abcdef"}
        bench.step(step, **{**norms, "grad_norm/a": norms["grad_norm/a"] * (1.0 + 0.05 * (step * 3 % 4))})
    return bench


def test_another_layer_is_news_to_another_supervisor_and_the_same_one_is_not() -> None:
    bench = layers(layers(Bench(telling()).launched(), 1, 300), 301, 340, "b")
    assert [incident.metric for incident in bench.state.incidents] == ["grad_norm/b"]
    bench.die()
    layers(layers(bench, 341, 380, "b"), 381, 440, "b", "d")
    assert [incident.metric for incident in bench.state.incidents] == ["grad_norm/b", "grad_norm/d"]
    assert len(bench.decided(a.SendPage)) == 2


def test_a_slowdown_is_told_and_found_again_under_the_same_key() -> None:
    bench = train(train(Bench(telling()).launched(), 1, 80), 81, 130, rate=4e4)
    assert kinds(bench) == [("slowdown", "exhausted", None)]
    assert goes_on(bench)
    bench.die()
    train(bench, 131, 140, rate=4e4)
    assert len([fact for fact in bench.of(f.FindingRecorded) if fact.finding.kind == "slowdown"]) == 1


def test_checkpoints_that_stop_coming_are_told() -> None:
    bench = Bench(telling()).launched()
    for step in range(10, 51, 10):
        train(bench, step - 9, step).checkpoint(step)
    train(bench, 51, 90)
    assert kinds(bench) == [("stale_checkpoint", "exhausted", None)]
    assert "since step 50" in bench.incident.reason
    assert goes_on(bench)


def test_a_stream_that_goes_quiet_under_moving_ranks_is_said_and_is_no_hang() -> None:
    bench = train(Bench(telling()).launched(), 1, 30)
    for step in range(31, 100):
        bench.beat("forward", step).tick(1.0)
    assert [(fact.source, fact.ok) for fact in bench.of(f.SourceChanged)] == [("step lines", False)]
    assert "heartbeats are at step" in bench.state.blind["step lines"]
    assert bench.state.incidents == ()
    bench.step(100)
    bench.tick(1.0)
    assert bench.state.blind == {}


def test_a_finish_without_its_last_checkpoints_leaves_the_page_open() -> None:
    bench = Bench(telling()).launched()
    for step in range(10, 51, 10):
        train(bench, step - 9, step).checkpoint(step)
    train(bench, 51, 90).ends(90)
    assert bench.state.ended == "finished"
    assert [incident.kind for incident in bench.state.open_pages] == ["stale_checkpoint"]
    assert "resolve" not in [page.stage for page in bench.decided(a.SendPage)]
    saved = Bench(telling()).launched()
    for step in range(10, 51, 10):
        train(saved, step - 9, step).checkpoint(step)
    train(saved, 51, 90).checkpoint(90).ends(90)
    assert not saved.state.open_pages, "what it leaves behind is there"


def test_a_pace_that_was_slow_is_nobodys_business_when_the_run_has_finished() -> None:
    bench = train(train(Bench(telling()).launched(), 1, 80), 81, 130, rate=4e4).ends(130)
    assert not bench.state.open_pages
