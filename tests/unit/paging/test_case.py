"""What a person reads who was woken: everything needed to decide, in order, whatever is missing or damaged on the disk."""

from __future__ import annotations

import os
import re
import socket
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import typer

from sentinel.channels.notice import TEXT_CHARS_MAX, TITLE_CHARS_MAX, Notice
from sentinel.channels.wording import web_links
from sentinel.cli.root import app
from sentinel.detectors.registry import KINDS
from sentinel.engine import evolve
from sentinel.model import facts as f
from sentinel.model.actions import SendPage, Stage
from sentinel.model.findings import Kind
from sentinel.model.incidents import AwaitedApproval, Band, Incident, IncidentState, Outcome, Remedy, Try
from sentinel.model.paging import IncidentPage
from sentinel.model.price import Price
from sentinel.model.state import Excluded, RunState
from sentinel.paging import case
from sentinel.paging.case import build_notice
from sentinel.policy.schema_paging import Paging
from tests.sim.kit import simulate
from tests.unit.report.streamed_run import write_steps, write_streamed
from tests.unit.told_run import START_S, at, state_of, told

ENGINE = "Spike: loss 8.6 over 2.2\nlook at warm-up first\ntried: wait -> failed\nnow: the budget is spent\nnext: all stops"
NOW_S = at(200)


def page(stage: Stage = "trigger", text: str = ENGINE, incident: int = 2, by: str = "") -> SendPage:
    return SendPage(f"page/{incident}/1/{stage}/x", incident, "critical", "demo: spike since step 379", text, stage, "x", by)


def spiked(until: float = 91.2, **changes: object) -> RunState:
    """The told run while its spike is being repaired, or with that incident changed."""
    state = state_of(told(until))
    incidents = (*state.incidents[:-1], replace(state.incidents[-1], **changes))  # type: ignore[arg-type]
    return replace(state, incidents=incidents)


def raised(state: RunState, **changes: Any) -> RunState:
    """Its newest incident has a page, as the engine raises them now: what the text says stands beside it as data."""
    known = IncidentPage(
        "critical", "demo: spike since step 379", ENGINE, NOW_S, reason="the budget is spent", notes=("look at warm-up first",)
    )  # fmt: skip
    last = replace(state.incidents[-1], page=replace(known, **changes))
    return replace(state, incidents=(*state.incidents[:-1], last))


def failed() -> RunState:
    """Out of remedies, and stopped."""
    state = state_of([*told(91.4), (92, f.PlanDropped("out of remedies")), (93, f.RunEnded("failed", "out of remedies"))])
    last = replace(state.incidents[-1], state=IncidentState.EXHAUSTED, verdict="out of remedies")
    return replace(state, incidents=(*state.incidents[:-1], last), plan=None)


def built(run_dir: Path, state: RunState, action: SendPage | None = None, paging: Paging | None = None) -> Notice:
    return build_notice(run_dir, state, action or page(), paging or Paging(), NOW_S)


def test_the_labels_of_its_rule_go_with_a_page_and_with_a_message(tmp_path: Path) -> None:
    state = spiked(labels=(("team", "data\nops"),))
    for stage in ("trigger", "message"):
        assert built(write_streamed(tmp_path / stage), state, page(stage)).labels == {"team": "data ops"}  # type: ignore[arg-type]


def test_the_case_reads_in_the_order_a_person_needs_it(tmp_path: Path) -> None:
    run_dir = write_streamed(tmp_path / "demo")
    band = Band("loss", 2.21, 0.03, 48)
    notice = built(run_dir, raised(spiked(value="8.6", baseline="2.2", band=band, blamed_rank=1, blamed_node="node-7")))
    places = [notice.text.index(word) for word in ("BROKE", "NEXT", "COST", "ANSWER", "TRIED", "VALUES", "READ")]
    assert places == sorted(places)
    for expected in (
        "Spike: loss 8.6 over 2.2", "look at warm-up first", "now: the budget is spent", "loss 8.6, baseline 2.2",
        "before it: loss 2.21 ± 0.03", "onset step 379, seen at step 380 of attempt 2", "rank 1 on node node-7",
        "1. wait: patience: wait up to 40 steps -> failed: above its band for 4 steps", "2. rollback+skip (attempt 3)",
        f"sentinel ack 2 {run_dir}", "RUNBOOK.md#spike", str(run_dir / "incidents/0002/report.html"),
    ):  # fmt: skip
        assert expected in notice.text, expected
    assert "tried: wait" not in notice.text, "told better from the state"
    assert "all stops" not in notice.text, "so is this"
    assert (notice.title, notice.dedup_key, notice.run) == ("demo: spike since step 379", "sentinel/demo/2", "demo")
    facts = notice.facts
    assert (facts["kind"], facts["onset step"], facts["rank"], facts["metric"]) == ("spike", "379", "1", "loss")


def test_a_page_of_an_older_journal_is_shown_as_it_was_written_and_never_taken_apart(tmp_path: Path) -> None:
    text = built(tmp_path, spiked(), page(text=f"{ENGINE}\nrunbook: https://team/spikes")).text
    for line in (*ENGINE.split("\n"), "runbook: https://team/spikes"):
        assert line in text


def test_the_metric_is_what_the_finding_named_and_is_not_read_out_of_a_sentence() -> None:
    crash = spiked(reason="RuntimeWarning: overflow encountered in grad_norm", kind=Kind.CRASH, metric="").incidents[-1]
    assert case.judged_metric(crash) == "loss", "nothing is known of it"
    assert spiked().incidents[-1].metric == "loss", "the fold has it of the finding before"
    overflow = replace(crash, kind=Kind.LOSS_SCALE_COLLAPSE)
    assert case.judged_metric(overflow) == "loss_scale", "an older journal: by its kind"
    assert case.judged_metric(replace(overflow, metric="grad_norm")) == "grad_norm"


def test_a_rule_may_send_the_reader_to_a_place_that_is_no_address(tmp_path: Path) -> None:
    notice = built(tmp_path, raised(spiked(), runbook_url="page 12 of the binder"))
    assert "runbook: page 12 of the binder" in notice.text
    assert "runbook" not in notice.links
    shipped = built(tmp_path, raised(spiked(), runbook_url="RUNBOOK.md#spike")).text
    assert "runbook: /" in shipped
    assert "deploy/RUNBOOK.md#spike" in shipped


def test_the_metric_is_plotted_around_the_onset(tmp_path: Path) -> None:
    lines = built(write_streamed(tmp_path / "demo"), spiked()).text.splitlines()
    (head,) = [number for number, line in enumerate(lines) if "loss, steps 259..384" in line]
    upper, lower, mark = (line[8:] for line in lines[head + 1 : head + 4])
    place = mark.index("^")
    assert mark == "onset, step 379 ^".rjust(place + 1)
    assert lower[place:].strip("█") == "" == upper[place:].strip("█")
    assert set(upper[:place]) <= {" "}
    assert set(lower[:place]) <= set("▁▂")


def test_a_line_that_somebody_asked_to_be_told_of_is_no_cry_for_help(tmp_path: Path) -> None:
    found: dict[str, Any] = {"kind": Kind.LOG_MATCH, "alert": "LinkFlap", "state": IncidentState.EXHAUSTED, "tries": ()}
    notice = built(tmp_path, raised(spiked(**found, reason="LinkFlap on rank 3: tell the network team: mlx5_0: link down")))
    assert notice.text.startswith("The policy asks that you are told of this line. Sentinel changes nothing because of it.\n")
    assert "must decide" not in notice.text
    assert re.search(r"^BROKE   LinkFlap on rank 3: tell the network team", notice.text, re.MULTILINE), "its name comes once"
    classed = built(tmp_path, raised(spiked(**found, reason="sick GPU on rank 3: Xid 63")))
    assert "BROKE   LinkFlap: sick GPU on rank 3: Xid 63" in classed.text


def test_every_stage_has_its_own_title_and_opening(tmp_path: Path) -> None:
    state = state_of(told(130))
    titles, openings = set(), set()
    for stage in ("trigger", "update", "acknowledge", "resolve", "message"):
        notice = built(tmp_path / "demo", state, page(stage, by="anna"))
        titles.add(notice.title)
        openings.add(notice.text.splitlines()[0])
        assert notice.stage == stage
    assert len(titles) == len(openings) == 5
    assert built(tmp_path, state, page("acknowledge", by="anna")).title == "Seen by anna: demo: spike since step 379"
    assert built(tmp_path, state, page("resolve")).text.startswith("It is over: loss within 2%")
    over = raised(failed(), resolved="the run was started again", resolved_by="anna", resolved_s=NOW_S)
    taken_up = built(tmp_path, over, page("resolve"))
    assert taken_up.text.startswith("Resolved: the run was started again (by anna).\n\nBROKE   Spike")
    assert built(tmp_path, failed(), page("resolve")).text.startswith("It is over.\n"), "its verdict is not why"


def test_what_follows_and_what_answers_it_depend_on_how_the_run_stands(tmp_path: Path) -> None:
    run_dir = tmp_path / "demo"
    waits = spiked(approval=AwaitedApproval(1, NOW_S + 270, "deny"))
    exhausted = spiked(state=IncidentState.EXHAUSTED, onset_step=379)
    going_on = replace(exhausted, plan=None)
    held = replace(failed(), ended="", held="out of remedies", end_reason="")
    cases: list[tuple[RunState, str, list[str]]] = [
        (waits, "is passed over in 4 min 30 s", ["approve", "deny", "ack", "incidents"]),
        (failed(), "the run has failed", ["ack", "run", "resolve", "incidents"]),
        (replace(waits, ended="stopped"), "the run was stopped: nothing trains until", ["ack", "run", "incidents"]),
        (replace(waits, ended="suspended"), "was suspended: the next start goes on with it", ["ack", "run", "incidents"]),
        (replace(exhausted, giving_up="stop_now"), "being stopped; then nothing", ["ack", "run", "resolve", "incidents"]),
        (held, "training is held", ["ack", "resume", "stop", "resolve", "incidents"]),
        (going_on, "is suspect", ["ack", "rollback", "hold", "resolve", "incidents"]),
        (replace(going_on, observe_only=True), "observes only", ["ack", "resolve", "incidents"]),
        (replace(spiked(), paused="anna"), "paused by anna", ["ack", "resume", "incidents"]),
    ]
    known = set(getattr(typer.main.get_command(app), "commands", {}))
    for state, follows, commands in cases:
        notice = built(run_dir, state)
        assert follows in notice.text, notice.text
        assert [answer.split()[1] for answer in notice.answers] == commands, follows
        assert {answer.split()[1] for answer in notice.answers} <= known
        assert all(str(run_dir) in answer for answer in notice.answers)
    assert f"sentinel rollback --to 378 {run_dir}" in built(run_dir, going_on).answers
    out = replace(going_on, excluded=(Excluded("n2", going_on.incidents[-1].id, 0.0), Excluded("n3", 99, 0.0)))
    answers = built(run_dir, out).answers
    assert f"sentinel uncordon n2 {run_dir}" in answers
    assert not [answer for answer in answers if "n3" in answer], "another incident's"
    assert built(run_dir, going_on, page("resolve")).answers == ()


def test_what_follows_says_which_rung_is_tried_and_whether_a_step_was_made(tmp_path: Path) -> None:
    patient = " ".join(built(tmp_path, state_of(told(90.5))).text.split())
    assert "NEXT training goes on (attempt 2) rung 1 (patience: wait up to 40 steps) is being tried" in patient
    launched = " ".join(built(tmp_path, state_of(told(93))).text.split())
    said = "attempt 3 is launched and has made no step yet rung 2 (roll back to step 350; skip samples) is on probation"
    assert said in launched
    assert "training goes on (attempt 3)" in built(tmp_path, state_of(told(97))).text


def test_one_rank_is_one_rank(tmp_path: Path) -> None:
    run_dir = write_streamed(tmp_path / "demo")
    stream = run_dir / "attempts" / "0002" / "metrics.jsonl"
    stream.write_text(stream.read_text().replace('"world_size": 2', '"world_size": 1'))
    assert "since it showed on 1 rank may" in built(run_dir, state_of(told(90.5))).text


def test_the_command_that_starts_it_again_names_its_policy(tmp_path: Path) -> None:
    run_dir = write_streamed(tmp_path / "with space" / "demo")
    assert f"sentinel run --policy demo --run-dir '{run_dir}'" in built(run_dir, failed()).answers
    (run_dir / "run.json").write_text("{damaged")
    assert f"sentinel run --run-dir '{run_dir}'" in built(run_dir, failed()).answers


def test_waiting_has_a_price(tmp_path: Path) -> None:
    run_dir = write_streamed(tmp_path / "demo")
    stopped = failed()
    assert stopped.attempt is not None
    assert stopped.attempt.last_step_s == at(90.9)
    idle = at(90.9 + 5400)
    known = replace(stopped, attempts=(*stopped.attempts[:-1], replace(stopped.attempt, gpus=2)))
    priced = replace(known, price=Price(2.5, "USD"))
    text = " ".join(build_notice(run_dir, priced, page(), Paging(), idle).text.split())
    said = "2 ranks have stood still for 1 h 30 min: 3.00 GPU hours, 7.50 USD at 2.5 each; each further hour 2 more, 5.00 USD"
    assert said in text
    text = " ".join(build_notice(run_dir, known, page(), Paging(), idle).text.split())
    assert "1 h 30 min: 3.00 GPU hours; each further hour 2 more" in text
    text = " ".join(build_notice(run_dir, stopped, page(), Paging(), idle).text.split())
    assert "2 ranks have stood still for 1 h 30 min" in text
    assert "GPU hours" not in text, "ranks alone prove no GPU"
    assert "nothing has trained for" in built(tmp_path / "gone", stopped).text
    assert "COST" not in built(run_dir, state_of(told())).text, "nothing waits in a run that has finished"


def test_links_lead_where_the_policy_says(tmp_path: Path) -> None:
    paging = Paging(runbook_url="https://wiki/runbook", run_url="http://gpu1:9100/")
    links = built(tmp_path / "demo", spiked(), paging=paging).links
    assert links == {
        "runbook": "https://wiki/runbook#spike", "page": f"http://gpu1:9100/#run=demo&began={int(START_S)}",
        "report": f"http://gpu1:9100/runs/demo/incidents/2/report?began={int(START_S)}",
    }  # fmt: skip
    own = raised(spiked(), runbook_url="https://team/spikes#mine")
    assert built(tmp_path / "demo", own, None, paging).links["runbook"] == "https://team/spikes#mine"
    assert built(tmp_path / "demo", spiked()).links == {}


def test_a_page_that_only_this_machine_reaches_is_no_link_and_the_text_says_how_to_come_there(tmp_path: Path) -> None:
    """Where `--listen` is on its usual loopback: the report's file is there still when sentinel has ended."""
    run_dir, host = tmp_path / "demo", socket.gethostname()
    for url in ("http://127.0.0.1:9464/", "http://[::1]:9464/", "http://localhost:9464"):
        told = built(run_dir, spiked(), paging=Paging(run_url=url))
        way = f"(on {host} only; from elsewhere: ssh -L 9464:127.0.0.1:9464 {host})"
        assert f"page:    {url.rstrip('/')}/#run=demo&began={int(START_S)} {way}" in told.text
        assert f"report:  {run_dir}/incidents/0002/report.html" in told.text
        assert web_links(told) == {}
        assert set(told.links) == {"page", "report"}, "for a program on this machine"
    seen = built(run_dir, spiked(), paging=Paging(run_url="https://runs.example/"))
    assert f"page:    https://runs.example/#run=demo&began={int(START_S)}\n" in f"{seen.text}\n"
    assert f"report:  https://runs.example/runs/demo/incidents/2/report?began={int(START_S)}" in seen.text
    assert set(web_links(seen)) == {"page", "report"}


def test_a_run_whose_directory_was_renamed_is_linked_by_the_name_that_the_page_knows(tmp_path: Path) -> None:
    links = built(tmp_path / "moved", spiked(), paging=Paging(run_url="https://runs.example")).links
    assert links["report"] == f"https://runs.example/runs/moved/incidents/2/report?began={int(START_S)}"


def test_what_is_missing_or_damaged_is_left_out(tmp_path: Path) -> None:
    nowhere = built(tmp_path / "gone", spiked())
    assert "VALUES" in nowhere.text
    assert "▁" not in nowhere.text
    run_dir = write_streamed(tmp_path / "demo")
    path = write_steps(run_dir, 2, [1])
    path.write_bytes(b"\xff\x00{garbage\n" * 50_000 + b'{"step": "x"}\n{"step": 5, "loss": "NaN"}\n')
    assert "now: the budget is spent" in built(run_dir, spiked()).text
    unknown = built(run_dir, spiked(), page(incident=77))
    assert "tried: wait" in unknown.text, "then the engine's words are all there is"
    assert unknown.title == "demo: spike since step 379"
    assert built(tmp_path, RunState(), page(incident=1)).text


def test_a_bug_in_the_case_does_not_cost_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> list[str]:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(case, "draw_plot", broken)
    notice = built(write_streamed(tmp_path / "demo"), spiked())
    assert notice.text.startswith(ENGINE)
    assert "ZeroDivisionError" in notice.text
    assert notice.answers


def test_a_page_is_bounded_and_its_answers_are_never_what_is_cut(tmp_path: Path) -> None:
    tries = tuple(Try(Remedy(n, ("rollback",), "r" * 9000), at(91), 380, n, Outcome.FAILED, "x" * 9000) for n in range(64))
    state = spiked(tries=tries, reason="y" * 50_000, alert="z" * 5000)
    notice = built(write_streamed(tmp_path / "demo"), state, page(text="e" * 100_000))
    assert len(notice.text) <= TEXT_CHARS_MAX
    assert "sentinel ack 2" in notice.text
    assert "RUNBOOK.md#spike" in notice.text
    assert len(built(tmp_path, state, replace(page(), title="t" * 999)).title) == TITLE_CHARS_MAX


def test_secrets_and_control_characters_never_reach_a_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_API_KEY", "0123456789abcdef-local")
    hostile = "rank 0: train.py --hf-token hf_abcdefghijklmnopqrstuv DB_PASSWORD=hunter2 at 0123456789abcdef-local\x1b[31m\u202e"
    state = spiked(reason=hostile, blamed_node="node\x07\r\n7", value="--api-key=sesame", verdict=hostile)
    for stage in ("trigger", "resolve"):
        notice = built(write_streamed(tmp_path / "demo"), state, replace(page(stage, text=hostile), title=hostile))
        told_all = "\n".join([notice.title, notice.text, *notice.facts.values(), *notice.answers])
        for secret in ("hf_abc", "hunter2", "0123456789abcdef", "sesame"):
            assert secret not in told_all
        assert all(character.isprintable() or character == "\n" for character in told_all)
        assert "\n" not in notice.title
        assert notice.document()["facts"] == dict(notice.facts)


def test_every_kind_has_a_title_that_says_since_when(tmp_path: Path) -> None:
    for kind in KINDS:
        incident = Incident(1, kind, "critical", "Alert", "p", 1, None, 9, 9, at(1), at(2), "it broke")
        notice = built(tmp_path, RunState(run_id="r", incidents=(incident,)), page("update", incident=1))
        assert notice.title == f"Changed: r: {kind} at step 9"
        assert re.search(rf"#{kind}$", notice.text, re.MULTILINE)


@pytest.mark.parametrize("fault", ["nan_state@step=39:always", "hang@step=50", "spike@step=60", "crash@step=50"])
def test_a_page_has_its_case_wherever_a_run_stands(tmp_path: Path, fault: str) -> None:
    """Every state that a simulated run goes through, at every stage of a page about each of its incidents."""
    result, state, looked = simulate(fault), RunState(), 0
    for entry in result.entries:
        state = evolve(state, entry.at_s, entry.fact)
        if not isinstance(entry.fact, (f.IncidentOpened, f.RungTaken, f.RungJudged, f.IncidentMoved, f.PlanAdopted, f.RunEnded)):
            continue
        for incident in state.incidents:
            for stage in ("trigger", "resolve"):
                notice = build_notice(tmp_path, state, page(stage, incident=incident.id), Paging(), entry.at_s)
                assert "could not be drawn up" not in notice.text
                assert ("ANSWER" in notice.text) == (stage == "trigger")
                assert len(notice.text) < TEXT_CHARS_MAX / 2
                looked += 1
    assert looked > 4


def test_what_a_button_may_ask_is_what_makes_sense_now(tmp_path: Path) -> None:
    waiting = spiked()
    assert built(tmp_path, waiting).asks == {"acknowledge": None}
    incidents = (*waiting.incidents[:-1], replace(waiting.incidents[-1], approval=AwaitedApproval(2, at(500), "deny"), rung=2))
    asked = replace(waiting, incidents=incidents)
    assert built(tmp_path, asked).asks == {"acknowledge": None, "approve": 2, "deny": 2}
    seen = replace(asked, incidents=(*incidents[:-1], replace(incidents[-1], acknowledged_by="ada")))
    assert built(tmp_path, seen, page("acknowledge")).asks == {"approve": 2, "deny": 2}
    assert built(tmp_path, asked, page("resolve")).asks == {}


def test_a_directory_whose_name_is_not_utf8_keeps_nobody_from_being_called(tmp_path: Path) -> None:
    """The page in the browser knows it by the same name."""
    links = built(tmp_path / os.fsdecode(b"run \xff"), spiked(), paging=Paging(run_url="https://runs.example")).links
    assert links["page"] == f"https://runs.example/#run=run%20%3F&began={int(START_S)}"
