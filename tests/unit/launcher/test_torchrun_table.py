"""The failure table as torch 2.13 really printed it, amid the workers' own noise."""

from __future__ import annotations

from sentinel.launcher.torchrun_table import NO_TABLE, parse_failure_table

TABLE = """\
W1120 15:54:00.670000 4335 torch/distributed/elastic/multiprocessing/api.py:1028] Sending process 4338 closing signal SIGTERM
Traceback (most recent call last):
torch.distributed.elastic.multiprocessing.errors.ChildFailedError: 
======================================================
t.py FAILED
------------------------------------------------------
Failures:
[1]:
  time      : 2026-11-20_15:54:00
  host      : localhost
  rank      : 0 (local_rank: 0)
  exitcode  : -15 (pid: 4338)  (SIGTERM)
  error_file: <N/A>
  traceback : Signal 15 (SIGTERM) received by PID 4338
------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2026-11-20_15:54:00
  host      : localhost
  rank      : 1 (local_rank: 1)
  exitcode  : -9 (pid: 4339)  (SIGKILL)
  error_file: <N/A>
  traceback : Signal 9 (SIGKILL) received by PID 4339
======================================================
"""  # noqa: W291


def test_every_rank_of_the_table_is_read_and_the_root_cause_is_named() -> None:
    table = parse_failure_table(TABLE)
    assert table.exits == {0: -15, 1: -9}
    assert table.pids == {0: 4338, 1: 4339}
    assert table.root == 1


def test_a_table_of_one_has_no_other_failures() -> None:
    start, end = TABLE.index("[1]:"), TABLE.index("------------------------------------------------------\nRoot")
    table = parse_failure_table(TABLE[:start] + "  <NO_OTHER_FAILURES>\n" + TABLE[end:])
    assert (table.exits, table.root) == ({1: -9}, 1)


def test_the_last_of_two_tables_counts() -> None:
    second = TABLE.replace("-15 (pid: 4338)", "6 (pid: 5000)").replace("-9 (pid: 4339)", "5 (pid: 5001)")
    assert parse_failure_table(TABLE + second).exits == {0: 6, 1: 5}


def test_a_trainers_own_words_are_no_table() -> None:
    assert parse_failure_table("") == NO_TABLE
    assert parse_failure_table("assertion FAILED\n  rank      : 3 (local_rank: 3)\n  exitcode  : -9 (pid: 1)\n") == NO_TABLE


def test_a_table_cut_short_gives_what_stands_in_it() -> None:
    table = parse_failure_table(TABLE[: TABLE.index("Root Cause")])
    assert (table.exits, table.root) == ({0: -15}, None)


def test_a_number_that_no_rank_or_process_has_is_not_torchruns() -> None:
    for rank, code in (("65536", "1"), ("1" * 5000, "1"), ("1", "9" * 5000)):
        title = "=" * 9 + "\nt.py FAILED\n" + "-" * 9
        table = f"{title}\n[0]:\n  rank      : {rank} (local_rank: 0)\n  exitcode  : {code} (pid: 12)\n"
        assert parse_failure_table(table) == NO_TABLE
