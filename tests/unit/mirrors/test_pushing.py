"""A run pushed to its mirror and brought back: what is sent and what not, deaths at any call, damage at the target, strangers."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import stat
import threading
import uuid
from contextlib import suppress
from pathlib import Path

import pytest

from sentinel.client.atomic_file import write_fully
from sentinel.client.run_layout import HEAD_NAME, JOURNAL_NAME, attempt_folder, stream_path
from sentinel.journal.salvage import verify_journal
from sentinel.journal.session import take_run
from sentinel.mirrors import checkpoints_part, local_store, streams_part
from sentinel.mirrors.pushing import Mirroring, forget_mirror
from sentinel.mirrors.record import read_record
from sentinel.mirrors.restoring import restore
from sentinel.mirrors.stores import MirrorError, RefusedByStore, Store
from sentinel.mirrors.verifying import verify_mirror
from sentinel.model import facts as f
from sentinel.model.attempts import SettingsInForce
from sentinel.report.journal_fold import JournalFold
from sentinel.run_files.mirror_standing import PARTS
from tests.unit.mirrors.kit import Counted, SmallRun, contents, row

STAY = threading.Event()


@pytest.fixture(params=["directory", "memory"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "memory":
        pytest.importorskip("fsspec")
        return f"memory://{uuid.uuid4().hex}/runs"
    return str(tmp_path / "mirror")


@pytest.fixture
def run(tmp_path: Path) -> SmallRun:
    return SmallRun(tmp_path / "run").begin().checkpoint(10)


def push_all(mirroring: Mirroring, store: Store | None = None) -> None:
    for part in PARTS:
        mirroring.push(part, store or mirroring.open(), STAY)


def damage(store: Store, name: str) -> None:
    data = bytearray(b"".join(store.read(name)))
    data[len(data) // 2] ^= 0xFF
    store.put(name, [bytes(data)])


def test_what_was_pushed_comes_back_and_goes_on_under_the_next_epoch(run: SmallRun, place: str, tmp_path: Path) -> None:
    push_all(run.mirroring(place))
    kept = contents(run.run_dir / "attempts") | contents(run.run_dir / "checkpoints")
    with take_run(run.run_dir) as session:
        epoch = session.epoch - 1
    shutil.rmtree(run.run_dir)
    back = tmp_path / "elsewhere" / "run"
    back.parent.mkdir()
    done = restore(place, back)
    assert (done.checkpoint.step if done.checkpoint else None, done.wrong) == (10, ())
    assert not verify_journal(back).wrong
    found = contents(back / "attempts") | contents(back / "checkpoints")
    assert b"restored from its mirror" in found.pop("0001/exit.json")
    head, newer = (json.loads(files.pop("0001/journal.head")) for files in (kept, found))
    assert newer["seq"] == head["seq"] + 1, "that it was restored is a fact"
    assert found == kept
    assert stat.S_IMODE(back.stat().st_mode) == 0o700
    with take_run(back) as session:
        *_, last = session.journal.read_entries()
        assert isinstance(last.fact, f.RunRestored)
        assert (last.fact.steps, last.fact.newest_attempt, last.epoch) == ((10,), 1, epoch + 1)
        assert session.epoch == epoch + 2


def test_a_push_without_news_puts_no_file_and_news_alone_is_sent(run: SmallRun, place: str) -> None:
    mirroring = run.mirroring(place)
    push_all(mirroring)
    store = Counted(mirroring.open())
    push_all(mirroring, store)
    assert [name for name in store.put_names if not name.startswith("mirror-")] == []
    run.steps(21, 22)
    mirroring.push("streams", store, STAY)
    bundle = next(name for name in store.put_names if name.endswith(".bin"))
    assert b"".join(store.read(bundle)) == (row(21) + row(22)).encode()


def test_a_supervisor_that_was_killed_goes_on_where_it_was(run: SmallRun, place: str) -> None:
    push_all(run.mirroring(place))
    again = run.mirroring(place)
    store = Counted(again.open())
    push_all(again, store)
    assert [name for name in store.put_names if not name.startswith("mirror-")] == []


def test_half_a_line_is_not_sent_and_what_shrank_or_was_rewritten_is_sent_anew(
    run: SmallRun, place: str, tmp_path: Path
) -> None:
    mirroring, log = run.mirroring(place), attempt_folder(run.run_dir, 1) / "logs" / "rank-00000.err"
    with stream_path(run.run_dir, 1).open("a") as stream:
        stream.write('{"kind": "step", "st')
    push_all(mirroring)
    restore(place, tmp_path / "first")
    whole = "".join(map(row, range(1, 21)))
    assert stream_path(tmp_path / "first", 1).read_text() == whole
    stream_path(run.run_dir, 1).write_text(whole.replace("2.0", "3.0"))  # as long as before
    log.write_text("cut\n")
    push_all(mirroring)
    restore(place, tmp_path / "second")
    assert stream_path(tmp_path / "second", 1).read_text() == whole.replace("2.0", "3.0")
    assert (attempt_folder(tmp_path / "second", 1) / "logs" / "rank-00000.err").read_text() == "cut\n"


def test_many_bundles_many_stretches_and_files_that_are_too_large(
    run: SmallRun, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, bound in (("BUNDLE_BYTES", 300), ("STRETCHES_MAX", 3), ("BUNDLES_MAX", 6), ("WHOLE_BYTES_MAX", 5000)):
        monkeypatch.setattr(streams_part, name, bound)
    (run.run_dir / "core").write_bytes(b"x" * 6000)
    mirroring = run.mirroring(place)
    for step in range(21, 60, 2):
        run.steps(step, step + 1)
        standing = mirroring.push("streams", mirroring.open(), STAY)
    assert "left out for their size: core" in standing.there
    assert len(mirroring.open().names("streams")) < 40, "what no record names is deleted"
    mirroring.push("journal", mirroring.open(), STAY)
    restore(place, tmp_path / "back", checkpoint="none")
    assert stream_path(tmp_path / "back", 1).read_bytes() == stream_path(run.run_dir, 1).read_bytes()


@pytest.mark.parametrize("half", [False, True], ids=["before", "halfway"])
def test_killed_at_any_call_the_mirror_can_be_restored_and_the_next_push_completes_it(
    tmp_path: Path, half: bool
) -> None:
    """The old state or the new one, and never a mixture that does not hold."""
    first = SmallRun(tmp_path / "first" / "run").begin().checkpoint(10)
    push_all(first.mirroring(str(tmp_path / "first" / "mirror")))
    first.checkpoint(20).steps(21, 40)
    dead_at, done = 0, False
    while not done:
        dead_at += 1
        folder = tmp_path / f"at-{dead_at}"
        shutil.copytree(tmp_path / "first", folder)
        run, place = SmallRun(folder / "run"), str(folder / "mirror")
        dying = run.mirroring(place, keep="1")
        store = Counted(dying.open(), dies_at=dead_at, half=half)
        try:
            push_all(dying, store)
            done = True
        except MirrorError:
            pass
        back = restore(place, folder / "back")
        assert back.checkpoint is not None
        assert not verify_journal(folder / "back").wrong
        assert back.wrong == () or back.checkpoint.step == 10
        push_all(run.mirroring(place, keep="1"))
        after = restore(place, folder / "after")
        assert after.checkpoint is not None
        assert (after.checkpoint.step, after.wrong) == (20, ())
        assert stream_path(folder / "after", 1).read_bytes() == stream_path(run.run_dir, 1).read_bytes()
        assert len(run.mirroring(place).open().names("checkpoints")) == 1
    assert dead_at > 8


def killed_at_write(number: int, mirroring: Mirroring) -> bool:
    """Push in a process that kills itself at its write of this number, with half of it done; whether it came to that."""
    pid = os.fork()
    if pid == 0:
        writes = 0

        def write(handle: int, data: bytes) -> None:
            nonlocal writes
            writes += 1
            if writes == number:
                os.write(handle, data[: len(data) // 2])
                os.kill(os.getpid(), signal.SIGKILL)
            write_fully(handle, data)

        local_store.write_fully = write
        with suppress(BaseException):
            push_all(mirroring)
            os._exit(0)
        os._exit(1)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert code in (0, -signal.SIGKILL)
    return code != 0


def test_a_process_killed_in_the_middle_of_a_file_leaves_nothing_that_passes_for_it(tmp_path: Path) -> None:
    run, place = SmallRun(tmp_path / "run").begin().checkpoint(10), str(tmp_path / "mirror")
    push_all(run.mirroring(place))
    run.checkpoint(20).steps(21, 40)
    number = 1
    while killed_at_write(number, run.mirroring(place)):
        assert list(Path(place).rglob("*.part"))
        back = restore(place, tmp_path / f"back-{number}")
        assert back.checkpoint is not None
        assert not verify_journal(tmp_path / f"back-{number}").wrong
        number += 1
    assert number > 3, "each kill comes later, for what was done is not done again"
    done = restore(place, tmp_path / "back")
    assert (done.checkpoint.step if done.checkpoint else None, done.wrong) == (20, ())


def test_a_stream_whose_middle_is_damaged_comes_back_up_to_there_and_is_named(run: SmallRun, place: str, tmp_path: Path) -> None:
    mirroring = run.mirroring(place)
    push_all(mirroring)
    store = mirroring.open()
    first = set(store.names("streams"))
    for last in (30, 40):
        run.steps(last - 9, last)
        mirroring.push("streams", store, STAY)
        if last == 30:
            fresh = next(name for name in store.names("streams") if name.endswith(".bin") and name not in first)
            damage(store, f"streams/{fresh}")
    done = restore(place, tmp_path / "back")
    assert [line.partition(":")[0] for line in done.wrong] == ["attempts/0001/metrics.jsonl"]
    assert stream_path(tmp_path / "back", 1).read_text() == "".join(map(row, range(1, 21)))
    push_all(run.mirroring(place))
    assert restore(place, tmp_path / "again").wrong == (), "a new process looks at what lies there, and sends it anew"


def test_a_checkpoint_is_due_after_so_many_steps_and_old_ones_go_once_newer_ones_are_whole(run: SmallRun, place: str) -> None:
    mirroring = run.mirroring(place, every="20 steps", keep="2")
    for step, there in ((10, [10]), (20, [10]), (30, [10, 30]), (60, [30, 60])):
        if step > 10:
            run.checkpoint(step)
        push_all(mirroring)
        record = read_record(mirroring.open())
        assert record is not None
        assert [one.step for one in record.checkpoints] == there
        assert len(mirroring.open().names("checkpoints")) == len(there)


def test_a_checkpoint_that_was_begun_is_completed_without_sending_a_file_twice(run: SmallRun, place: str) -> None:
    mirroring = run.mirroring(place)
    with pytest.raises(MirrorError):
        mirroring.push("checkpoints", Counted(mirroring.open(), dies_at=2), STAY)
    run.checkpoint(50)
    again = run.mirroring(place)
    store = Counted(again.open())
    again.push("checkpoints", store, STAY)
    sent = [name.partition("/")[2] for name in store.put_names if name.startswith("checkpoints/step-00000010")]
    assert [name.partition("/")[2] for name in sent] == ["shards/rank 0.bin", "manifest.json"]
    record = read_record(store)
    assert record is not None
    assert [one.step for one in record.checkpoints] == [10, 50]


def test_what_nobody_wrote_down_is_compared_and_sent_anew_where_it_is_other(run: SmallRun, place: str) -> None:
    mirroring = run.mirroring(place)
    with pytest.raises(MirrorError):
        mirroring.push("checkpoints", Counted(mirroring.open(), dies_at=2), STAY)
    (run.run_dir / "mirror" / "sending.json").unlink()
    store = Counted(mirroring.open())
    folder = f"checkpoints/{store.names('checkpoints')[0]}"
    damage(store.store, f"{folder}/model.bin")
    mirroring.push("checkpoints", store, STAY)
    assert f"{folder}/model.bin" in store.put_names


def test_a_checkpoint_that_is_damaged_here_is_not_sent_and_an_older_one_is(run: SmallRun, place: str) -> None:
    run.checkpoint(40)
    path = run.run_dir / "checkpoints" / "step-00000040" / "model.bin"
    path.write_bytes(path.read_bytes().replace(b"m", b"n"))
    mirroring = run.mirroring(place)
    standing = mirroring.push("checkpoints", mirroring.open(), STAY)
    assert standing.there.startswith("step 10 (")
    assert "model.bin: is not as its manifest says" in standing.there


def test_a_checkpoint_that_cannot_be_read_now_is_tried_again(
    run: SmallRun, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stale handle says nothing about the checkpoint, and the mirror is behind as long as it lasts."""
    mirroring = run.mirroring(place)

    def stale(*_: object) -> None:
        raise OSError(116, "Stale file handle")

    with monkeypatch.context() as patch:
        patch.setattr(checkpoints_part, "read_manifest", stale)
        with pytest.raises(MirrorError, match="cannot be read now"):
            mirroring.push("checkpoints", mirroring.open(), STAY)
    assert mirroring.push("checkpoints", mirroring.open(), STAY).there.startswith("step 10 (")


def test_condemned_checkpoints_are_neither_sent_nor_brought_back(run: SmallRun, place: str, tmp_path: Path) -> None:
    mirroring = run.mirroring(place)
    push_all(run.checkpoint(30).mirroring(place))
    run.facts(f.CheckpointCondemned(30, "after an onset"))
    push_all(mirroring)
    done = restore(place, tmp_path / "back")
    assert done.checkpoint is None or done.checkpoint.step == 10


def test_damage_at_the_target_is_found_by_digest_and_sent_anew(run: SmallRun, place: str, tmp_path: Path) -> None:
    mirroring = run.mirroring(place)
    push_all(mirroring)
    store = mirroring.open()
    texts = {"to": place, "every": "10 steps"}
    assert verify_mirror(run.run_dir, texts)[1]
    journal, bundle = (f"{folder}/{store.names(folder)[0]}" for folder in ("journal", "streams"))
    checkpoint = f"checkpoints/{store.names('checkpoints')[0]}/model.bin"
    for name in (journal, bundle, checkpoint):
        damage(store, name)
    told, is_whole = verify_mirror(run.run_dir, texts)
    assert not is_whole
    parts = [line.partition(":")[0] for line in told]
    assert parts == ["journal", "streams", "checkpoint of step 10", "sent anew by the next push"]
    push_all(run.mirroring(place))
    assert verify_mirror(run.run_dir, texts)[1]
    assert restore(place, tmp_path / "back").wrong == ()


def test_restored_from_a_damaged_mirror_comes_what_holds_and_the_rest_is_named(
    run: SmallRun, place: str, tmp_path: Path
) -> None:
    mirroring = run.mirroring(place)
    push_all(mirroring)
    store = mirroring.open()
    first = store.names("journal")[0]
    run.checkpoint(30)
    push_all(mirroring)
    newest = next(name for name in store.names("journal") if name != first)
    damage(store, f"journal/{newest}")
    damage(store, next(f"checkpoints/{name}/model.bin" for name in store.names("checkpoints") if "30" in name))
    done = restore(place, tmp_path / "back")
    assert done.checkpoint is not None
    assert done.checkpoint.step == 10
    assert done.journal.name.endswith(first)
    assert any(newest in line for line in done.wrong)
    assert any("checkpoint of step 30" in line for line in done.wrong)
    assert not verify_journal(tmp_path / "back").wrong


def test_a_damaged_journal_does_not_replace_the_copy_that_holds(run: SmallRun, place: str, tmp_path: Path) -> None:
    mirroring = run.mirroring(place)
    push_all(mirroring)
    run.facts(f.Held("a"), f.Held("b"))
    with sqlite3.connect(run.run_dir / JOURNAL_NAME, isolation_level=None) as connection:
        connection.execute("UPDATE facts SET body = replace(body, 'a', 'z') WHERE kind = 'Held'")
    connection.close()
    with pytest.raises(MirrorError, match=r"only the first \d+ of \d+ entries of the journal are whole.*journal verify"):
        mirroring.push("journal", mirroring.open(), STAY)
    assert not restore(place, tmp_path / "back").wrong


def test_two_runs_of_one_name_do_not_share_a_mirror(run: SmallRun, place: str, tmp_path: Path) -> None:
    push_all(run.mirroring(place))
    other = SmallRun(tmp_path / "other").begin()
    with pytest.raises(RefusedByStore, match="this journal does not begin with them"):
        push_all(other.mirroring(place))
    third = SmallRun(tmp_path / "third", run_id="llm").begin()
    push_all(third.mirroring(place))
    with pytest.raises(RefusedByStore, match=r"holds the mirrors of gpt, llm; name one"):
        restore(place, tmp_path / "back")
    assert restore(f"{place}/llm", tmp_path / "back").record.run == "llm"


def test_a_run_that_was_restored_owns_the_mirror_and_the_one_before_is_told(run: SmallRun, place: str, tmp_path: Path) -> None:
    old = run.mirroring(place)
    push_all(old)
    restore(place, tmp_path / "back")
    back = SmallRun(tmp_path / "back", at_s=run.at_s + 1000)
    push_all(back.mirroring(place))
    with pytest.raises(RefusedByStore, match=r"was restored from its mirror and goes on from .* \(generation 2, this is 1\)"):
        old.push("journal", old.open(), STAY)
    back.facts(f.Held("on the new machine"))
    push_all(back.mirroring(place))


def test_a_mirror_that_went_on_after_it_was_restored_is_not_taken_over(run: SmallRun, place: str, tmp_path: Path) -> None:
    """The first machine was not dead: both have entries that the other has not."""
    push_all(run.mirroring(place))
    restore(place, tmp_path / "back")
    run.facts(f.Held("it lives"))
    push_all(run.mirroring(place))
    with pytest.raises(RefusedByStore, match="went on elsewhere"):
        push_all(SmallRun(tmp_path / "back").mirroring(place))


def test_a_mirror_that_is_gone_is_not_begun_anew_without_a_word(run: SmallRun, tmp_path: Path) -> None:
    """A disk that is not mounted would fill the one below it."""
    place = str(tmp_path / "mount")
    push_all(run.mirroring(place))
    shutil.move(place, tmp_path / "away")
    Path(place).mkdir()
    with pytest.raises(RefusedByStore, match=r"is gone\. Is it mounted\?.*--anew"):
        push_all(run.mirroring(place))
    assert not any(Path(place).iterdir())
    forget_mirror(run.run_dir)
    push_all(run.mirroring(place))
    assert verify_mirror(run.run_dir, {"to": place})[1]


def test_a_directory_is_its_owners_alone_whatever_the_umask(run: SmallRun, tmp_path: Path) -> None:
    before = os.umask(0o000)
    try:
        push_all(run.mirroring(str(tmp_path / "mirror")))
    finally:
        os.umask(before)
    modes = {path.is_dir(): stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "mirror").rglob("*")}
    assert modes == {True: 0o700, False: 0o600}


def test_what_belongs_to_this_machine_stays_here(run: SmallRun, place: str, tmp_path: Path) -> None:
    folder = attempt_folder(run.run_dir, 1)
    (folder / "heartbeats").mkdir()
    (folder / "heartbeats" / "rank-00000.json").write_text("{}")
    for path in (folder / "keeper.json", folder / "keeper.lock", run.run_dir / "senses.json", run.run_dir / ".hidden"):
        path.write_text("{}")
    (run.run_dir / "link").symlink_to("/etc/passwd")
    os.mkfifo(run.run_dir / "pipe")
    push_all(run.mirroring(place))
    restore(place, tmp_path / "back")
    names = {path.name for path in (tmp_path / "back").rglob("*")}
    assert not names & {"heartbeats", "keeper.json", "keeper.lock", "senses.json", "lease.json", "mirror"}
    assert not names & {".hidden", "link", "pipe"}
    assert {"run.json", "spec.json", "rank-00000.err", HEAD_NAME} <= names


def test_an_attempt_whose_stream_was_not_pushed_yet_has_ended_all_the_same(run: SmallRun, place: str, tmp_path: Path) -> None:
    mirroring = run.mirroring(place)
    mirroring.push("streams", mirroring.open(), STAY)
    run.facts(f.AttemptLaunched(2, None, SettingsInForce(), "again"))
    attempt_folder(run.run_dir, 2).mkdir()
    mirroring.push("journal", mirroring.open(), STAY)
    restore(place, tmp_path / "back")
    assert (attempt_folder(tmp_path / "back", 2) / "exit.json").exists()
    fold = JournalFold(tmp_path / "back")
    fold.catch_up()
    assert fold.state.next_attempt == 3


def test_an_attempt_that_the_journal_on_the_mirror_does_not_know_uses_up_its_number(
    run: SmallRun, place: str, tmp_path: Path
) -> None:
    mirroring = run.mirroring(place)
    mirroring.push("journal", mirroring.open(), STAY)
    (attempt_folder(run.run_dir, 2) / "logs").mkdir(parents=True)
    (attempt_folder(run.run_dir, 2) / "logs" / "rank-00000.err").write_text("x\n")
    mirroring.push("streams", mirroring.open(), STAY)
    restore(place, tmp_path / "back")
    assert not verify_journal(tmp_path / "back").wrong
    fold = JournalFold(tmp_path / "back")
    fold.catch_up()
    assert fold.state.next_attempt == 3
