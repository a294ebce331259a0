"""A command that leaves with 0 and shows nothing: what was being watched ends with it, as unknown and never as healed."""

from __future__ import annotations

from sentinel.model import facts as f
from sentinel.model.incidents import IncidentState, Outcome
from sentinel.report.html.story import _ended
from sentinel.terminal.words import describe
from tests.builders import Bench


def relaunched(loss: float | None = None) -> Bench:
    """A trainer under a profile, which broke and was started again; of the new attempt nothing is seen."""
    bench = Bench(settable=()).launched().steps(1, 50).checkpoint(50).steps(51, 60)
    if loss is None:
        bench.exits(signal=9)
    else:
        bench.steps(61, 68, loss=loss)
    return bench.launched(receipt=False)


def test_an_incident_in_probation_ends_as_unknown() -> None:
    bench = relaunched()
    assert bench.incident.state is IncidentState.PROBATION
    bench.exits(code=0)
    assert bench.state.ended == "unobserved"
    assert not bench.state.open_incidents
    assert (bench.incident.state, bench.incident.tries[-1].outcome) == (IncidentState.UNKNOWN, Outcome.UNKNOWN)
    assert bench.incident.verdict.startswith("the run ended, and nobody saw whether it healed")
    assert bench.incident.restored_s is None
    assert not bench.of(f.PageRaised)
    assert _ended(bench.incident, bench.state).startswith("Whether it healed is not known: the run ended")
    line = describe(bench.of(f.IncidentMoved)[-1], bench.now_s, bench.state)
    assert line is not None
    assert (line.tone, line.words.split(":")[0]) == ("warn", "incident 1 END NOT KNOWN")


def test_what_was_saved_behind_an_onset_that_nobody_saw_heal_is_not_resumed_from() -> None:
    bench = relaunched(loss=8.0)
    assert bench.incident.is_numeric
    bench.checkpoint(70)
    bench.exits(code=0)
    assert bench.incident.state is IncidentState.UNKNOWN
    condemned = {one.step: one.condemned for one in bench.state.checkpoints if one.condemned}
    assert condemned == {70: "at or after the onset of incident 1, of which nobody saw whether it healed"}


def test_the_run_can_be_started_again_and_what_breaks_then_is_another_incident() -> None:
    bench = relaunched().exits(code=0)
    bench.die()
    assert not bench.state.open_incidents


LOST = "go.sh, line 8 pipes the trainer into tee without pipefail"


def test_exit_0_of_a_script_that_loses_its_trainers_status_is_no_finish() -> None:
    bench = Bench(settable=(), status_lost=LOST).launched().steps(1, 120).checkpoint(100).exits(code=0)
    assert bench.state.ended == "unobserved"
    assert LOST in bench.state.end_reason
    assert bench.state.end_reason.endswith("whether it trained to its last step is not known")
    assert not bench.of(f.PageRaised)


def test_what_its_stream_shows_to_have_finished_has_finished_all_the_same() -> None:
    bench = Bench(settable=(), status_lost=LOST).launched().steps(1, 120).ends(120)
    assert bench.state.ended == "finished"


def test_a_status_that_a_script_does_pass_on_is_believed() -> None:
    assert Bench(settable=()).launched().steps(1, 120).exits(code=0).state.ended == "finished"


def test_a_death_that_the_script_passes_on_all_the_same_is_one() -> None:
    bench = Bench(settable=(), status_lost=LOST).launched().steps(1, 120).checkpoint(100).exits(signal=9)
    assert bench.state.ended == ""
    assert bench.incident.kind == "crash"
