"""What the cards below the curves are told: ranks with their silence, GPUs, checkpoints, ends of logs, a rule's own words."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sentinel.client.strict_json import dumps
from sentinel.paging.runbook import RUNBOOK
from sentinel.policy_files.loading import load_policy, shipped_policy_path
from sentinel.report.following import FollowedRun, RunSnapshot
from sentinel.run_files.detector_standings import DetectorStandings, read_standings
from sentinel.run_files.gpu_standing import GpuStanding, gpu_documents, read_gpus
from sentinel.run_files.heartbeats import RankSeen
from sentinel.run_files.stall import Stall
from sentinel.telemetry.gpu_sample import read_sample
from sentinel.web import cards
from sentinel.web.cards import blamed_rank, checkpoints_document, log_document, machines_document, rule_document
from tests.unit.run_files.test_heartbeats import beat
from tests.unit.web.web_kit import TOKEN, served, write_told
from tests.unit.web_page.simulated_run import SimulatedRun

GPU = {"index": 0, "name": "H100", "bus": "00000000:3B:00.0", "temperature_c": 91, "throttle": ["HW thermal"]}


def seen(rank: int, silent_s: float, step: int = 400) -> RankSeen:
    return RankSeen(rank, step, "forward", silent_s, "node-1")


@pytest.fixture
def snapshot(tmp_path: Path) -> RunSnapshot:
    return FollowedRun(write_told(tmp_path, until=100)).refresh()


def stalled(snapshot: RunSnapshot, monkeypatch: pytest.MonkeyPatch, for_s: float = 40.0) -> RunSnapshot:
    monkeypatch.setattr(cards, "stall_of", lambda *_: Stall(snapshot.now_s - for_s, 0.2))
    return snapshot


def test_a_silence_has_a_tone_only_while_a_hang_is_suspected(snapshot: RunSnapshot, monkeypatch: pytest.MonkeyPatch) -> None:
    ranks = [seen(0, 0.2), seen(1, 45.0), seen(2, 0.1)]
    calm = machines_document(snapshot, ranks)["ranks"]
    assert [(row["rank"], row["tone"]) for row in calm["ranks"]] == [(0, ""), (1, ""), (2, "")]
    assert calm["suspected"] == ""
    assert (calm["count"], calm["phases"], calm["steps"]) == (3, {"forward": 3}, [400, 400])
    told = machines_document(stalled(snapshot, monkeypatch), ranks)["ranks"]
    assert [(row["rank"], row["tone"]) for row in told["ranks"]] == [(1, "warn"), (0, ""), (2, "")]
    assert told["suspected"].startswith("no step for 40 s")


def test_a_young_suspicion_colours_the_ranks_that_were_silent_for_most_of_it(
    snapshot: RunSnapshot, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = machines_document(stalled(snapshot, monkeypatch, 6.0), [seen(0, 0.4), seen(1, 5.9)])["ranks"]
    assert [(row["rank"], row["tone"]) for row in told["ranks"]] == [(1, "warn"), (0, "")]


def test_the_blamed_rank_is_red_and_first(snapshot: RunSnapshot, monkeypatch: pytest.MonkeyPatch) -> None:
    *rest, last = snapshot.state.incidents
    attempt = snapshot.state.attempt
    assert attempt is not None
    hang = replace(last, kind="hang", blamed_rank=2, attempt=attempt.attempt)
    blamed = replace(snapshot, state=replace(snapshot.state, incidents=(*rest, hang)))
    document = machines_document(stalled(blamed, monkeypatch), [seen(0, 0.2), seen(1, 45.0), seen(2, 0.1)])["ranks"]
    assert [(row["rank"], row["tone"], row["blamed"]) for row in document["ranks"]] == [
        (1, "bad", False), (2, "bad", True), (0, "", False),
    ]  # fmt: skip


def test_of_many_ranks_those_that_matter_are_shown(snapshot: RunSnapshot, monkeypatch: pytest.MonkeyPatch) -> None:
    ranks = [seen(rank, 60.0 if rank == 7_000 else 0.3) for rank in range(8_192)]
    document = machines_document(stalled(snapshot, monkeypatch), ranks)["ranks"]
    assert (document["count"], len(document["ranks"]), document["ranks"][0]["rank"]) == (8_192, cards.RANKS_SHOWN, 7_000)


def test_gpus_are_those_that_the_supervisor_wrote_down(tmp_path: Path, snapshot: RunSnapshot) -> None:
    sample = read_sample(GPU)
    assert sample is not None
    told = gpu_documents([sample])
    (read,) = read_gpus(told)
    assert (read.name, read.temperature_c, read.busy_percent, read.troubles) == ("H100", 91, None, ("slowed down: HW thermal",))
    verdict = ("gpu_fault", "breached", "Xid 79 on GPU 0")
    senses = DetectorStandings(time_s=snapshot.now_s - 4.0, gpus=(read,), verdicts=(verdict,))
    document = machines_document(replace(snapshot, senses=senses), [])["gpus"]
    assert (document["age_s"], document["missing"]) == (4.0, "")
    assert document["fault"] == {"verdict": "breached", "reason": "Xid 79 on GPU 0"}
    assert [gpu | {"troubles": list(gpu["troubles"])} for gpu in document["gpus"]] == told


def test_an_older_supervisor_tells_of_no_gpu_and_that_is_said(tmp_path: Path, snapshot: RunSnapshot) -> None:
    old = {"v": 1, "time_s": 5.0, "attempt": 1, "step": 2, "detectors": []}
    (tmp_path / "senses.json").write_text(dumps(old))
    senses = read_standings(tmp_path)
    assert (senses.missing, senses.gpus) == ("", ())
    assert "older" in machines_document(replace(snapshot, senses=senses), [])["gpus"]["missing"]
    (tmp_path / "senses.json").write_text(dumps(old | {"gpus": [{"index": "x"}]}))
    assert "damaged" in read_standings(tmp_path).missing


def test_checkpoints_are_those_of_the_command_newest_first(snapshot: RunSnapshot) -> None:
    document = checkpoints_document(snapshot)
    steps = [one["step"] for one in document["checkpoints"]]
    assert steps == sorted(steps, reverse=True)
    assert len(steps) > 1
    assert document["mirror"] is None
    told = set(SimulatedRun().checkpoints()["checkpoints"][0])
    assert set(document["checkpoints"][0]) == told, "the pages' own tests are shown the real shape"


def test_the_ends_of_the_logs_are_the_launchers_and_the_blamed_ranks_masked(snapshot: RunSnapshot) -> None:
    number = snapshot.state.attempts[-1].attempt
    logs = snapshot.run_dir / "attempts" / f"{number:04d}" / "logs"
    assert "has no log here" in log_document(snapshot)["missing"]
    logs.mkdir()
    (logs / "launcher.err").write_text("\n".join(f"line {n}" for n in range(200)) + "\n")
    for rank in (0, 1, 2):
        (logs / f"rank-{rank}.out").write_text(f"I am {rank}, password=hunter2-and-more\n")
    document = log_document(snapshot)
    assert [log["label"] for log in document["logs"]] == ["launcher, errors", "rank 0"]
    assert document["logs"][0]["lines"] == [f"line {n}" for n in range(140, 200)]
    assert "hunter2" not in dumps(document)
    *rest, last = snapshot.state.incidents
    state = replace(snapshot.state, incidents=(*rest, replace(last, attempt=number, blamed_rank=2)))
    assert blamed_rank(state) == 2
    blamed = log_document(replace(snapshot, state=state))
    assert [log["label"] for log in blamed["logs"]] == ["launcher, errors", "rank 2 (blamed)"]
    older = replace(snapshot.state, incidents=(replace(last, attempt=number - 1, blamed_rank=2),))
    assert blamed_rank(older) is None, "what an older attempt was blamed for says nothing of this one's logs"


def test_without_a_policy_a_rule_says_nothing(snapshot: RunSnapshot) -> None:
    assert rule_document(None, snapshot.state.incidents[0]) == {"notes": [], "runbook": "", "labels": {}}


def test_they_come_over_http(tmp_path: Path) -> None:
    run_dir = write_told(tmp_path, until=100)
    for rank in (0, 1):
        beat(run_dir, 3, rank, 600, "forward")
    with served(run_dir, token=TOKEN) as site:
        machines: dict[str, Any] = site.get("/api/runs/demo/machines").json
        assert [row["rank"] for row in machines["ranks"]["ranks"]] == [0, 1]
        assert set(machines["ranks"]) == set(SimulatedRun().machines()["ranks"])
        assert set(machines["gpus"]) == set(SimulatedRun().machines()["gpus"])
        assert site.get("/api/runs/demo/checkpoints").json["run"] == "demo"
        assert set(site.get("/api/runs/demo/log").json) == set(SimulatedRun().log())


def test_a_gpu_is_read_as_it_was_written() -> None:
    gpu = GpuStanding(3, "H200", True, None, None, None, None, None, ("lost: the driver cannot reach it",))
    assert read_gpus(gpu_documents([gpu])) == (gpu,)


def test_a_hang_of_an_attempt_that_was_ended_is_none_of_the_ranks_that_beat_now(snapshot: RunSnapshot) -> None:
    *rest, last = snapshot.state.incidents
    attempt = snapshot.state.attempt
    assert attempt is not None

    def told(of: int) -> tuple[str, bool]:
        state = replace(snapshot.state, incidents=(*rest, replace(last, kind="hang", attempt=of)))
        document = machines_document(replace(snapshot, state=state), [seen(0, 0.2), seen(1, 0.3)])["ranks"]
        return document["suspected"], document["is_believed"]

    assert told(attempt.attempt - 1) == ("", False)
    assert told(attempt.attempt) == (last.reason, True)


def test_the_runbook_is_named_by_where_it_can_be_read(snapshot: RunSnapshot) -> None:
    """`RUNBOOK.md#spike` alone is a name that nobody finds at night; a page that is sent has the same place."""
    incident = replace(snapshot.state.incidents[-1], alert="Spike")
    demo = load_policy(shipped_policy_path("demo"))
    assert rule_document(demo, incident)["runbook"] == f"{RUNBOOK}#spike"
    paging = demo.spec.paging.model_copy(update={"runbook_url": "https://wiki/runbook"})
    ours = demo.model_copy(update={"spec": demo.spec.model_copy(update={"paging": paging})})
    assert rule_document(ours, incident)["runbook"] == "https://wiki/runbook#spike"
