"""A run directory on a filesystem that supervisor and ranks reach through two clients, as on two machines.   make cluster-test"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sentinel.client.folder_trial import Stillness
from sentinel.client.run_layout import JOURNAL_NAME
from sentinel.errors import JournalError
from sentinel.journal.reader_elsewhere import forget_pages
from sentinel.journal.store import Journal
from sentinel.launcher.folder_trial import FolderTrial
from sentinel.model.node_checks import NodeReply
from sentinel.plan.preflight import read_facts
from sentinel.plan.preflight_check import PreflightCheck
from sentinel.plan.shared_folder import SEEN_MAX_S, judge_shared
from tests.cluster.shared_filesystem import SharedFilesystem, why_not
from tests.integration.supervised import Supervised, double, wait_for

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400), pytest.mark.skipif(bool(why_not()), reason=why_not() or "there")]
ROOT = Path(__file__).resolve().parents[2]
STEPS = 900
TEXT: dict[str, Any] = {"capture_output": True, "text": True, "timeout": 60, "check": False, "cwd": "/"}
NAMED = ["env", "SENTINEL_NODE=elsewhere", f"PYTHONPATH={ROOT}"]


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedFilesystem]:
    filesystem = SharedFilesystem(tmp_path_factory.mktemp("gluster"))
    yield filesystem
    filesystem.down()


def test_killed_poisoned_and_hung_elsewhere_it_ends_unhurt_and_can_be_read_meanwhile(shared: SharedFilesystem) -> None:
    """Ranks, supervisor and whoever reads the journal meanwhile have a client each."""
    command = shared.beside(double(STEPS, 0.02, bad="6400-6700", kill=200, hang=700))
    run = Supervised(shared.folder / "run", command).start()
    readings: Counter[str] = Counter()

    def read_on() -> bool:
        try:
            with Journal.open(shared.other / "run" / JOURNAL_NAME, read_only=True) as journal:
                readings["entries"] = sum(1 for _ in journal.read_entries())
            readings["whole"] += 1
        except JournalError as error:
            if "there is no journal" not in str(error) and "still empty" not in str(error):
                readings[str(error)] += 1
        return run.has_ended

    wait_for("its end", read_on, 300)
    assert run.wait() == 0, run.log
    assert set(readings) == {"entries", "whole"}, readings
    incidents = run.incidents()
    assert [(one["kind"], one["state"]) for one in incidents] == [(kind, "recovered") for kind in ("crash", "spike", "hang")]
    assert sorted(run.surviving()) == list(range(1, STEPS + 1))
    assert "wakes nobody" in run.log, "inotify hears nothing of another client, and the supervisor says so"
    print(f"\nread {readings['whole']} times while it was written; {incidents[2]['time_to_detect_s']:.1f} s to the hang")


def test_a_page_that_a_client_has_kept_is_new_once_the_kernel_forgets_it(shared: SharedFilesystem) -> None:
    """As SQLite reads: through one handle, by pages."""
    with (shared.folder / "pages").open("wb") as written:
        os.pwrite(written.fileno(), b"old".ljust(4096), 0)
        os.fsync(written.fileno())
        with (shared.other / "pages").open("rb") as read:
            assert os.pread(read.fileno(), 3, 0) == b"old"
            os.pwrite(written.fileno(), b"new".ljust(4096), 0)
            os.fsync(written.fileno())
            print(f"\nkept: {os.pread(read.fileno(), 3, 0) == b'old'}")
            forget_pages(shared.other / "pages")
            wait_for("the new page", lambda: os.pread(read.fileno(), 3, 0) == b"new" or forget_pages(shared.other / "pages"), 5)


def test_a_status_from_another_machine_and_a_second_supervisor_there(shared: SharedFilesystem) -> None:
    run = Supervised(shared.folder / "twice", double(100_000, 0.02)).start()
    try:
        wait_for("a step", lambda: run.attempts() and run.last_step(1) > 10)
        there = [*NAMED, sys.executable, "-m", "sentinel"]
        shown = subprocess.run(shared.beside([*there, "status", "--json", str(run.run_dir)], "--uts"), **TEXT)
        assert shown.returncode == 0, shown.stderr
        assert json.loads(shown.stdout)["state"] == "training"
        second = [*there, "run", "--run-dir", str(run.run_dir), "--policy", "demo", "--takeover-wait", "1s", "--listen", "off"]
        second += ["--", *run.command]
        refused = subprocess.run(shared.beside(second, "--uts"), **TEXT)
        assert (refused.returncode, "already supervised" in refused.stderr) == (2, True), refused.stdout + refused.stderr
    finally:
        run.kill()
        for pid in run.living():
            subprocess.run(["kill", "-9", str(pid)], check=False)


def tried(place: Path, there: Callable[[list[str]], list[str]]) -> PreflightCheck:
    """What the preflight says of `place`, and of a node whose command `there` starts."""
    facts = [*NAMED, sys.executable, "-m", "sentinel.client.node_facts", "--path", str(place)]
    with FolderTrial(place / "to-come") as trial:
        done = subprocess.run(there([*facts, "--shared", str(trial.folder)]), **TEXT)
        found = read_facts(NodeReply(done.returncode, done.stdout, done.stderr))
        assert not isinstance(found, str), found
        assert found.shared is not None
        seen = trial.seen("elsewhere", found.shared.numbers)
    return judge_shared("here", str(place), {"elsewhere": found.shared}, {"elsewhere": seen})


def test_the_preflight_finds_it_shared_well_enough(shared: SharedFilesystem) -> None:
    check = tried(shared.folder, shared.beside)
    print(f"\n{check.reason}")
    assert check.verdict == "good"
    assert not [name for name in shared.folder.iterdir() if name.name.startswith(".sentinel")]


def test_a_folder_that_is_another_one_there_is_told(shared: SharedFilesystem) -> None:
    """What is mounted elsewhere under the same path is an empty folder."""
    script = f'mount -t tmpfs none {shared.folder} && exec "$@"'
    hidden = ["unshare", "--mount", "--propagation", "private", "sh", "-c", script, "sh"]
    check = tried(shared.folder, lambda words: [*hidden, *words])
    assert (check.verdict, "not the same filesystem" in check.reason) == ("bad", True), check.reason


def test_a_heartbeat_written_elsewhere_is_seen_in_time(shared: SharedFilesystem) -> None:
    """Of a real rank, whose steps take a fiftieth of a second."""
    run = Supervised(shared.folder / "beats", shared.beside(double(100_000, 0.02))).start()
    beat = run.run_dir / "attempts" / "0001" / "heartbeats" / "rank-00000.json"
    try:
        wait_for("a heartbeat", beat.exists)
        still, end_s, texts = Stillness(), time.monotonic() + 10, [b""]

        def look_on() -> bool:
            if (newest := beat.read_bytes()) != texts[-1]:
                texts.append(newest)
            still.see(len(texts), time.monotonic())
            return time.monotonic() >= end_s

        wait_for("ten seconds", look_on)
    finally:
        run.kill()
        for pid in run.living():
            subprocess.run(["kill", "-9", str(pid)], check=False)
    longest_s = still.until_s(end_s)
    assert longest_s is not None
    print(f"\na heartbeat stood still for {longest_s:.1f} s at most")
    assert longest_s <= SEEN_MAX_S
