"""What the integrations share, without their libraries: the feed, the optimizer's hooks, and linked files."""

from __future__ import annotations

import json
import os
import signal
import sys

import pytest
import torch

from sentinel.client.torch import AttachError, Run, attach
from sentinel.integrations.feed import Feed, WholeBatches, known_size, size_of
from sentinel.integrations.linking import let_go, link_tree
from sentinel.integrations.stepping import Stepping
from tests.unit.client.attached_kit import ask, lines, supervise


class Rows(torch.utils.data.Dataset):
    def __init__(self, count: int = 40) -> None:
        self.count = count
        self.read: list[int] = []

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> int:
        self.read.append(index)
        return index


@pytest.fixture
def root(tmp_path, monkeypatch):
    for name in ("RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    handler, hook = signal.getsignal(signal.SIGTERM), sys.excepthook
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    supervise(tmp_path, monkeypatch)
    yield tmp_path
    signal.signal(signal.SIGTERM, handler)
    sys.excepthook = hook


def attached(total: int = 6, **more) -> Run:
    run = attach(torch.nn.Linear(1, 1), [], total_steps=total, **({"dataset_size": 40} | more))
    run.checkpoint_to_load()
    return run


def loader(rows: Rows, **more) -> torch.utils.data.DataLoader:
    return torch.utils.data.DataLoader(rows, batch_size=2, **more)


def trained(feed: Feed, run: Run, accumulate: int = 1) -> list[list[int]]:
    found = []
    for number, batch in enumerate(feed, 1):
        found.append(batch.tolist())
        if number % accumulate == 0:
            run.log(loss=1.0)
    return found


@pytest.mark.parametrize("workers", [0, pytest.param(2, marks=pytest.mark.slow)])
def test_it_gives_what_the_step_lines_say_whoever_loads(root, workers):
    run, rows = attached(dataset_size=40), Rows()
    feed = Feed(run, loader(rows, num_workers=workers), 2, accumulate=2)
    feed.begin(run.restored())
    assert len(feed) == 20
    found = trained(feed, run, accumulate=2)
    expected = attach(torch.nn.Linear(1, 1), [], total_steps=0, dataset_size=40)
    assert found == [expected.next_samples(2) for _ in range(12)]
    run.finish()
    steps = [line for line in lines(root / "attempts/0001/metrics.jsonl") if line["kind"] == "step"]
    assert [line["samples"] for line in steps] == [[[4 * step, 4 * step + 4]] for step in range(6)]


def test_what_was_loaded_ahead_is_loaded_anew_where_samples_are_left_out_meanwhile(root):
    run, rows = attached(dataset_size=None, total=5), Rows()
    feed = Feed(run, loader(rows), 2)
    feed.begin(run.restored())
    found = []
    for batch in feed:
        found.append(batch.tolist())
        if len(found) == 2:
            ask(run, "ov-2", skip=[[4, 9]])
        run.log(loss=1.0)
    assert found == [[0, 1], [2, 3], [9, 10], [11, 12], [13, 14]]


def test_the_epoch_in_which_a_run_goes_on_ends_where_it_would_have(root):
    run, rows = attached(total=100, dataset_size=10), Rows(10)
    feed = Feed(run, loader(rows), 2, accumulate=2)  # two steps an epoch, and two samples that belong to the next one
    run.step = 3
    run.restored()
    feed.begin(4)
    assert len(feed) == 4
    assert [len(list(feed)), len(list(feed))] == [2, 4]


def test_a_request_to_stop_ends_the_feed(root):
    run, rows = attached(total=100), Rows()
    feed = Feed(run, loader(rows), 2)
    feed.begin(run.restored())
    given = 0
    for _ in feed:
        given += 1
        if given == 3:
            ask(run, "ov-2", request="stop_now")
        run.log(loss=1.0)
        assert run.is_stopping == (given >= 3)
    assert given == 3
    assert list(feed) == []
    assert not run.is_due(3, now=True)


@pytest.mark.parametrize("rank", [0, 1])
def test_a_stream_is_drawn_past_what_is_left_out_in_whole_micro_batches_of_all_ranks(root, rank):
    run = attached(dataset_size=None, total=5, share=(rank, 2), skip_grain=4)  # two ranks, two samples of each
    drawn: list[int] = []

    def stream():
        for number in range(100):
            drawn.append(number)
            yield number

    batches = iter(WholeBatches(run, stream(), 4))
    found = []
    for step in run.steps(run.restored()):
        found.append(next(batches))
        if step == 2:
            ask(run, "ov-2", skip=[[6, 7], [9, 13]])
        run.log(loss=1.0)
    assert found == [0, 1, 4, 5, 6]
    assert drawn == [0, 1, 2, 3, 4, 5, 6], "nothing ahead of what is trained: the loader saves where it stands"
    assert run.cursor == 28
    written = lines(root / "attempts/0001/metrics.jsonl")
    assert [line["samples"] for line in written if line["kind"] == "step"] == [[[4 * one, 4 * one + 4]] for one in found]
    (answer,) = (line for line in written if line.get("event") == "override_applied")
    assert answer["effective"]["skip"] == [[8, 16]], "wider than asked, and what lies behind is not claimed"
    assert answer["skip_clamped"] == [[4, 8]]


def test_a_stream_goes_on_where_the_checkpoint_stood_and_ends_with_the_loader(root):
    run = attached(dataset_size=None, total=9, skip_grain=2)
    for _ in range(3):
        run.next_samples(2)
    assert list(WholeBatches(run, iter(["d", "e"]), 2)) == ["d", "e"]
    assert run.cursor == 10


def test_samples_that_come_together_are_asked_for_together(root):
    with pytest.raises(AttachError, match=r"next_samples\(6\): samples come 4 together"):
        attached(dataset_size=None, skip_grain=4).next_samples(6)
    with pytest.raises(AttachError, match="skip_grain=0"):
        attach(None, [], total_steps=1, skip_grain=0)


def test_data_that_comes_as_a_stream_is_refused_with_what_to_do():
    class Stream(torch.utils.data.IterableDataset):
        def __iter__(self):
            yield 1

    with pytest.raises(AttachError, match=r"DataLoader over Stream: .* attach a loop of your own"):
        size_of(torch.utils.data.DataLoader(Stream()))
    with pytest.raises(AttachError, match="is empty"):
        size_of(torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.zeros(0)), shuffle=False))


def test_what_is_refused_before_the_program_is_attached_is_recorded_as_what_no_relaunch_mends(root, monkeypatch):
    monkeypatch.setattr(sys, "excepthook", lambda *_: None)
    with pytest.raises(AttachError) as raised:
        known_size(lambda: size_of(loader(Rows(0), sampler=[])))
    sys.excepthook(AttachError, raised.value, None)
    (record,) = (root / "attempts/0001/exits").iterdir()
    assert json.loads(record.read_text())["code"] == AttachError.code


def test_an_update_that_fp16_leaves_out_in_the_first_row_loses_no_setting(root, monkeypatch):
    supervise(root, monkeypatch, lr_scale=0.5)
    model = torch.nn.Linear(1, 1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    run = attach(model, optimizer, total_steps=3)
    assert run.checkpoint_to_load() is None
    stepping = Stepping(run, [optimizer])
    for step in run.steps(run.restored()):
        model(torch.ones(1, 1)).sum().backward()
        if step > 1:  # the hooks of an optimizer that does not step put nothing in force
            optimizer.step()
        run.log(loss=1.0)
    stepping.remove()
    found = lines(root / "attempts/0001/metrics.jsonl")
    assert (found[0]["effective"]["lr_scale"], found[0]["capabilities"]) == (0.5, ["live_overrides"])
    assert [line["lr"] for line in found if line["kind"] == "step"] == [0.05] * 3
    assert not [line for line in found if line["kind"] == "event"]


def test_an_optimizer_that_somebody_else_steps_has_the_settings_in_its_step_alone(root, monkeypatch):
    supervise(root, monkeypatch, lr_scale=0.5, betas=[0.8, 0.9])
    model = torch.nn.Linear(1, 1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    run = attach(None, [], total_steps=1)
    assert run.checkpoint_to_load() is None
    run.bind(model, [optimizer], total_steps=2, clip=1.0)
    stepping = Stepping(run, [optimizer])
    inside = []
    optimizer.register_step_post_hook(lambda *_: None)
    clip = torch.nn.utils.clip_grad_norm_
    for _ in run.steps(run.restored()):
        model(torch.ones(1, 1)).sum().backward()
        run.clip_by(lambda limit: inside.append(limit) or clip(model.parameters(), limit))
        optimizer.step(lambda: inside.append(optimizer.param_groups[0]["lr"]))
        assert optimizer.param_groups[0]["lr"] == 0.1
        run.log(loss=1.0)
    stepping.remove()
    optimizer.step()
    assert inside == [1.0, 0.05, 1.0, 0.05]
    receipt = lines(root / "attempts/0001/metrics.jsonl")[0]
    assert (receipt["effective"]["lr_scale"], receipt["effective"]["betas"]) == (0.5, [0.8, 0.9])
    assert receipt["effective"]["clip_norm"] == 1.0
    assert receipt["capabilities"] == ["live_overrides"]
    with pytest.raises(AttachError, match=r"str is no torch\.optim\.Optimizer"):
        Stepping(run, ["adam"])


def test_a_checkpoint_is_linked_and_not_changed_when_the_library_writes_there_again(tmp_path):
    (tmp_path / "checkpoint-20" / "deep").mkdir(parents=True)
    own, other = tmp_path / "checkpoint-20" / "model.bin", tmp_path / "checkpoint-20" / "deep" / "one"
    own.write_text("first")
    other.write_text("same")
    link_tree(tmp_path / "checkpoint-20", tmp_path / "sealed")
    assert os.path.samefile(own, tmp_path / "sealed" / "model.bin")
    let_go(tmp_path / "checkpoint-20")
    own.write_text("second")
    assert (tmp_path / "sealed" / "model.bin").read_text() == "first"
    assert (tmp_path / "sealed" / "deep" / "one").read_text() == "same"
    let_go(tmp_path / "absent")
