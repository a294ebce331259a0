# ruff: noqa: E501 - lines of logs, as printed
"""`sentinel autopsy`: who died first, where, why; logs of many ranks, folders, compressed logs, and what cannot be read."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import os
import pickle
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sentinel.cli.root import app
from sentinel.detectors.crash_patterns import CrashClass
from sentinel.report import autopsy, autopsy_logs
from sentinel.report.autopsy import examine
from sentinel.report.autopsy_words import advice, autopsy_document, autopsy_text
from tests.unit.report.death_logs import CASES, GLOO, HEALTHY, LOST, OOM, STEPS, TB, Case, by, table

PEER = (
    'Traceback (most recent call last):\n  File "/opt/train/train.py", line 214, in <module>\n    main()\n'
    '  File "/opt/train/train.py", line 180, in main\n    loss.backward()\n  File "/opt/torch/_tensor.py", line 521, in backward\n'
    "    torch.autograd.backward(\n" + LOST
)


def fan_out(ranks: int, label: str = "[rank{}]: ") -> str:
    """Rank 5 runs out of memory, then every peer prints nine lines of its broken connection."""
    peers = (by(label.format(rank), PEER) for rank in range(ranks) if rank != 5)
    return "\n".join(["iteration 120 / 400 | lm loss: 2.1", by(label.format(5), TB + OOM), *peers, ""])


def written(folder: Path, text: str, name: str = "run.log") -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_kind_of_death(tmp_path: Path, case: Case) -> None:
    found = examine(written(tmp_path, case.text))
    assert (None if found.crash is None else found.crash.value, found.rank) == (case.crash, case.rank)
    if case.root is None:
        assert (found.line, found.evidence, found.blamed, found.error) == (None, None, (), None)
    else:
        assert found.line is not None
        assert case.root in case.text.split("\n")[found.line - 1]
        assert found.blamed == (() if case.rank is None else (case.rank,))


def test_a_healthy_log_shows_no_death_wherever_it_breaks_off(tmp_path: Path) -> None:
    lines = HEALTHY.split("\n")
    for end in range(1, len(lines)):
        assert examine(written(tmp_path, "\n".join(lines[:end]) + "\n")).crash is None, lines[end - 1]


@pytest.mark.parametrize("label", ["[rank{}]: ", "{0}: [rank{0}]: ", "[default0]:[rank{}]: ", "node{0}: [rank{0}]: "])
@pytest.mark.parametrize("ranks", [8, 128, pytest.param(1024, marks=pytest.mark.slow), pytest.param(4096, marks=pytest.mark.slow)])
def test_the_cause_is_found_before_the_tracebacks_of_any_number_of_ranks(tmp_path: Path, ranks: int, label: str) -> None:
    found = examine(written(tmp_path, fan_out(ranks, label)))
    assert (found.crash, found.rank, found.line) == (CrashClass.OUT_OF_MEMORY, 5, 5)


def test_4096_ranks_in_one_log(tmp_path: Path) -> None:
    found = examine(written(tmp_path, fan_out(4096)))
    assert (found.crash, found.rank, found.blamed, found.line) == (CrashClass.OUT_OF_MEMORY, 5, (5,), 5)


def test_lines_are_counted_in_the_file_and_not_in_what_was_read_of_it(tmp_path: Path) -> None:
    many = "".join(f"iteration {n} / 40000 | lm loss: 2.1\n" for n in range(1, 20_001))
    found = examine(written(tmp_path, many + by("[rank3]: ", TB + OOM) + "\n" + by("[rank0]: ", TB + LOST)))
    assert (found.line, found.rank, found.last_step) == (20_004, 3, 20_000)


@pytest.mark.parametrize(("pack", "end"), [(gzip.compress, "gz"), (bz2.compress, "bz2"), (lzma.compress, "xz")])
def test_a_compressed_log_gives_the_same_answer(tmp_path: Path, pack, end: str) -> None:
    path = tmp_path / f"run.log.{end}"
    path.write_bytes(pack(fan_out(128).encode()))
    found = examine(path)
    assert (found.crash, found.rank, found.line) == (CrashClass.OUT_OF_MEMORY, 5, 5)


def test_a_folder_is_one_run_and_the_files_of_ranks_name_them(tmp_path: Path) -> None:
    for rank in range(100):
        written(tmp_path, STEPS, f"rank-{rank:05d}.out")
        written(tmp_path, TB + (OOM if rank == 41 else LOST) + "\n", f"rank-{rank:05d}.err")
    (tmp_path / "model.safetensors").write_bytes(b"\0" * 100)
    found = examine(tmp_path)
    assert (found.crash, found.rank, found.line) == (CrashClass.OUT_OF_MEMORY, 41, 4)
    assert found.log == tmp_path / "rank-00041.err"
    document = autopsy_document(found)
    assert document["file"] == str(tmp_path)
    assert document["log"] == str(tmp_path / "rank-00041.err")


def test_torchrun_s_own_folders_of_logs(tmp_path: Path) -> None:
    for rank in range(4):
        written(tmp_path, TB + (OOM if rank == 2 else GLOO) + "\n", f"none_1/attempt_0/{rank}/stderr.log")
    found = examine(tmp_path)
    assert (found.crash, found.rank) == (CrashClass.OUT_OF_MEMORY, 2)


@pytest.mark.parametrize("name", ["attempts/000{}/logs/rank-00002.err", "none_1/attempt_{}/2/stderr.log"])
def test_of_several_attempts_the_newest_counts(tmp_path: Path, name: str) -> None:
    written(tmp_path, TB + OOM + "\n", name.format(1))
    written(tmp_path, TB + "ValueError: bad shape\n", name.format(2))
    found = examine(tmp_path)
    assert (found.crash, found.rank, found.log) == (CrashClass.ERROR, 2, tmp_path / name.format(2))


def test_what_was_cut_off_a_log_comes_before_the_rest_of_it(tmp_path: Path) -> None:
    written(tmp_path, TB + OOM + "\n", "rank-00002.err.tail")
    written(tmp_path, "[sentinel cut this log at 9 bytes]\nsaid since\n", "rank-00002.err")
    written(tmp_path, TB + "ValueError: long ago\n", "rank-00002.err.head")
    found = examine(tmp_path)
    assert (found.crash, found.rank, found.log) == (CrashClass.OUT_OF_MEMORY, 2, tmp_path / "rank-00002.err.tail")


def test_a_folder_of_nodes_logs_with_labels_inside(tmp_path: Path) -> None:
    for node in range(4):
        lines = (by(f"[rank{8 * node + local}]: ", TB + (OOM if (node, local) == (2, 3) else LOST)) for local in range(8))
        written(tmp_path, STEPS + "\n".join(lines) + "\n", f"node-{node}.log")
    found = examine(tmp_path)
    assert (found.crash, found.rank, found.log) == (CrashClass.OUT_OF_MEMORY, 19, tmp_path / "node-2.log")


def test_the_one_silent_rank_is_blamed_for_a_timeout_and_torchrun_s_own_kill_is_nobody_s_death(tmp_path: Path) -> None:
    text = (
        by("[default0]:", STEPS.rstrip()) + "\n[default1]:CRITICAL:inject_fault:sending signal=<Signals.SIGSTOP: 19> to pid=32069\n"
        + by("[default0]:[rank0]: ", TB + "RuntimeError: [gloo/transport/tcp/unbound_buffer.cc:78] Timed out waiting 15000ms for recv operation to complete")
        + "\nW1122 22:26:35.990000 31957 torch/distributed/elastic/multiprocessing/api.py:1047] Unable to shutdown process 5101 via 15, forcefully "
        "exiting via 9\n"
    )  # fmt: skip
    for end in ("", table((0, 1), (1, -9))):
        found = examine(written(tmp_path, text + end))
        assert (found.crash, found.rank, found.seen_by) == (CrashClass.COLLECTIVE_TIMEOUT, 1, 0)
    third = by("[default2]:", "step 20 loss 0.1\nhello") + "\n"
    found = examine(written(tmp_path, text + third))
    assert found.rank is None  # two were silent: it may have been either


def test_what_lies_beyond_the_bound_is_unknown_and_said(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(autopsy_logs, "SEARCH_BYTES_MAX", 200_000)
    path = written(tmp_path, by("[rank5]: ", TB + OOM) + "\n" + "a line without a meaning\n" * 40_000)
    found = examine(path)
    assert (found.crash, found.is_cut) == (None, True)
    assert "as far as it was searched" in autopsy_text(found)
    assert autopsy_document(found)["is_cut"] is True


def dump(path: Path, *open_numbers: int) -> None:
    """Of a group of three ranks."""
    entries = [
        {"process_group": ("0", "pg"), "collective_seq_id": n, "profiling_name": "nccl:all_reduce", "state": "scheduled", "is_p2p": False}
        for n in open_numbers
    ]
    groups = {"0": {"name": "0", "desc": "pg", "ranks": "[0, 1, 2]"}}
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(pickle.dumps({"pg_config": groups, "entries": entries}))


def test_flight_recorder_dumps_name_whom_the_logs_do_not(tmp_path: Path) -> None:
    written(tmp_path, STEPS + "[rank0]: RuntimeError: Watchdog caught collective operation timeout: x\n" * 2)
    assert examine(tmp_path).blamed == ()
    for rank, numbers in enumerate(((7,), (6,), (7,))):
        dump(tmp_path / "traces" / f"rank_{rank}", *numbers)
    found = examine(tmp_path)
    assert (found.rank, found.blamed, found.line) == (1, (1,), STEPS.count("\n") + 1)
    assert "rank 1" in autopsy_text(found)


def test_a_folder_of_dumps_alone_is_answered_and_one_where_nobody_waits_blames_nobody(tmp_path: Path) -> None:
    for rank, numbers in enumerate(((7,), (6,), (7,))):
        dump(tmp_path / "hang" / f"_dump_{rank}", *numbers)
        dump(tmp_path / "calm" / f"_dump_{rank}")
    document = autopsy_document(examine(tmp_path / "hang"))
    assert (document["class"], document["rank"], document["blamed_ranks"]) == ("collective timeout", 1, [1])
    calm = autopsy_document(examine(tmp_path / "calm"))
    assert (calm["class"], calm["blamed_ranks"], calm["error"]) == (None, [], None)
    assert calm["reason"] == "unknown: no log in it, and the flight recorder's dumps of 3 ranks name nobody who is waited for"


def test_the_command_answers_every_argument_and_says_what_could_not_be_read(tmp_path: Path) -> None:
    good, calm = written(tmp_path, fan_out(8), "a.log"), written(tmp_path, STEPS, "b.log")
    zst, pipe, empty = tmp_path / "c.log.zst", tmp_path / "pipe", written(tmp_path, "", "empty.log")
    zst.write_bytes(b"\x28\xb5\x2f\xfd" + b"x" * 20)
    os.mkfifo(pipe)
    nothing = tmp_path / "folder"
    nothing.mkdir()
    paths = [good, tmp_path / "none.log", calm, zst, pipe, empty, nothing]
    result = CliRunner().invoke(app, ["autopsy", "--json", *map(str, paths)])
    documents = [json.loads(line) for line in result.stdout.splitlines()]
    assert result.exit_code == 1
    assert [document["file"] for document in documents] == [str(path) for path in paths]
    assert [document["class"] for document in documents] == ["out of memory", None, None, None, None, None, None]
    assert [document["error"] is None for document in documents] == [True, False, True, False, False, True, False]
    assert set(documents[0]) >= {"file", "class", "rank", "line", "evidence", "retryable", "blamed_ranks", "reason"}
    assert (documents[2]["rank"], documents[2]["line"], documents[2]["blamed_ranks"]) == (None, None, [])
    assert "zstd -d" in documents[3]["reason"]
    assert str(nothing) in documents[6]["reason"]
    assert CliRunner().invoke(app, ["autopsy", str(good), str(calm)]).exit_code == 0


def test_what_a_person_reads(tmp_path: Path) -> None:
    path = written(tmp_path, fan_out(8))
    assert autopsy_text(examine(path)) == "\n".join(
        (
            str(path),
            "  out of memory: rank 5",
            f"  run.log:5: {OOM}",
            "  the newest step line before it names step 120",
            "  what to do: relaunch; if it comes again at the same place, make the micro-batch smaller or free memory on the host",
        )
    )


def test_there_is_advice_for_every_class(tmp_path: Path) -> None:
    for crash in CrashClass:
        assert advice(autopsy.Autopsy(tmp_path, crash))
        assert advice(autopsy.Autopsy(tmp_path, crash, rank=3, blamed=(3,)))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("iteration 1 | lm loss: 2\nCUDA error: x\n".encode("utf-16"), "UTF-16 text; make a copy with: iconv -f UTF-16 -t UTF-8"),
        (b"<!DOCTYPE html><title>Sign in</title>CUDA out of memory", "a page of HTML or XML (Sign in) and no log; fetch the file itself"),
        (b"\x80\x02}q\x00.", "pickled Python objects"),
        (bytes(range(256)) * 8, "a binary file"),
        (gzip.compress("CUDA error".encode("utf-16"), mtime=0), "UTF-16 text"),
    ],
    ids=["UTF-16", "HTML", "pickle", "binary", "packed UTF-16"],
)
def test_nothing_is_concluded_from_what_is_no_text(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "run.log"
    path.write_bytes(content)
    found = examine(path)
    assert (found.crash, found.evidence) == (None, None)
    assert found.error is not None
    assert words in found.error
    assert CliRunner().invoke(app, ["autopsy", str(path)]).exit_code == 1
    written(tmp_path, STEPS + by("[rank1]: ", TB + OOM), "rank-1.log")
    found = examine(tmp_path)
    assert (found.crash, found.rank) == (CrashClass.OUT_OF_MEMORY, 1)
    assert len(found.unread) == 1
    assert words in found.unread[0]


def test_a_log_that_begins_with_a_hole_is_text(tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    path.write_bytes(bytes(5000) + (STEPS + by("[rank1]: ", TB + OOM)).encode())
    assert examine(path).rank == 1


def test_a_launch_far_above_the_end_still_begins_the_last_one(tmp_path: Path) -> None:
    """Of what stands before the last 600 lines only what may matter is kept: the beginning of a launch does."""
    begins = "WARNING:torch.distributed.run: Setting OMP_NUM_THREADS environment variable for each process to be 1\n"
    noise = "".join(f"building the index of shard {n}\n" for n in range(2000))
    first, second = by("[rank1]: ", TB + OOM), by("[rank5]: ", TB + "ValueError: the shards changed")
    found = examine(written(tmp_path, f"{begins}{STEPS}{first}\n{begins}{noise}{second}\n{noise}"))
    assert (found.crash, found.rank) == (CrashClass.ERROR, 5)


STAMPS = (
    "2026-11-20T10:00:0{}.5Z ", "2026-11-20 10:00:0{},123 ", "[2026-11-20 10:00:0{}] ", "2026-11-20T1{}:00:00+01:00 ",
    "E1120 10:00:0{}.903881913 4711 ",
)  # fmt: skip


@pytest.mark.parametrize("stamp", STAMPS)
def test_logs_of_several_nodes_are_ordered_by_the_times_of_their_lines(tmp_path: Path, stamp: str) -> None:
    """The node whose line came first, whichever file is read first and however far down its line stands."""
    for early, late in (("a", "b"), ("b", "a")):
        died = f"{stamp.format(3)}RuntimeError: CUDA error: an illegal memory access was encountered\n"
        followed = f"{stamp.format(7)}RuntimeError: CUDA error: unspecified launch failure\n"
        written(tmp_path, STEPS + "hello\n" * 20 + died, f"node-{early}.out")
        written(tmp_path, STEPS + followed, f"node-{late}.out")
        assert "illegal memory" in (examine(tmp_path).evidence or "")


def test_times_of_different_forms_are_not_compared(tmp_path: Path) -> None:
    written(tmp_path, STEPS + "2026-11-20T10:00:07Z RuntimeError: CUDA error: unspecified launch failure\n", "node-a.out")
    written(tmp_path, STEPS + "x\n2026-11-20 10:00:03 RuntimeError: CUDA error: an illegal memory access was encountered\n", "node-b.out")
    found = examine(tmp_path)
    assert "unspecified" in (found.evidence or "")  # a zone is not guessed: as before, by the place in the log


def test_what_is_unknown_is_called_so(tmp_path: Path) -> None:
    text = autopsy_text(examine(written(tmp_path, STEPS)))
    assert "unknown: no line of it says that the run failed" in text
    assert "unknown: it is empty" in autopsy_text(examine(written(tmp_path, "")))
    text = autopsy_text(examine(written(tmp_path, STEPS + "RuntimeError: CUDA error: an illegal memory access was encountered")))
    assert "CUDA error: which rank is to blame is unknown\n" in text
    text = autopsy_text(examine(written(tmp_path, STEPS + "slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT 2026-11-20T10:00:00 ***")))
    assert "\n  preemption\n" in text


def test_what_cannot_be_looked_into_is_named_and_the_rest_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(tmp_path, STEPS + by("[rank1]: ", TB + OOM))
    (tmp_path / "self.log").symlink_to("self.log")
    (tmp_path / "closed").mkdir()
    scandir = os.scandir

    def refusing(path: Path | str):
        if str(path).endswith("closed"):
            raise PermissionError(13, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refusing)
    found = examine(tmp_path)
    assert (found.crash, found.rank, found.error) == (CrashClass.OUT_OF_MEMORY, 1, None)
    assert [name.rpartition(": ")[2] for name in found.unread] == ["Permission denied", "Too many levels of symbolic links"]


def test_a_folder_with_a_file_that_cannot_be_read_exits_with_1_and_names_it(tmp_path: Path) -> None:
    """The answer stands, and it may be wrong: the cause may stand in the log that was not read."""
    written(tmp_path, STEPS + by("[rank1]: ", TB + OOM), "rank1.log")
    assert CliRunner().invoke(app, ["autopsy", str(tmp_path)]).exit_code == 0
    pointer = written(tmp_path, "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a2146\nsize 12345\n", "rank0.log")
    dump = tmp_path / "nccl_trace_rank_3"
    dump.write_bytes(b"\x80\x02}q")
    for words in ([], ["--json"]):
        result = CliRunner().invoke(app, ["autopsy", *words, str(tmp_path)])
        assert result.exit_code == 1
        assert str(pointer) in result.stdout
        assert f"{dump}: no whole dump of the flight recorder" in result.stdout
    assert json.loads(result.stdout)["class"] == "out of memory"


def test_an_interrupt_is_not_looked_for_in_the_kernel_log(tmp_path: Path) -> None:
    text = autopsy_text(examine(written(tmp_path, STEPS + by("[rank1]: ", TB + "KeyboardInterrupt"))))
    assert "find out who sent SIGINT" in text
    assert "kernel log" not in text


def test_a_compressed_log_whose_end_is_missing_says_so(tmp_path: Path) -> None:
    """A death stands at the end: what is there is read, and nobody takes it for all."""
    packed = gzip.compress("".join(f"step {n} loss {n * n % 977}\n" for n in range(20_000)).encode())
    for name in ("a.log.gz", "rank-3.log.gz"):
        (tmp_path / name).write_bytes(packed[: len(packed) // 2])
    for path in (tmp_path / "a.log.gz", tmp_path):
        found = examine(path)
        assert (found.crash, found.error) == (None, None)
        assert found.last_step is not None
        assert "the compressed data breaks off" in found.unread[0]
        assert autopsy_document(found)["reason"].endswith("as far as it was read")
        assert CliRunner().invoke(app, ["autopsy", str(path)]).exit_code == 1


def test_a_log_of_lines_that_are_too_long_is_not_called_empty(tmp_path: Path) -> None:
    path = written(tmp_path, "=" * 200_000 + "\n" + "a:" * 100_000 + "\n")
    for argument in (path, tmp_path):
        done = CliRunner().invoke(app, ["autopsy", str(argument)])
        assert done.exit_code == 1
        assert "no line of its end could be read, for they are longer than 65,536 bytes" in done.stdout
        assert "empty" not in done.stdout
    written(tmp_path, "RuntimeError: CUDA out of memory" + " " * 200_000 + "\n")
    assert examine(path).crash is CrashClass.OUT_OF_MEMORY  # the beginning of such a line is read, as ever


def test_secrets_are_masked_in_the_text_as_in_the_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STORE_PASSWORD", "of-the-environment")
    secrets = "hf_LEAKabcdefghijklmnop password=LEAKpw123456 https://u:LEAKurl12@h/ hf_LEAK\x1b[31mqrstuvwxyzabcdef of-the-environment"
    path = written(tmp_path, STEPS + by("[rank1]: ", TB + f"RuntimeError: CUDA error: uncorrectable ECC error {secrets}"))
    for options in ((), ("--json",)):
        shown = CliRunner().invoke(app, ["autopsy", *options, str(path)]).stdout
        assert "uncorrectable ECC error *** password=*** https://***@h/ ***" in shown
        assert not any(word in shown for word in ("LEAK", "qrstuv", "of-the-environment"))


def test_a_pipe_in_the_place_of_a_log_is_named_and_other_pipes_are_not(tmp_path: Path) -> None:
    written(tmp_path, STEPS, "rank-0.log")
    os.mkfifo(tmp_path / "rank-1.log")
    os.mkfifo(tmp_path / "control")
    assert examine(tmp_path).unread == (f"{tmp_path / 'rank-1.log'}: not a regular file",)
    assert CliRunner().invoke(app, ["autopsy", str(tmp_path)]).exit_code == 1
