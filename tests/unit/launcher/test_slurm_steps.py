"""The launcher of steps against a Slurm in memory: one step per attempt name, an end that is proven, nothing out of silence."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from sentinel.detectors.crash import choose_first, describe
from sentinel.errors import EngineDown, NotYet, UsageError
from sentinel.launcher.exit_report import read_report, write_report
from sentinel.launcher.newest_view import NewestView
from sentinel.launcher.registry import LaunchPlace, find_row, open_launcher, settings_of
from sentinel.launcher.slurm.answers import Reply
from sentinel.launcher.slurm.attempt import build_end, read_launched, write_launched
from sentinel.model.attempts import Alive, AttemptView, Exited, NotStarted, Unseen
from sentinel.run_files.attempt_files import AttemptFiles
from tests.unit.launcher.slurm_double import DEAF, JOB, REFUSED, Bench, SlurmDouble, StepDouble


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    (tmp_path / "run").mkdir()
    return Bench(tmp_path / "run")


def until_seen(bench: Bench, kind: type[AttemptView], attempt: int = 1) -> Any:
    """By one supervisor that looks every second."""
    return until_seen_by(bench.launcher(), bench, kind, attempt)


def until_seen_by(launcher: Any, bench: Bench, kind: type[AttemptView], attempt: int = 1, looks: int = 40) -> Any:
    for _ in range(looks):
        view = launcher.observe(attempt)
        if isinstance(view, kind):
            return view
        bench.slurm.let_pass(1.0)
    raise AssertionError(f"it is still {view}")


def test_a_step_is_started_once_whoever_asks(bench: Bench) -> None:
    assert bench.launcher().observe(1) == NotStarted(1)
    for _ in range(3):
        assert isinstance(bench.launcher().ensure_started(bench.spec()), Alive)
    assert bench.slurm.created == [bench.name()]
    words = list(bench.slurm.started_words[0])
    for option, value in (("--jobid", JOB), ("--nodelist", "n1,n2,n3"), ("--nodes", "3"), ("--ntasks", "3")):
        assert words[words.index(option) + 1] == value
    assert words[-1] == "train"
    assert "--overlap" in words
    assert "--kill-on-bad-exit=0" in words
    assert isinstance(until_seen(bench, Alive), Alive)


def test_a_step_whose_folder_was_lost_is_adopted_by_its_name(bench: Bench) -> None:
    """A run directory that was put back to an earlier day."""
    bench.launcher().ensure_started(bench.spec())
    shutil.rmtree(bench.folder())
    assert isinstance(bench.launcher().ensure_started(bench.spec()), Alive)
    assert bench.slurm.created == [bench.name()]
    assert isinstance(bench.launcher().ensure_stopped(1), Exited)


@pytest.mark.parametrize("call", ["steps", "job", "hosts"])
def test_an_answer_that_is_cut_in_its_list_of_nodes_ends_nothing(
    bench: Bench, call: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client is gone, and the step lives on n2 and n3. A full disk has taken `n1` of `n1,n2,n3`, and the status is 0."""
    bench.launcher().ensure_started(bench.spec())
    step, ask = bench.slurm.step(bench.name()), getattr(bench.slurm, call)
    step.is_slow, step.living = True, {"n2", "n3"}
    bench.slurm.clients[bench.name()].end()

    def cut(about: str) -> Reply:
        whole = ask(about)
        return Reply(0, whole.output[: whole.output.rindex("n1") + 2], whole.errors)

    monkeypatch.setattr(bench.slurm, call, cut)
    with pytest.raises(NotYet, match="cut"):
        bench.launcher().ensure_stopped(1)


def test_two_attempts_meet_at_different_ports(bench: Bench) -> None:
    bench.launcher().ensure_started(bench.spec())
    bench.launcher().ensure_stopped(1)
    bench.launcher().ensure_started(bench.spec(2))
    kept = [read_launched(AttemptFiles.of(bench.run_dir, number)) for number in (1, 2)]
    assert kept[0] is not None
    assert kept[1] is not None
    assert kept[0].port != kept[1].port


def test_a_step_that_ends_is_believed_after_two_looks(bench: Bench) -> None:
    bench.launcher().ensure_started(bench.spec())
    task = bench.folder() / "tasks" / "rank-00001.json"
    task.write_text('{"code": 137}')
    bench.slurm.end(bench.name())
    view = until_seen(bench, Exited)
    assert [(rank.rank, rank.signal, rank.source) for rank in view.report.ranks] == [(1, 9, "reaped")]
    assert view.report.first_failed_rank == 1
    assert (bench.folder() / "exit.json").exists()
    assert isinstance(bench.launcher().observe(1), Exited)


def test_what_is_left_of_an_attempt_that_lost_a_rank_is_killed_after_a_grace(bench: Bench) -> None:
    """Their silence would be taken for a hang."""
    bench.launcher().ensure_started(bench.spec())
    launcher = bench.launcher()
    assert isinstance(launcher.observe(1), Unseen | Alive)
    (bench.folder() / "tasks" / "rank-00000.json").write_text('{"code": 6}')
    for _ in range(10):
        bench.slurm.let_pass(1.0)
        launcher.observe(1)
    assert not bench.slurm.cancelled, "it left as it was asked"
    (bench.folder() / "tasks" / "rank-00002.json").write_text('{"code": 134}')
    launcher.observe(1)
    assert not bench.slurm.cancelled, "the others leave their records first"
    view = until_seen_by(launcher, bench, Exited, looks=6)
    assert bench.slurm.cancelled == [(f"{JOB}.1", None)]
    assert view.report.first_failed_rank == 2


def test_an_end_is_told_without_a_word_of_blindness_before(bench: Bench) -> None:
    bench.launcher().ensure_started(bench.spec())
    launcher = bench.launcher()
    launcher.observe(1)
    (bench.folder() / "tasks" / "rank-00002.json").write_text('{"code": 1}')
    bench.slurm.end(bench.name())
    views = []
    for _ in range(8):
        bench.slurm.let_pass(0.5)
        views.append(type(launcher.observe(1)))
    assert Unseen not in views
    assert views[-1] is Exited


def test_a_stop_is_believed_when_the_list_is_without_it(bench: Bench) -> None:
    bench.launcher().ensure_started(bench.spec())
    view = bench.launcher().ensure_stopped(1)
    assert isinstance(view, Exited)
    assert view.report.reason == "stopped by sentinel"
    assert bench.slurm.cancelled == [(f"{JOB}.1", None)]
    assert isinstance(bench.launcher().ensure_stopped(1), Exited)
    assert len(bench.slurm.cancelled) == 1


def test_a_stop_without_an_effect_is_not_yet_one(bench: Bench) -> None:
    bench.launcher().ensure_started(bench.spec())
    bench.slurm.step(bench.name()).is_slow = True
    with pytest.raises(NotYet, match="n1, n2, n3 any more: touch"):
        bench.launcher().ensure_stopped(1)
    assert not (bench.folder() / "exit.json").exists()


def test_a_controller_that_does_not_answer_proves_nothing(bench: Bench) -> None:
    bench.launcher().ensure_started(bench.spec())
    launcher = bench.launcher()
    assert isinstance(until_seen(bench, Alive), Alive)
    bench.slurm.is_deaf = True
    for _ in range(120):
        bench.slurm.let_pass(1.0)
        launcher.observe(1)
    assert isinstance(launcher.observe(1), Unseen)
    with pytest.raises(NotYet, match="Socket timed out"):
        bench.launcher().ensure_stopped(1)
    with pytest.raises(EngineDown, match=f"its step may exist in job {JOB}"):
        bench.launcher().ensure_started(bench.spec(2))
    assert bench.slurm.created == [bench.name()]
    assert not (bench.folder() / "exit.json").exists()
    bench.slurm.is_deaf = False
    bench.slurm.let_pass(10.0)
    launcher.observe(1)
    assert isinstance(launcher.observe(1), Alive)


def test_an_empty_list_starts_nothing(bench: Bench) -> None:
    bench.slurm.listed.clear()
    with pytest.raises(EngineDown, match=f"may exist in job {JOB}: .*not even that of its batch script"):
        bench.launcher().ensure_started(bench.spec())
    assert not bench.slurm.started_words


def test_a_refused_launch_is_trouble_of_the_engine_and_keeps_its_number(bench: Bench) -> None:
    bench.slurm.on_start = SlurmDouble.is_refused
    for _ in range(2):
        with pytest.raises(EngineDown, match="Requested nodes are busy"):
            bench.launcher().ensure_started(bench.spec())
    assert REFUSED in (bench.folder() / "logs" / "launcher.err").read_text()
    bench.slurm.on_start = SlurmDouble.runs
    assert isinstance(bench.launcher().ensure_started(bench.spec()), Alive)
    assert bench.slurm.created == [bench.name()]


def test_a_client_that_ends_without_such_words_has_used_its_number(bench: Bench) -> None:
    def fails(slurm: SlurmDouble, name: str, client: Any, place: Any) -> None:
        (place.logs / "launcher.err").write_text(
            "srun: error: Unable to create step for job 71: More processors requested than permitted\n"
        )
        client.end(1)

    bench.slurm.on_start = fails
    bench.launcher().ensure_started(bench.spec())
    report = until_seen(bench, Exited).report
    assert len(bench.slurm.started_words) == 1
    assert "its client said: srun: error: Unable to create step for job 71: More processors requested" in report.reason
    assert "ranks_per_node=1: the job holds fewer CPUs" in report.reason
    assert "--exclusive" in report.reason


def test_an_end_of_ranks_that_were_heard_is_not_told_by_the_client(bench: Bench) -> None:
    bench.launcher().ensure_started(bench.spec())
    (AttemptFiles.of(bench.run_dir, 1).logs / "launcher.err").write_text("srun: error: n2: task 1: Killed\n")
    bench.beat(0, 5, "n1")
    bench.slurm.end(bench.name())
    assert "its client said" not in until_seen(bench, Exited).report.reason


def test_a_client_that_waits_for_a_step_is_waited_for(bench: Bench) -> None:
    bench.slurm.on_start = SlurmDouble.waits
    with pytest.raises(EngineDown, match="its client waits for a step"):
        bench.launcher().ensure_started(bench.spec())
    with pytest.raises(EngineDown, match="its client waits for a step"):
        bench.launcher().ensure_started(bench.spec())
    assert len(bench.slurm.started_words) == 1, "no second client beside it"
    until_seen(bench, Unseen)
    assert not (bench.folder() / "exit.json").exists(), "a step may still come of it"
    bench.slurm.runs(bench.name(), bench.slurm.clients[bench.name()], None)  # type: ignore[arg-type]
    assert isinstance(bench.launcher().ensure_started(bench.spec()), Alive)


def test_a_stop_ends_a_client_that_waits_for_a_step(bench: Bench) -> None:
    bench.slurm.on_start = SlurmDouble.waits
    launcher = bench.launcher()
    with pytest.raises(EngineDown, match="its client waits for a step"):
        launcher.ensure_started(bench.spec())
    assert isinstance(launcher.ensure_stopped(1), Exited)
    assert bench.slurm.clients[bench.name()].poll() == -9


def test_a_refused_launch_of_which_a_rank_was_heard_has_used_its_number(bench: Bench) -> None:
    """srun could not reach one node, and others had begun."""
    bench.slurm.on_start = SlurmDouble.is_refused
    with pytest.raises(EngineDown, match="Requested nodes are busy"):
        bench.launcher().ensure_started(bench.spec())
    bench.beat(0, 0, "n1")
    bench.launcher().ensure_started(bench.spec())
    assert len(bench.slurm.started_words) == 1
    assert isinstance(until_seen(bench, Exited), Exited)


def test_what_was_refused_in_another_job_is_started_in_this_one(bench: Bench) -> None:
    bench.slurm.on_start = SlurmDouble.is_refused
    with pytest.raises(EngineDown, match="Requested nodes are busy"):
        bench.launcher().ensure_started(bench.spec())
    kept = read_launched(AttemptFiles.of(bench.run_dir, 1))
    assert kept is not None
    write_launched(AttemptFiles.of(bench.run_dir, 1), replace(kept, job="70"))
    bench.slurm.on_start = SlurmDouble.runs
    assert isinstance(bench.launcher().ensure_started(bench.spec()), Alive)


def test_what_was_listed_in_another_job_is_not_started_in_this_one(bench: Bench) -> None:
    bench.launcher().ensure_started(bench.spec())
    kept = read_launched(AttemptFiles.of(bench.run_dir, 1))
    assert kept is not None
    write_launched(AttemptFiles.of(bench.run_dir, 1), replace(kept, job="70"))
    bench.slurm.listed = [StepDouble(f"{JOB}.batch", "batch", ["n1"])]
    bench.slurm.clients[bench.name()].end()
    bench.launcher().ensure_started(bench.spec())
    assert len(bench.slurm.started_words) == 1
    assert isinstance(until_seen(bench, Unseen), Unseen), "job 70 lists nothing, and it is not known to be over"


def test_the_words_of_a_client_of_before_are_no_word_of_this_one(bench: Bench) -> None:
    """It may have started a step that nobody saw: the number is used."""
    bench.slurm.on_start = SlurmDouble.is_refused
    with pytest.raises(EngineDown, match="Requested nodes are busy"):
        bench.launcher().ensure_started(bench.spec())
    bench.slurm.on_start = lambda slurm, name, client, place: client.end(-9)
    bench.launcher().ensure_started(bench.spec())
    assert isinstance(until_seen(bench, Exited), Exited)
    assert len(bench.slurm.started_words) == 2


def test_two_attempts_that_are_looked_at_in_turn_are_both_seen(bench: Bench) -> None:
    bench.launcher().ensure_started(bench.spec(1))
    bench.launcher().ensure_started(bench.spec(2))
    launcher = bench.launcher()
    for _ in range(3):
        views = [launcher.observe(number) for number in (1, 2)]
        bench.slurm.let_pass(1.0)
    assert [type(view) for view in views] == [Alive, Alive]


def test_a_thread_that_cannot_be_started_is_started_later() -> None:
    calls: list[int] = []

    def beside(work: Callable[[], None]) -> None:
        calls.append(1)
        if len(calls) == 1:
            raise RuntimeError("can't start new thread")
        work()

    watch = NewestView(1, lambda: (Alive(1, 0, ()), 1.0), lambda: 0.0, beside, "Slurm")
    assert isinstance(watch.view(), Unseen)
    assert isinstance(watch.view(), Alive)


def test_a_question_that_breaks_is_no_view(bench: Bench) -> None:
    bench.launcher().ensure_started(bench.spec())
    launcher = bench.launcher()
    assert isinstance(until_seen_by(launcher, bench, Alive), Alive)
    bench.slurm.steps = lambda job: 1 / 0  # type: ignore[method-assign,assignment,return-value]
    assert "ZeroDivisionError" in until_seen_by(launcher, bench, Unseen).reason


def test_another_attempt_that_is_listed_is_ended_first(bench: Bench) -> None:
    bench.launcher().ensure_started(bench.spec(3))
    assert isinstance(bench.launcher().ensure_started(bench.spec(2)), Alive), "a journal was put back to an earlier day"
    assert (f"{JOB}.1", None) in bench.slurm.cancelled
    assert [step.name for step in bench.slurm.listed] == ["batch", bench.name(2)]


def test_nothing_is_started_beside_one_that_does_not_end(bench: Bench) -> None:
    bench.launcher().ensure_started(bench.spec(1))
    bench.launcher().ensure_stopped(1)
    bench.slurm.runs(bench.name(1), bench.slurm.clients[bench.name(1)], None)  # type: ignore[arg-type]
    bench.slurm.step(bench.name(1)).is_slow = True
    with pytest.raises(EngineDown, match="while attempt 1 may live"):
        bench.launcher().ensure_started(bench.spec(2))
    assert bench.name(2) not in bench.slurm.created


def test_a_step_that_stays_listed_has_ended_where_no_node_has_anything_of_it(bench: Bench) -> None:
    """Slurm 22.05: a node dies while the others end, and the step is never completed."""
    bench.launcher().ensure_started(bench.spec())
    step = bench.slurm.step(bench.name())
    step.stays = True
    bench.slurm.silent = {"n2"}
    before = bench.slurm.probes
    with pytest.raises(NotYet, match="n2 does not answer, and the controller has not given it up"):
        bench.launcher().ensure_stopped(1)
    assert bench.slurm.probes - before < 5, "the controller is asked about a silent node, and not the node again and again"
    bench.slurm.silent, bench.slurm.down = set(), {"n2"}
    view = bench.launcher().ensure_stopped(1)
    assert isinstance(view, Exited)
    assert "given up n2" in view.report.reason
    bench.options = {"nodes": "2"}
    assert isinstance(bench.launcher().ensure_started(bench.spec(2)), Alive), "what is listed of it holds up nobody"
    assert bench.slurm.step(bench.name(2)).nodes == ["n1", "n3"]


def test_a_step_whose_client_died_before_its_tasks_is_seen_to_be_empty(bench: Bench) -> None:
    bench.launcher().ensure_started(bench.spec())
    step = bench.slurm.step(bench.name())
    step.living.clear()
    assert isinstance(until_seen(bench, Alive), Alive), "while its client lives, tasks may come"
    bench.slurm.clients[bench.name()].end(-9)
    assert isinstance(until_seen(bench, Exited), Exited)


def test_ranks_live_on_without_their_client(bench: Bench) -> None:
    bench.launcher().ensure_started(bench.spec())
    bench.slurm.clients[bench.name()].end(-9)
    launcher, views = bench.launcher(), []
    before = bench.slurm.probes
    for _ in range(1200):
        views.append(launcher.observe(1))
        bench.slurm.let_pass(1.0)
    assert {type(view) for view in views[2:]} == {Alive}
    assert bench.slurm.probes - before < 10, "each is a step of the job, and their number is limited"
    bench.slurm.end(bench.name())
    assert isinstance(until_seen_by(launcher, bench, Exited), Exited)


def test_silent_nodes_are_out_of_this_attempt_and_blamed_ones_of_all(bench: Bench) -> None:
    bench.options = {"nodes": "1"}
    bench.slurm.silent = {"n1"}
    bench.launcher().ensure_started(bench.spec(1, "n2"))
    assert bench.slurm.step(bench.name(1)).nodes == ["n3"]
    bench.slurm.silent = set()
    bench.launcher().ensure_stopped(1)
    bench.launcher().ensure_started(bench.spec(2, "n2"))
    assert bench.slurm.step(bench.name(2)).nodes == ["n1"]


def test_too_few_nodes_are_trouble_of_the_engine(bench: Bench) -> None:
    bench.slurm.silent = {"n2"}
    with pytest.raises(EngineDown, match=r"2 of the 3 nodes of the job can take part .n2 is silent., and 3 are needed"):
        bench.launcher().ensure_started(bench.spec())
    assert not bench.slurm.started_words
    bench.options = {"least": "2"}
    assert isinstance(bench.launcher().ensure_started(bench.spec()), Alive)


def test_a_later_start_of_the_job_is_the_schedulers_word(bench: Bench) -> None:
    bench.launcher().ensure_started(bench.spec())
    bench.slurm.listed = [StepDouble(f"{JOB}.batch", "batch", ["n2"])]
    bench.environ["SLURM_RESTART_COUNT"] = "1"
    assert isinstance(until_seen(bench, Exited), Exited)


def test_in_another_job_the_job_of_before_is_asked(bench: Bench) -> None:
    bench.launcher().ensure_started(bench.spec())
    bench.environ["SLURM_JOB_ID"] = "72"
    assert isinstance(until_seen(bench, Alive), Alive)
    bench.slurm.listed.clear()
    assert isinstance(until_seen(bench, Unseen), Unseen)
    bench.slurm.job_state = "TIMEOUT"
    assert isinstance(until_seen(bench, Exited), Exited)


def test_a_job_that_is_forgotten_ends_its_attempt_where_the_controller_has_not_been_started_since(bench: Bench) -> None:
    """Slurm forgets a job MinJobAge (300 s by default) after its end; the next job of the run may begin much later."""
    bench.launcher().ensure_started(bench.spec())
    bench.environ["SLURM_JOB_ID"] = "72"
    bench.slurm.listed.clear()
    bench.slurm.forgotten, bench.slurm.booted = {JOB}, "2099-01-01T00:00:00"
    assert "may have lost its state" in until_seen(bench, Unseen).reason
    bench.slurm.booted = "2020-01-01T00:00:00"
    assert "forgotten" in until_seen(bench, Exited).report.reason


@pytest.mark.parametrize("number", [JOB, "72"])
def test_a_job_of_another_cluster_cannot_be_asked_here(bench: Bench, number: str) -> None:
    """Two clusters, one filesystem: a job of that number here is another one."""
    bench.environ["SLURM_CLUSTER_NAME"] = "east"
    bench.launcher().ensure_started(bench.spec())
    bench.environ |= {"SLURM_CLUSTER_NAME": "west", "SLURM_JOB_ID": number, "SLURM_RESTART_COUNT": "1"}
    bench.slurm.listed = [StepDouble(f"{JOB}.batch", "batch", ["n1"])] if number == JOB else []
    bench.slurm.job_state = "COMPLETED"
    assert "another cluster" in until_seen_by(bench.launcher(), bench, Unseen).reason
    launcher = bench.launcher()
    for _ in range(10):
        bench.slurm.let_pass(5.0)
        assert isinstance(launcher.observe(1), Unseen)


def test_each_attempt_is_asked_about_anew(bench: Bench) -> None:
    """However rarely the nodes of the one before were asked in the end."""
    launcher = bench.launcher()
    launcher.ensure_started(bench.spec())
    bench.slurm.clients[bench.name()].end(-9)
    for _ in range(1200):
        bench.slurm.let_pass(1.0)
        launcher.observe(1)
    launcher.ensure_stopped(1)
    launcher.ensure_started(bench.spec(2))
    bench.slurm.step(bench.name(2)).living.clear()
    bench.slurm.step(bench.name(2)).stays = True
    bench.slurm.clients[bench.name(2)].end(-9)
    assert isinstance(until_seen_by(launcher, bench, Exited, 2), Exited)


def test_a_supervisor_that_outlives_its_job_sees_that_it_is_over(bench: Bench) -> None:
    """Slurm lost sight of it when its batch script died of SIGTERM (22.05, proctrack/linuxproc); it held the lease for ever."""
    bench.launcher().ensure_started(bench.spec())
    bench.slurm.listed.clear()
    assert isinstance(until_seen(bench, Unseen), Unseen), "a controller that has just started lists nothing, too"
    bench.slurm.job_state = "CANCELLED"
    assert isinstance(bench.launcher().ensure_stopped(1), Exited)


def test_a_person_ends_the_doubt(bench: Bench) -> None:
    bench.launcher().ensure_started(bench.spec())
    bench.slurm.is_deaf = True
    (bench.folder() / "gone").touch()
    assert isinstance(until_seen(bench, Exited), Exited)


def test_ranks_are_signalled_through_slurm(bench: Bench) -> None:
    assert bench.launcher().signal_ranks(1, 10) == 0
    bench.launcher().ensure_started(bench.spec())
    assert bench.launcher().signal_ranks(1, 10) == 3
    assert bench.slurm.cancelled == [(f"{JOB}.1", 10)]


def test_who_only_looks_asks_nobody(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.launcher().ensure_started(bench.spec())
    looking = open_launcher("slurm", {}, LaunchPlace(bench.run_dir))
    monkeypatch.setenv("PATH", "")
    assert isinstance(looking.observe(1), Alive)


def test_the_node_that_was_given_up_is_blamed_unless_a_rank_speaks_for_itself(bench: Bench) -> None:
    bench.launcher().ensure_started(bench.spec())
    files = AttemptFiles.of(bench.run_dir, 1)
    launched = read_launched(files)
    assert launched is not None
    for rank, host in enumerate(("n1", "n2", "n3")):
        bench.beat(rank, 5, host)
    for rank in (0, 2):
        (files.exits / f"rank-0000{rank}.json").write_text(json.dumps({"rank": rank, "code": 1, "peer_lost": True}))
    assert build_end(files, launched, "", lost=()).first_failed_rank == 1, "the one silent rank"
    report = build_end(files, launched, "", lost=("n2",))
    assert (report.first_failed_rank, report.lost_nodes) == (1, ("n2",))
    write_report(files, report)
    assert read_report(files) == report
    assert describe(choose_first(report), report) == "rank 1 went with its node: the scheduler has given up n2"
    (files.exits / "rank-00002.json").write_text(json.dumps({"rank": 2, "code": 5, "error": "the loss is no number"}))
    report = build_end(files, launched, "", lost=("n2",))
    assert (report.first_failed_rank, report.lost_nodes) == (2, ())


def test_outside_of_an_allocation_the_remedy_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    row = find_row("slurm")
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    with pytest.raises(UsageError, match=r"no Slurm allocation.*sbatch"):
        row.check(("sh",), str(tmp_path), settings_of(row, {}))
    monkeypatch.setenv("SLURM_JOB_ID", "71")
    monkeypatch.setenv("SLURM_JOB_NUM_NODES", "2")
    row.check(("sh",), str(tmp_path), settings_of(row, {}))
    with pytest.raises(UsageError, match="nodes=3: this job has 2 nodes"):
        row.check(("sh",), str(tmp_path), settings_of(row, {"nodes": "3"}))
    row.check(("sh",), str(tmp_path), settings_of(row, {"nodes": "1", "spares": "2"}))
    with pytest.raises(UsageError, match="spares=2: this job has 2 nodes, and none would be left to train"):
        row.check(("sh",), str(tmp_path), settings_of(row, {"spares": "2"}))
    monkeypatch.setenv("SLURM_JOB_ID", "abc")
    with pytest.raises(UsageError, match="SLURM_JOB_ID=abc is no number"):
        row.check(("sh",), str(tmp_path), settings_of(row, {}))


@pytest.mark.parametrize(
    ("option", "value"),
    [("nodes", "0"), ("nodes", "-1"), ("spares", ""), ("spares", "x"), ("least", "0"), ("ranks_per_node", "²"), ("every", "5"),
     ("srun", "--comment='x"), ("probe", "soon"), ("srun", "-N2"), ("srun", "--mpi=none -J other"), ("srun", "--job-n=other"),
     ("srun", "--nodelist n1"), ("srun", "--exclude=n1"), ("srun", "--ntasks 4")],
)  # fmt: skip
def test_options_that_make_no_sense_are_refused(option: str, value: str) -> None:
    with pytest.raises(UsageError, match=f"--launcher-option {option}"):
        settings_of(find_row("slurm"), {option: value})


def test_other_words_for_srun_are_handed_on() -> None:
    words = "--gpus-per-node=8 --cpu-bind=none --mpi=pmix -c 8 --exclusive --ntasks-per-core=1 --no-kill --network=x"
    assert settings_of(find_row("slurm"), {"srun": words}).srun == words  # type: ignore[attr-defined]


class Killed(BaseException):
    """The supervisor, by SIGKILL."""


def die_at(line: int) -> Callable[[FrameType, str, Any], Any]:
    """Of the lines of the launcher that are executed. None of those that handle an exception: what is raised there from outside
    stays with the interpreter as the context of whatever is raised later."""
    left = [line]

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        del argument
        if "/launcher/slurm/" not in frame.f_code.co_filename:
            return None
        if event == "line" and sys.exc_info()[0] is None:
            left[0] -= 1
            if left[0] < 0:
                raise Killed
        return trace

    return trace


def close_what_it_held(bench: Bench) -> None:
    """As the kernel does for a process that has died; its client holds the lock on."""
    kept = [client._lock for client in bench.slurm.clients.values()]
    for number in os.listdir("/proc/self/fd"):
        with suppress(OSError):
            if int(number) not in kept and os.readlink(f"/proc/self/fd/{number}") == str(bench.folder() / "start.lock"):
                os.close(int(number))


@pytest.mark.parametrize("kind", ["runs", "runs_later"])
def test_killed_after_any_line_there_is_one_step_of_the_name(tmp_path: Path, kind: str) -> None:
    """Every second line, and the lines between for the other kind of client."""
    deaths, line = 0, int(kind == "runs_later")
    while True:
        run_dir = tmp_path / f"run-{line}"
        run_dir.mkdir()
        bench = Bench(run_dir)
        bench.slurm.on_start = getattr(SlurmDouble, kind)
        before = sys.gettrace()
        sys.settrace(die_at(line))
        try:
            bench.launcher().ensure_started(bench.spec())
            is_dead = False
        except Killed:
            is_dead = True
        finally:
            sys.settrace(before)
        close_what_it_held(bench)
        view = bench.launcher().ensure_started(bench.spec())
        assert isinstance(view, Alive), f"killed at line {line}: {view}"
        assert bench.slurm.created == [bench.name()], f"killed at line {line}"
        bench.slurm.clients[bench.name()].end()
        if not is_dead:
            break
        deaths, line = deaths + 1, line + 2
    assert deaths > 50


def test_replies_that_lie_once_start_no_second_step(bench: Bench) -> None:
    """Whatever one question is answered, in whichever place of a start: it is started once, or not at all."""
    odd = [DEAF, Reply(0, ""), Reply(None, ""), Reply(0, "rubbish\n"), Reply(0, "", is_cut=True)]
    for place in range(3):
        for reply in odd:
            attempt = 10 * place + odd.index(reply) + 1
            bench.slurm.replies = [Reply(0, bench.slurm.steps(JOB).output)] * place + [reply]
            for _ in range(3):
                try:
                    bench.launcher().ensure_started(bench.spec(attempt))
                except EngineDown:
                    continue
            bench.slurm.replies = []
            assert bench.slurm.created.count(bench.name(attempt)) == 1
