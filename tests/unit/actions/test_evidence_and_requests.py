"""What the smaller actions leave on disk: evidence and overrides.json."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from sentinel.actions.capture import TAIL_BYTES, capture, describe_processes
from sentinel.actions.control_file import write_overrides, write_request
from sentinel.client.masking import Masking
from sentinel.model.actions import RequestStop, WriteOverrides
from sentinel.model.attempts import SampleRange, SettingsInForce


def attempt_folder(run_dir: Path) -> Path:
    folder = run_dir / "attempts" / "0001"
    for name in ("heartbeats", "exits", "logs"):
        (folder / name).mkdir(parents=True)
    (folder / "logs" / "rank-00000.err").write_text("Traceback\n")
    (folder / "heartbeats" / "rank-00000.json").write_text("{}")
    return folder


def test_the_ends_of_long_streams_are_kept_in_whole_lines(tmp_path: Path) -> None:
    lines = [json.dumps({"step": step, "pad": "x" * 90}) + "\n" for step in range(10_000)]
    (attempt_folder(tmp_path) / "metrics.jsonl").write_text("".join(lines))
    capture(tmp_path, 3, 1, [], Masking())
    kept = (tmp_path / "incidents" / "0003" / "attempt-0001" / "metrics.jsonl").read_text()
    assert len(kept) <= TAIL_BYTES
    assert [json.loads(line)["step"] for line in kept.splitlines()][-1] == 9999
    assert kept in "".join(lines)


def test_capturing_twice_is_the_same_as_once_and_missing_files_are_no_error(tmp_path: Path) -> None:
    attempt_folder(tmp_path)
    said = capture(tmp_path, 3, 1, [os.getpid(), 2**22 + 1], Masking())
    assert capture(tmp_path, 3, 1, [os.getpid(), 2**22 + 1], Masking()) == said == "3 files saved in incidents/0003/attempt-0001"
    target = tmp_path / "incidents" / "0003" / "attempt-0001"
    assert (target / "logs" / "rank-00000.err").read_text() == "Traceback\n"
    assert f"{2**22 + 1} gone" in (target / "processes.txt").read_text()


def test_a_recovery_waits_for_no_sync_of_its_evidence_which_is_synced_behind_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "attempts" / "0003"
    for folder in ("heartbeats", "exits", "stacks", "logs"):
        (source / folder).mkdir(parents=True)
        (source / folder / "0").write_text("x")
    synced: list[str] = []
    plain = os.fsync

    def fsync(handle: int) -> None:
        path, here = os.readlink(f"/proc/self/fd/{handle}"), os.path.realpath(tmp_path)
        if path.startswith(here):  # another test's evidence may still be synced behind it
            synced.append(path.removeprefix(here))
        plain(handle)

    monkeypatch.setattr(os, "fsync", fsync)
    waiting: list[Callable[[], None]] = []
    assert capture(tmp_path, 1, 3, [], Masking(), waiting.append).startswith("5 files saved")
    target = "/incidents/0001/attempt-0003"
    assert (tmp_path / target[1:] / "logs" / "0").read_text() == "x"
    assert synced == []
    waiting[0]()
    files = [f"{target}/processes.txt", *(f"{target}/{name}/0" for name in ("heartbeats", "exits", "stacks", "logs"))]
    above = ["", "/incidents", "/incidents/0001", target]
    assert synced == [*files, target, *(os.path.dirname(file) for file in files[1:]), *above]


def test_an_attempt_that_left_nothing_leaves_an_empty_list_of_processes(tmp_path: Path) -> None:
    assert capture(tmp_path, 3, 7, [], Masking()) == "1 files saved in incidents/0003/attempt-0007"
    assert describe_processes([]) == "no process of the attempt lives\n"


def test_a_process_is_described_by_its_state_and_command() -> None:
    pid, state, *rest = describe_processes([os.getpid()]).split()
    assert (pid, state) == (str(os.getpid()), "R")
    assert rest


def test_overrides_name_their_attempt_and_a_request_names_nothing_but_itself(tmp_path: Path) -> None:
    settings = SettingsInForce("ov-3.1", 2, clip_norm=0.3, skip=(SampleRange(5, 9),))
    write_overrides(tmp_path, WriteOverrides("override/ov-3.1", 3, settings))
    said = json.loads((tmp_path / "overrides.json").read_text())
    assert (said["id"], said["attempt"], said["clip_norm"], said["skip"]) == ("ov-3.1", 3, 0.3, [[5, 9]])
    write_request(tmp_path, RequestStop("stop/3", 3, SettingsInForce("ov-3.stop", 2, clip_norm=0.3), "stop_now"))
    said = json.loads((tmp_path / "overrides.json").read_text())
    assert said == {"v": 1, "id": "ov-3.stop", "attempt": 3, "request": "stop_now"}
