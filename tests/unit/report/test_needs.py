"""What whoever looks at a run in trouble is told first: what broke, what trains, what follows, what to type."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sentinel.model import facts as f
from sentinel.model.attempts import SampleRange
from sentinel.model.findings import Kind
from sentinel.model.incidents import AwaitedApproval, IncidentState, Outcome, Remedy, Try
from sentinel.model.paging import IncidentPage
from sentinel.model.proof import Proof
from sentinel.model.stall import StepTimes
from sentinel.model.state import RunState
from sentinel.plan.structural import LOOK_AT
from sentinel.policy.schema import Policy
from sentinel.policy_files.loading import load_policy, shipped_policy_path
from sentinel.report.documents import incident_document
from sentinel.report.needs import needs_document, standing_documents, unwatched_words
from sentinel.report.snapshot import RunSnapshot, are_ranks_asked
from sentinel.run_files.detector_standings import DetectorStandings
from sentinel.run_files.heartbeats import RankSeen
from sentinel.terminal.picture import shown_incident
from sentinel.web.fleet import order, overview_document
from tests.unit.told_run import at, state_of, told

DEMO = load_policy(shipped_policy_path("demo"))
WOULD = "rung 2 of playbook numeric would: roll back to step 350"


def changed(until: float, **changes: Any) -> RunState:
    """The told run, with its newest incident changed."""
    state = state_of(told(until))
    return replace(state, incidents=(*state.incidents[:-1], replace(state.incidents[-1], **changes)))


def failed() -> RunState:
    state = state_of([*told(91.4), (92, f.PlanDropped("out of remedies")), (93, f.RunEnded("failed", "out of remedies"))])
    last = replace(state.incidents[-1], state=IncidentState.EXHAUSTED, verdict="rung 4", reason="loss 8.6 over 2.2")
    return replace(state, incidents=(*state.incidents[:-1], last))


def asking() -> RunState:
    page = IncidentPage("warning", "demo: spike", "text", at(91), reason=WOULD)
    return changed(90.5, approval=AwaitedApproval(1, at(900), "deny"), page=page)


def needs_of(snapshot: RunSnapshot, policy: Policy | None = None) -> Mapping[str, Any]:
    found = needs_document(snapshot, policy)
    assert found is not None
    return found


def test_a_failed_run_names_the_cause_and_not_the_rung(tmp_path: Path) -> None:
    snapshot = RunSnapshot(tmp_path / "demo", failed(), attempt_alive=False)
    needs = needs_of(snapshot)
    assert (needs["head"], needs["cause"]) == ("The run has failed", "spike: loss 8.6 over 2.2")
    assert needs["trains"] == "Nothing of it trains now."
    assert needs["next"] == ["the run has failed: nothing trains until you start it again"]
    assert needs["answers"][1]["command"].startswith("sentinel run ")
    assert needs_of(replace(snapshot, attempt_alive=None))["trains"].startswith("Whether")


def test_a_failed_run_says_what_its_last_repair_failed_of(tmp_path: Path) -> None:
    """It may be something else than what began it: a hang whose every relaunch never starts."""
    state = failed()
    last = state.incidents[-1]
    broken = replace(last.tries[-1], outcome=Outcome.FAILED, reason="no heartbeat since launch")
    tries = (*last.tries[:-1], broken)
    assert len(tries) == 2
    told_of = replace(state, incidents=(*state.incidents[:-1], replace(last, tries=tries)))
    said = needs_of(RunSnapshot(tmp_path, told_of))["tried"]
    assert said == "2 repairs were tried; the last failed: no heartbeat since launch"
    untried = replace(state, incidents=(*state.incidents[:-1], replace(last, tries=())))
    assert needs_of(RunSnapshot(tmp_path, untried))["tried"] == "No repair was tried."


def test_a_run_that_goes_on_or_has_ended_as_meant_needs_nothing(tmp_path: Path) -> None:
    for until in (42.0, 91.2, 100.0):
        assert needs_document(RunSnapshot(tmp_path, state_of(told(until)), supervisor="alive"), None) is None
    assert needs_document(RunSnapshot(tmp_path, state_of(told()), supervisor="gone"), None) is None, "it has finished"


def stalled(tmp_path: Path, supervisor: Any = "alive") -> RunSnapshot:
    """The told run, long after its last step."""
    senses = DetectorStandings(at(80), 2, 300, step_times=StepTimes(at(70), 0.2))
    return RunSnapshot(tmp_path, state_of(told(80)), now_s=at(80), supervisor=supervisor, attempt_alive=True, senses=senses)


def test_a_suspected_hang_says_when_it_is_believed_and_what_is_done_then(tmp_path: Path) -> None:
    needs = needs_of(stalled(tmp_path), DEMO)
    assert (needs["head"], needs["tone"]) == ("A hang is suspected", "warn")
    assert needs["cause"] == "no step for 10 s (a step takes 0.2 s)"
    assert needs["next"] == [
        "it counts as a hang once all ranks have been silent for 6 s, or longer in a slow phase",
        "then rung 1, resume: training starts again from a checkpoint",
        "nothing is asked of you yet",
    ]  # fmt: skip
    assert needs["answers"] == []


@pytest.mark.parametrize("supervisor", ["gone", "stuck", "unknown"])
def test_a_suspected_hang_that_nobody_watches_promises_no_repair(tmp_path: Path, supervisor: str) -> None:
    needs = needs_of(stalled(tmp_path, supervisor), DEMO)
    assert "neither seen nor repaired" in needs["next"][0]
    assert needs["answers"], "what brings somebody back to watch it"
    assert needs_of(stalled(tmp_path), None)["next"] == ["what follows is not known: the policy cannot be read"]


def test_an_approval_says_what_it_is_for_until_when_and_the_whole_command(tmp_path: Path) -> None:
    (standing,) = standing_documents(RunSnapshot(tmp_path / "demo", asking(), now_s=at(95.5), supervisor="alive"), DEMO)
    assert standing["next"] == [
        WOULD,
        "training goes on (attempt 2)",
        "rung 2 waits for you; without an answer it is passed over in 13 min",
        "then: rung 3, rollback + skip: training starts again from a checkpoint",
    ]
    assert [one["command"] for one in standing["answers"]][:2] == [
        f"sentinel approve 2 {tmp_path / 'demo'}", f"sentinel deny 2 {tmp_path / 'demo'}",
    ]  # fmt: skip


def test_patience_says_what_comes_after_it_and_asks_for_nothing(tmp_path: Path) -> None:
    (standing,) = standing_documents(RunSnapshot(tmp_path, changed(90.5, playbook="numeric"), supervisor="alive"), DEMO)
    assert standing["next"] == [
        "training goes on (attempt 2)",
        "rung 1 (patience: wait up to 40 steps) is being tried",
        "if that fails: rung 2, rollback + skip: training starts again from a checkpoint",
    ]
    assert standing["answers"] == [], "nobody was called: there is nothing to acknowledge"


@pytest.mark.parametrize(
    ("supervisor", "attempt_alive", "expected"),
    [
        ("gone", False, ["Nothing of it trains now.", "nothing is repaired until `sentinel run` is started again"]),
        ("gone", None, ["Whether anything of it trains is not known from here.", "nothing is repaired until `sentinel run`"]),
        ("stuck", True, ["Processes of its newest attempt are still there.", "nothing is repaired while the supervisor stands"]),
        ("unknown", None, ["Whether anything of it trains is not known from here.", "whether anybody repairs it is not known"]),
    ],
)  # fmt: skip
def test_where_nobody_watches_no_rung_is_promised(
    tmp_path: Path, supervisor: Any, attempt_alive: bool | None, expected: list[str]
) -> None:
    seen = RunSnapshot(tmp_path, changed(90.5, playbook="numeric"), supervisor=supervisor, attempt_alive=attempt_alive)
    (standing,) = standing_documents(seen, DEMO)
    assert len(standing["next"]) == 2
    assert [words in said for words, said in zip(expected, standing["next"], strict=True)] == [True, True]


def test_a_run_that_stands_still_is_listed_before_one_that_trains_and_asks(tmp_path: Path) -> None:
    page = IncidentPage("critical", "demo: spike", "text", at(91))
    state = failed()
    dead = replace(state, incidents=(*state.incidents[:-1], replace(state.incidents[-1], page=page)))
    rows = [overview_document(name, RunSnapshot(tmp_path, one), ()) for name, one in (("asks", asking()), ("dead", dead))]
    assert [row["urgency"] for row in rows] == [0, 0], "both have called a person"
    assert [row["name"] for row in order(rows)] == ["dead", "asks"]
    assert rows[0]["incident"]["awaits_approval"] is True


def test_a_stalled_run_says_so_in_the_list(tmp_path: Path) -> None:
    assert overview_document("demo", stalled(tmp_path), ())["reason"] == "no step for 10 s (a step takes 0.2 s)"


@pytest.mark.parametrize(
    ("supervisor", "head", "command"),
    [
        ("gone", "Nobody watches this run", "sentinel run "),
        ("stuck", "Nobody watches this run", "sentinel doctor "),
        ("unknown", "Whether anybody watches this run is not known", "sentinel status "),
    ],
)
def test_a_run_that_nobody_watches_needs_somebody(tmp_path: Path, supervisor: Any, head: str, command: str) -> None:
    needs = needs_of(RunSnapshot(tmp_path, state_of(told(80)), supervisor=supervisor, attempt_alive=None))
    assert (needs["head"], len(needs["next"])) == (head, 1)
    assert needs["answers"][0]["command"].startswith(command)


def test_a_supervisor_that_waits_for_room_on_a_full_disk_says_that_the_disk_is_full(tmp_path: Path) -> None:
    """Its loop does not turn either; but whoever is woken must free space, and nothing else."""
    seen = RunSnapshot(tmp_path, state_of(told(80)), supervisor="stuck", attempt_alive=False, is_disk_full=True)
    needs = needs_of(seen)
    assert (needs["head"], needs["trains"]) == ("The disk is full", "Nothing of it trains now.")
    assert needs["next"] == ["free space on it: the supervisor goes on by itself, and nothing is repaired before"]
    assert [one["command"] for one in needs["answers"]] == [f"df -h {tmp_path}", f"sentinel doctor {tmp_path}"]
    assert unwatched_words(seen).startswith(f"The disk is full: nothing can be written to {tmp_path}; the supervisor waits; free")


@pytest.mark.parametrize(
    ("silent_s", "words"),
    [
        (0.2, "It trains on: its ranks still beat."),
        (30.0, "Processes of its newest attempt are still there, and no rank has beaten for some time."),
        (130.0, "Processes of its newest attempt are still there, and no rank has beaten for 2 min."),
    ],
)
def test_whether_an_unwatched_run_trains_is_read_from_its_ranks(tmp_path: Path, silent_s: float, words: str) -> None:
    ranks = (RankSeen(0, 300, "forward", silent_s + 50), RankSeen(1, 300, "forward", silent_s))
    seen = RunSnapshot(tmp_path, state_of(told(80)), supervisor="gone", attempt_alive=True, ranks=ranks)
    assert needs_of(seen)["trains"] == words
    assert needs_of(replace(seen, ranks=()))["trains"] == "Processes of its newest attempt are still there."


def test_a_paused_run_says_who_paused_it_and_how_to_go_on(tmp_path: Path) -> None:
    paused = replace(state_of(told(80)), paused="ann")
    seen = RunSnapshot(tmp_path, paused, supervisor="alive", attempt_alive=True, ranks=(RankSeen(0, 300, "forward", 0.2),))
    needs = needs_of(seen)
    assert (needs["cause"], needs["trains"]) == ("ann asked for it", "It trains on: its ranks still beat.")
    hung = needs_of(replace(seen, ranks=(RankSeen(0, 300, "forward", 200.0),)))
    assert hung["trains"].endswith("no rank has beaten for 3 min."), "a paused run may hang: nobody says that it trains"
    assert are_ranks_asked(paused, None, "alive")
    assert needs["answers"] == [{"command": f"sentinel resume {tmp_path}", "what": "sentinel carries remedies out again"}]


def test_a_job_that_dies_at_each_launch_counts_the_launches_that_were_tried(tmp_path: Path) -> None:
    """The incident that ends the run has tried nothing itself: the relaunches were those of the crash before it."""
    state = failed()
    crash = replace(state.incidents[0], state=IncidentState.EXHAUSTED, closed_s=at(93))
    job = replace(state.incidents[1], kind=Kind.BROKEN_JOB, detected_s=at(93), tries=(), reason="3 launches in a row died")
    said = needs_of(RunSnapshot(tmp_path, replace(state, incidents=(crash, job))))["tried"]
    assert said == "One repair was tried for incident 1 (crash); it worked: 60 steps past step 132"
    apart = replace(job, detected_s=at(120))
    assert needs_of(RunSnapshot(tmp_path, replace(state, incidents=(crash, apart))))["tried"] == "No repair was tried."


@pytest.mark.parametrize("ends", [{"ended": "failed"}, {"ended": "", "held": True}])
def test_nobody_is_told_to_go_on_from_a_checkpoint_that_is_not_there(tmp_path: Path, ends: dict[str, Any]) -> None:
    state = replace(failed(), **ends)
    for checkpoints, words in ((state.checkpoints, "go on from the newest good checkpoint"), ((), "start from scratch")):
        needs = needs_of(RunSnapshot(tmp_path, replace(state, checkpoints=checkpoints), supervisor="alive"))
        whats = [answer["what"] for answer in needs["answers"]]
        assert [what for what in whats if words in what]
        assert checkpoints or not [what for what in whats if "newest good" in what]


def test_of_a_command_that_was_never_heard_nobody_says_that_it_starts_from_scratch(tmp_path: Path) -> None:
    state = replace(failed(), checkpoints=())
    unheard = replace(state, attempts=tuple(replace(attempt, receipt_s=None) for attempt in state.attempts))
    needs = needs_of(RunSnapshot(tmp_path, unheard, supervisor="alive"))
    whats = [answer["what"] for answer in needs["answers"]]
    assert [what for what in whats if what.endswith("start it as its command says: sentinel knows no checkpoint of it")]


def test_the_list_of_runs_names_the_cause_and_not_the_rung(tmp_path: Path) -> None:
    assert overview_document("demo", RunSnapshot(tmp_path, failed()), ())["reason"] == "spike: loss 8.6 over 2.2"
    alone = overview_document("demo", RunSnapshot(tmp_path, state_of(told(80)), supervisor="gone"), ())["reason"]
    assert alone.startswith("Nobody watches this run: its supervisor is gone; nothing is repaired"), "green would be believed"


def test_every_state_of_an_incident_has_words_that_need_no_vocabulary(tmp_path: Path) -> None:
    words = {state: state.words for state in IncidentState}
    assert len({*words.values()}) == len(IncidentState)
    assert words[IncidentState.PROBATION] == "repair on probation"
    page = IncidentPage("critical", "demo: spike", "text", at(91))
    gone = changed(90.5, state=IncidentState.EXHAUSTED, page=page)
    (standing,) = standing_documents(RunSnapshot(tmp_path, gone, supervisor="alive"), DEMO)
    assert (standing["state"], standing["stands"]) == ("exhausted", "no repair is left")


def test_a_question_that_waits_needs_a_persons_word_although_somebody_has_seen_it(tmp_path: Path) -> None:
    state = asking()
    page = replace(state.incidents[-1].page, acknowledged_by="ann") if state.incidents[-1].page else None
    seen = replace(state, incidents=(*state.incidents[:-1], replace(state.incidents[-1], page=page, acknowledged_by="ann")))
    (standing,) = standing_documents(RunSnapshot(tmp_path, seen, supervisor="alive"), DEMO)
    assert standing["waits"] is True


def test_a_question_dies_with_the_run_it_was_asked_of(tmp_path: Path) -> None:
    """Nobody could answer it: what would be done is not done any more."""
    snapshot = RunSnapshot(tmp_path, replace(asking(), ended="stopped"))
    (standing,) = standing_documents(snapshot, DEMO)
    assert standing["next"] == ["the run was stopped: nothing trains until you start it again"]
    assert overview_document("demo", snapshot, ())["incident"]["awaits_approval"] is False


@pytest.mark.parametrize("state", [IncidentState.OPEN, IncidentState.PROBATION])
def test_how_an_incident_stands_has_one_wording_wherever_it_is_shown(tmp_path: Path, state: IncidentState) -> None:
    found = changed(90.5, state=state)
    (standing,) = standing_documents(RunSnapshot(tmp_path, found, supervisor="alive"), DEMO)
    assert standing["stands"] == incident_document(found.incidents[-1])["stands"] == state.words


def told_first() -> RunState:
    """It failed of incident N, for which repairs were tried; N + 1 had only been told, and training had gone on."""
    state = failed()
    straw = replace(state.incidents[-1], closed_s=at(93), verdict=state.end_reason, severity="critical", page=page_of("spike"))
    only_told = replace(straw, id=straw.id + 1, kind=Kind.ENVIRONMENT_CHANGED, closed_s=at(90), verdict="a person is called")
    only_told = replace(only_told, tries=(), reason="a file is new", severity="warning", page=page_of("a file"))
    return replace(state, incidents=(*state.incidents[:-1], straw, only_told))


def page_of(words: str) -> IncidentPage:
    return IncidentPage("critical", words, words, at(91))


@pytest.mark.parametrize("verdict", [None, "other words"])
def test_a_run_failed_of_what_ended_it_and_not_of_what_was_only_told_meanwhile(tmp_path: Path, verdict: str | None) -> None:
    state = told_first()
    straw, only_told = state.incidents[-2:]
    if verdict is not None:
        straw = replace(straw, verdict=verdict)
        state = replace(state, incidents=(*state.incidents[:-2], straw, only_told))
    needs = needs_of(RunSnapshot(tmp_path, state, attempt_alive=False))
    assert (needs["incident"], needs["cause"]) == (straw.id, "spike: loss 8.6 over 2.2")
    assert "No repair was tried" not in needs["tried"]
    assert f"sentinel ack {straw.id} " in needs["answers"][0]["command"]
    row = overview_document("demo", RunSnapshot(tmp_path, state), ())
    assert (row["incident"]["id"], row["reason"]) == (straw.id, "spike: loss 8.6 over 2.2")
    assert shown_incident(state) == straw


def test_of_pages_that_wait_the_list_of_runs_shows_the_critical_one(tmp_path: Path) -> None:
    state = replace(told_first(), ended="", end_reason="")
    assert overview_document("demo", RunSnapshot(tmp_path, state), ())["incident"]["id"] == state.incidents[-2].id


def test_where_repairs_have_shown_that_nothing_they_change_explains_it_a_person_is_told_where_to_look(tmp_path: Path) -> None:
    state = failed()
    straw = state.incidents[-1]
    onset = straw.onset_step
    assert onset is not None
    proofs = (Proof("skip", "read_back"), Proof("lr_scale", "read_back"))
    remedy = Remedy(1, ("rollback", "skip", "lr"), "chosen", onset - 40, (SampleRange(0, 90),), 0.5)
    tries = (Try(remedy, at(91), onset + 4, 2, Outcome.FAILED, "the same again", onset, proofs),)
    for shown, is_told in ((tries, True), ((replace(tries[0], proofs=()),), False)):
        found = replace(state, incidents=(*state.incidents[:-1], replace(straw, tries=shown)))
        following = needs_of(RunSnapshot(tmp_path, found, attempt_alive=False))["next"]
        assert (LOOK_AT in following) is is_told


def test_a_run_with_trouble_that_nobody_watches_stands_before_one_that_is_being_repaired(tmp_path: Path) -> None:
    """Its state says `probation`, and nobody is there to judge it."""
    state = changed(90.5, playbook="numeric")
    rows = [overview_document(name, RunSnapshot(tmp_path, state, supervisor=name), ()) for name in ("alive", "gone")]
    assert [row["name"] for row in order(rows)] == ["gone", "alive"]
    assert [row["unwatched"].split(":")[0] for row in rows] == ["", "Nobody watches this run"]
    assert overview_document("over", RunSnapshot(tmp_path, failed(), supervisor="gone"), ())["unwatched"] == ""


def test_a_silence_older_than_the_supervisor_is_counted_from_its_begin(tmp_path: Path) -> None:
    """The ranks' silence stands right below it, and is longer."""
    snapshot = stalled(tmp_path)
    silent = tuple(RankSeen(rank, 301, "forward", 155.0) for rank in range(2))
    counted = "been silent for 6 s, counted from when this supervisor began to watch, or longer in a slow phase"
    assert counted in needs_of(replace(snapshot, ranks=silent), DEMO)["next"][0]
    alone = (silent[0], replace(silent[1], silent_s=9.0))
    assert "counted" not in needs_of(replace(snapshot, ranks=alone), DEMO)["next"][0]
