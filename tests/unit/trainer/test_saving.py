"""Saving behind training: what is saved, in which order, how much at a time, and what a failure leaves."""

import errno
import json
import resource
import threading

import pytest
import torch

from trainer import checkpoint
from trainer.checkpoint import writing
from trainer.checkpoint.retention import Retention, to_prune
from trainer.checkpoint.saving import IN_FLIGHT_MAX, Saver
from trainer.config.loading import load_config
from trainer.exits import LeaseLostError, SaveError

DETAILS = {"attempt": 1, "world_size": 1}
DEADLINE_S = 60


@pytest.fixture
def state():
    torch.manual_seed(3)
    return {"model.w": torch.randn(1000), "adam.step": torch.tensor(3.0)}


@pytest.fixture
def gate(monkeypatch):
    """While it is closed, no save goes on past its start; opened at the test's end in any case."""
    opened, begun, real = threading.Event(), [], writing.dcp.save

    def save(held, *arguments, **options):
        begun.append(threading.current_thread())
        assert opened.wait(DEADLINE_S)
        return real(held, *arguments, **options)

    monkeypatch.setattr(writing.dcp, "save", save)
    opened.begun = begun
    yield opened
    opened.set()


def saver_of(root, world, **options):
    return Saver(root, world, options.pop("may_commit", lambda: True), **options)


def manifest_of(root, step):
    return json.loads((root / "checkpoints" / checkpoint.name_of(step) / "manifest.json").read_text())


def load(root, world, step, like):
    found = checkpoint.verify(root / "checkpoints" / checkpoint.name_of(step))
    loaded = {name: torch.zeros_like(value) for name, value in like.items()}
    writing.load(found, world, loaded)
    return loaded


def test_what_training_changes_during_a_save_is_not_in_it(tmp_path, world, state, gate):
    saver, before = saver_of(tmp_path, world), {name: value.clone() for name, value in state.items()}
    details, stream = DETAILS | {"recent": [1, 2]}, torch.get_rng_state()
    saver.save(1, state, details)
    for value in state.values():
        value.add_(1)
    details["recent"].append(3)
    torch.rand(5)
    gate.set()
    saver.wait()
    assert gate.begun[0] is not threading.current_thread()
    loaded = load(tmp_path, world, 1, state)
    assert all(torch.equal(loaded[name], before[name]) for name in state)
    assert torch.equal(torch.get_rng_state(), stream)
    assert manifest_of(tmp_path, 1)["recent"] == [1, 2]


def test_without_asynchronous_it_is_committed_when_save_returns(tmp_path, world, state):
    saver = saver_of(tmp_path, world, asynchronous=False)
    saver.save(1, state, DETAILS)
    assert not saver.in_flight
    assert [saved.step for saved in saver.committed()] == [1]
    assert checkpoint.list_steps(tmp_path / "checkpoints") == [1]


def test_two_are_in_flight_and_a_third_waits_for_the_oldest(tmp_path, world, state, gate, monkeypatch):
    saver, waited, real = saver_of(tmp_path, world), [], Saver._end_oldest

    def end_oldest(self):
        waited.append(len(self._pending))
        gate.set()
        real(self)

    monkeypatch.setattr(Saver, "_end_oldest", end_oldest)
    for step in (1, 2):
        saver.save(step, state, DETAILS)
    assert waited == [], "two are taken without waiting"
    assert checkpoint.list_steps(tmp_path / "checkpoints") == []
    state["model.w"].fill_(3)
    saver.save(3, state, DETAILS)
    assert waited == [IN_FLIGHT_MAX], "the third waited for one, no more"
    assert 1 in checkpoint.list_steps(tmp_path / "checkpoints")
    state["model.w"].fill_(4)
    saver.wait()
    assert [saved.step for saved in saver.committed()] == [1, 2, 3]
    assert load(tmp_path, world, 2, state)["model.w"].unique().numel() == 1000, "its copy was not written over"
    assert load(tmp_path, world, 3, state)["model.w"].unique().tolist() == [3.0]


def test_each_names_the_one_before_it_as_its_parent_even_one_in_flight(tmp_path, world, state):
    saver = saver_of(tmp_path, world)
    for step in (1, 2, 5):
        saver.save(step, state, DETAILS)
        assert saver.newest == step
    saver.wait()
    one, two, five = saver.committed()
    parents = [manifest_of(tmp_path, step)["parent"] for step in (1, 2, 5)]
    assert parents == [None, *({"step": saved.step, "path": saved.path, "digest": saved.digest} for saved in (one, two))]
    assert saver.parent == {"step": 5, "path": five.path, "digest": five.digest}
    later = saver_of(tmp_path, world)
    later.continue_from(checkpoint.verify(tmp_path / two.path))
    later.save(7, state, DETAILS)
    later.wait()
    assert manifest_of(tmp_path, 7)["parent"] == parents[2]


def test_blocked_is_what_the_loop_waited_not_what_the_save_took(tmp_path, world, state, gate):
    saver = saver_of(tmp_path, world)
    saver.save(1, state, DETAILS)
    gate.set()  # the commit comes after the loop was free again
    saver.wait()
    (saved,) = saver.committed()
    assert 0 < saved.blocked_s < saved.seconds


def test_a_full_disk_ends_the_save_with_a_sentence_and_no_older_one_is_touched(tmp_path, world, state):
    """The kernel itself refuses to write on, in the middle of a file."""
    saver = saver_of(tmp_path, world)
    saver.save(1, state, DETAILS)
    saver.wait()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, limits[1]))
    try:
        saver.save(2, state, DETAILS)
        saver.save(3, state, DETAILS)
        with pytest.raises(SaveError, match=r"step-00000002: rank 0 could not .*File too large.*\); older checkpoints"):
            saver.wait()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert saver.failed
    with pytest.raises(SaveError, match="step-00000002"):
        saver.save(4, state, DETAILS)  # there is no room for a third in flight
    assert [saved.step for saved in saver.committed()] == [1], "nothing is saved with a gap before it"
    assert checkpoint.list_steps(tmp_path / "checkpoints") == [1]
    assert checkpoint.choose_resume(tmp_path, None)[0].step == 1
    checkpoint.discard_unfinished(tmp_path)
    assert [entry.name for entry in (tmp_path / "checkpoints").iterdir()] == ["step-00000001"]


def test_behind_a_save_that_failed_none_is_committed_even_where_there_is_room_again(tmp_path, world, state, gate, monkeypatch):
    real, failures = writing.write_atomically, [OSError(errno.ENOSPC, "No space left on device")]

    def fail_once(*arguments, **options):
        if failures:
            raise failures.pop()
        real(*arguments, **options)

    monkeypatch.setattr(writing, "write_atomically", fail_once)
    saver = saver_of(tmp_path, world)
    for step in (1, 2):
        saver.save(step, state, DETAILS)
    gate.set()
    with pytest.raises(SaveError, match=r"step-00000001: rank 0 could not write it .*No space left on device"):
        saver.wait()
    saver._thread.shutdown()  # waits for the second
    assert checkpoint.list_steps(tmp_path / "checkpoints") == []
    assert len(gate.begun) == 1


def test_a_lost_lease_comes_up_in_the_loop_and_nothing_is_committed(tmp_path, world, state):
    saver = saver_of(tmp_path, world, may_commit=lambda: False)
    saver.save(1, state, DETAILS)
    with pytest.raises(LeaseLostError, match="later attempt"):
        saver.wait()
    assert checkpoint.list_steps(tmp_path / "checkpoints") == []


@pytest.mark.parametrize(
    ("steps", "last", "every", "deleted"),
    [
        ([], 3, None, []),
        ([5], 1, None, []),
        ([5, 10, 15, 20], 2, None, [5, 10]),
        ([5, 10, 15, 20], 1, 10, [5, 15]),
        ([20, 5, 15, 10], 2, 5, []),
        ([3, 6, 9], 1, 100, [3, 6]),
    ],
)
def test_the_newest_and_every_mth_are_kept(steps, last, every, deleted):
    assert to_prune(steps, last, every) == deleted


def test_a_run_of_its_own_deletes_behind_each_commit_and_nothing_above_it(tmp_path, world, state):
    left = saver_of(tmp_path, world)
    for step in (2, 9):
        left.save(step, state, DETAILS)
    left.wait()
    saver = saver_of(tmp_path, world, retention=Retention(last=1, every=4))
    for step in (3, 4, 5):
        saver.save(step, state, DETAILS)
    saver.wait()
    assert [saved.pruned for saved in saver.committed()] == [(2,), (3,), ()]
    assert checkpoint.list_steps(tmp_path / "checkpoints") == [4, 5, 9], "9 is of a lineage that was left"
    assert checkpoint.verify(tmp_path / "checkpoints" / "step-00000005").step == 5


def test_how_many_are_kept_is_a_setting(tmp_path, world, state):
    settings = load_config("micro", sets=["checkpoint.keep_last=1", "checkpoint.keep_every=4"]).checkpoint
    saver = Saver.for_run(settings, tmp_path, None, world)
    for step in (3, 4, 5, 6):
        saver.save(step, state, DETAILS)
    saver.wait()
    assert checkpoint.list_steps(tmp_path / "checkpoints") == [4, 6]


def test_dying_while_deleting_leaves_no_half_checkpoint(tmp_path, world, state, monkeypatch):
    monkeypatch.setattr("trainer.checkpoint.retention.shutil.rmtree", lambda *_, **__: None)
    saver = saver_of(tmp_path, world, retention=Retention(last=1))
    for step in (1, 2):
        saver.save(step, state, DETAILS)
    saver.wait()
    monkeypatch.undo()
    assert checkpoint.list_steps(tmp_path / "checkpoints") == [2]
    assert len(list((tmp_path / "checkpoints").iterdir())) == 2
    checkpoint.discard_unfinished(tmp_path)
    assert [entry.name for entry in (tmp_path / "checkpoints").iterdir()] == ["step-00000002"]
