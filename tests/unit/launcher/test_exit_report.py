"""Which source is believed about a rank's end, and which rank failed first."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sentinel.launcher.exit_report import (
    Evidence,
    build_report,
    read_code,
    read_object,
    read_pid,
    read_records,
    read_report,
    read_start_failure,
    write_report,
)
from sentinel.launcher.rank_watch import RankWatch
from sentinel.launcher.torchrun_table import FailureTable
from sentinel.model.attempts import ExitReport, RankExit
from sentinel.model.readings import Heartbeat
from sentinel.run_files.attempt_files import AttemptFiles
from sentinel.telemetry.heartbeats import Heartbeats

LOST = {"code": 1, "error": "Connection closed by peer", "peer_lost": True}


def one(evidence: Evidence, rank: int = 0) -> RankExit:
    return next(ended for ended in build_report(evidence, "because").ranks if ended.rank == rank)


def test_the_ranks_own_record_is_believed_before_everything_else() -> None:
    record = {"code": 6, "error": None}
    evidence = Evidence(1, {0}, {0: record}, {0: -9}, FailureTable({0: 1}, {}, 0))
    assert one(evidence) == RankExit(0, 6, None, "record")


def test_then_the_status_the_keeper_saw_then_the_launchers_table() -> None:
    assert one(Evidence(1, {0}, {}, {0: -9}, FailureTable({0: 1}, {}, 0))).source == "reaped"
    seen = one(Evidence(1, {0}, {}, {}, FailureTable({0: -9}, {}, 0)))
    assert (seen.code, seen.signal, seen.source) == (None, 9, "launcher")


def test_a_record_without_a_code_gives_its_error_to_the_next_source() -> None:
    assert one(Evidence(1, {0}, {0: {"error": "CUDA error: 700"}}, {0: 1})) == RankExit(0, 1, None, "reaped", "CUDA error: 700")
    assert one(Evidence(1, {0, 1}, {0: {"code": True}})).source == "unknown"


def test_the_launchers_status_speaks_for_a_rank_only_when_it_is_the_only_one() -> None:
    assert one(Evidence(1, {0, 1})) == RankExit(0, None, None, "unknown")
    assert one(Evidence(4, {0})) == RankExit(0, 4, None, "launcher")
    shell = one(Evidence(137, {0}))
    assert (shell.code, shell.signal) == (None, 9)


def test_the_0_of_the_torchrun_that_started_them_is_its_word_over_ranks_nobody_else_saw_end() -> None:
    report = build_report(Evidence(0, {0, 1}, vouched={0, 1}), "")
    assert report.ranks == (RankExit(0, 0, None, "launcher"), RankExit(1, 0, None, "launcher"))
    assert report.first_failed_rank is None
    assert one(Evidence(0, {0, 1}, {0: {"code": 3}}, vouched={0, 1})).code == 3, "what the rank says of itself comes first"


def test_a_command_without_ranks_is_rank_zero_and_one_that_never_ran_has_none() -> None:
    assert build_report(Evidence(0), "").ranks == (RankExit(0, 0, None, "reaped"),)
    assert build_report(Evidence(None), "").ranks == ()


@pytest.mark.parametrize(
    ("evidence", "first"),
    [
        (Evidence(1, {0, 1}, {}, {0: 1, 1: -9}, failed_order=(1, 0)), 1),
        (Evidence(1, {0}, {}, {0: -15}, FailureTable({0: -15, 1: 1}, {}, 1), failed_order=(0,)), 1),
        (Evidence(1, {0, 1}, {}, {0: -15, 1: -9}, FailureTable({0: -15, 1: -9}, {}, 0), failed_order=(1, 0)), 1),
        (Evidence(1, {0, 1}, {}, {0: -15}, FailureTable({0: -15, 1: -9}, {}, 1), failed_order=(0, 1)), 1),
        (Evidence(1, {0, 1}, {}, {0: -15, 1: -15}, FailureTable({0: -15, 1: -15}, {}, 1), failed_order=(0, 1)), 0),
        (Evidence(1, {0, 1}, {}, {0: 1, 1: -15}, FailureTable({0: 1, 1: -15}, {}, 0), failed_order=(1, 0)), 1),
        (Evidence(1, {0, 1}, {0: {"code": 1}}, {1: -15}, FailureTable({0: 1, 1: -15}, {}, 0), failed_order=(1, 0)), 1),
        (Evidence(1, {0, 1}, {0: {"code": 6}, 1: {"code": 6}}, {}, FailureTable({0: 6, 1: 6}, {}, 1)), None),
        (Evidence(-9, {0, 1}, {}, {0: -9, 1: -9}, was_killed=True), None),
        (Evidence(1, {0, 1}, {0: {"code": 0}, 1: {"code": 5}}), 1),
        (Evidence(0), None),
        (Evidence(1), 0),
        (Evidence(1, {0, 1}, {0: LOST}, {1: -9}, failed_order=(0, 1)), 1),
        (Evidence(1, {0, 1, 2}, {0: LOST, 1: {"code": 1}}, failed_order=(0, 1)), 1),
        (Evidence(1, {0, 1, 2}, {0: LOST}, {}, FailureTable({0: 1, 2: -9}, {}, 2), failed_order=(0,)), 2),
        (Evidence(1, {0, 1, 2}, {0: LOST, 1: LOST}, failed_order=(0, 1)), 2),
        (Evidence(1, {0, 1, 2}, {0: LOST, 1: LOST}, failed_order=(0, 1), was_killed=True), 2),
        (Evidence(1, {0, 1, 2}, {0: LOST}, failed_order=(0,)), None),
        (Evidence(1, {0, 1}, {0: LOST, 1: LOST}, {}, FailureTable({0: 1, 1: 1}, {}, 0), failed_order=(0, 1)), None),
        (Evidence(-9, {0, 1}, {0: {"code": 0}}, was_killed=True), None),
        (Evidence(1, {0, 1}, {0: LOST}, {1: -15}, failed_order=(0, 1)), None),
        (Evidence(1, {0, 1}, {0: LOST}, {1: -15}, failed_order=(1, 0)), 1),
        (Evidence(1, {0}, {0: LOST}, failed_order=(0,)), 0),
    ],
    ids=[
        "seen first",
        "only the table saw it",
        "seen beats the table",
        "seen in one look",
        "both terminated",
        "terminated from outside, and torchrun saw both ends in one look",
        "the same, and the other says how it ended",
        "all orderly",
        "killed",
        "records",
        "done",
        "plain",
        "a lost peer is no cause",
        "beside an error of its own",
        "nor what torchrun's table knows",
        "the one silent rank",
        "also where the rest was killed then",
        "of two silent ones nobody",
        "nobody where all lost their peers",
        "killed, one silent",
        "who was terminated for it did not fail",
        "who was terminated before it did",
        "one rank has no peers",
    ],
)
def test_the_first_failed_rank(evidence: Evidence, first: int | None) -> None:
    assert build_report(evidence, "").first_failed_rank == first


def test_that_a_rank_lost_its_peers_comes_back_from_the_file(tmp_path: Path) -> None:
    files = AttemptFiles.of(tmp_path, 3)
    files.make_folders()
    write_report(files, build_report(Evidence(1, {0, 1}, {0: LOST, 1: {"code": 1, "peer_lost": "yes"}}), ""))
    report = read_report(files)
    assert report is not None
    assert [rank.lost_peers for rank in report.ranks] == [True, False]


def test_a_report_comes_back_from_its_file_as_it_was(tmp_path: Path) -> None:
    files = AttemptFiles.of(tmp_path, 3)
    assert read_report(files) is None
    report = ExitReport(1, (RankExit(0, 6, None, "record", "é\n"), RankExit(1, None, 9, "reaped")), 1, "rank 1 was killed")
    write_report(files, report)
    assert read_report(files) == report
    assert read_start_failure(files) is None
    write_report(files, ExitReport(None, (), None, "no such program"), "certain")
    assert read_start_failure(files) == "certain"


@pytest.mark.parametrize("code", [10**400, -(2**31), "1", 1.0, True, [1]])
def test_a_code_that_no_process_can_have_is_none(code: object) -> None:
    assert read_code({"code": code}) is None


@pytest.mark.parametrize("pid", [10**400, 0, -1, "7", 7.0, [7], None])
def test_a_pid_that_no_process_can_have_is_none(pid: object) -> None:
    assert read_pid({"pid": pid}) is None


def test_a_record_nested_too_deeply_is_no_record(tmp_path: Path) -> None:
    path = tmp_path / "rank-00000.json"
    path.write_text("[" * 200_000)
    assert read_object(path) is None


def test_half_a_character_in_an_error_can_be_printed_when_it_comes_back() -> None:
    report = build_report(Evidence(records={0: {"code": 1, "error": "bad \ud800"}}), "")
    assert report.ranks[0].error == "bad ?"


@pytest.mark.parametrize("rank", [{"rank": 0, "code": 10**40, "signal": None, "source": "record"}, [], {"rank": None}])
def test_a_report_with_a_rank_that_makes_no_sense_names_its_file(tmp_path: Path, rank: object) -> None:
    files = AttemptFiles(tmp_path, 1)
    files.folder.mkdir(parents=True)
    files.exit.write_text(json.dumps({"command_status": None, "ranks": [rank]}))
    with pytest.raises(ValueError, match="is not an exit report"):
        read_report(files)


def test_a_report_written_by_hand_needs_only_two_keys_and_a_broken_one_names_its_file(tmp_path: Path) -> None:
    files = AttemptFiles.of(tmp_path, 3)
    files.make_folders()
    files.exit.write_text('{"command_status":null,"ranks":[]}')
    assert read_report(files) == ExitReport(None, (), None, "")
    files.exit.write_text("[]")
    with pytest.raises(ValueError, match=r"exit\.json"):
        read_report(files)


BEYOND = "rank-99999999999999.json"


def test_a_number_that_no_rank_has_is_left_out_by_keeper_and_supervisor_alike(tmp_path: Path) -> None:
    files = AttemptFiles.of(tmp_path, 1)
    files.make_folders()
    watch = RankWatch(files, lambda pid: True, lambda pid: None)
    for folder in (files.exits, files.heartbeats):
        for name in (BEYOND, f"rank-{'9' * 200}.json", "rank-65536.json", "rank-00003.json"):
            (folder / name).write_text(json.dumps({"code": 1, "step": 5, "phase": "forward"}))
    watch.poll()
    assert (set(watch.records), watch.ranks) == ({3}, {3})
    assert set(read_records(files)) == {3}
    assert [beat.rank for beat in Heartbeats(tmp_path, 1).poll(0.0) if isinstance(beat, Heartbeat)] == [3]
    report = build_report(Evidence(-9, watch.ranks, watch.records), "it died")
    write_report(files, report)
    assert read_report(files) == report


def test_what_an_older_keeper_recorded_of_such_a_number_is_left_out(tmp_path: Path) -> None:
    files = AttemptFiles.of(tmp_path, 1)
    ranks = (RankExit(3, 1, None, "record"), RankExit(99999999999999, 1, None, "record"))
    write_report(files, ExitReport(-9, ranks, 99999999999999, "it died"))
    assert read_report(files) == ExitReport(-9, ranks[:1], None, "it died")


def test_what_was_left_behind_is_written_and_read(tmp_path: Path) -> None:
    files = AttemptFiles.of(tmp_path, 1)
    files.folder.mkdir(parents=True)
    for count in (0, 2):
        write_report(files, build_report(Evidence(0, left_behind=count), "the command ended with code 0"))
        assert ("left_behind" in json.loads(files.exit.read_text())) is (count > 0)
        found = read_report(files)
        assert found is not None
        assert found.left_behind == count
