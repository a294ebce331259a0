"""The checkpoints of an attached run: whole, measured, behind training; and a disk or a lease that refuses them."""

from __future__ import annotations

import errno
import json
import math

import pytest
import torch

from sentinel.checkpoints.files import read_numbers
from sentinel.checkpoints.verification import verify_checkpoint
from sentinel.client.torch.reading_back import read_all_back, read_part_back, share_out
from sentinel.client.torch.saving import is_of_the_disk
from tests.unit.client.attached_kit import Loop, events, numbers, stream, supervise

pytestmark = pytest.mark.usefixtures("alone")


def manifest(run_dir, step):
    return json.loads((run_dir / "checkpoints" / f"step-{step:08d}" / "manifest.json").read_text())


def test_what_is_saved_holds_is_measured_and_leads_on(tmp_path, monkeypatch):
    supervise(tmp_path, monkeypatch)
    loop = Loop().train()
    assert loop.saved == [3, 6]
    for step in loop.saved:
        assert verify_checkpoint(tmp_path / "checkpoints" / f"step-{step:08d}").ok
    last = manifest(tmp_path, 6)
    assert (last["cursor"], last["attempt"], last["parent"]["step"]) == (12, 1, 3)
    found = read_numbers(tmp_path / "checkpoints/step-00000006")
    assert found["param_norm"] == pytest.approx(math.sqrt(sum(value**2 for value in numbers(loop))))
    moments = [state["exp_avg"] for state in loop.optimizer.state.values()]
    assert found["adam_m_norm"] == pytest.approx(math.sqrt(sum(float(one.square().sum()) for one in moments)))
    assert found["nonfinite"] == 0
    committed = events(tmp_path, "checkpoint_committed")
    assert [line["step"] for line in committed] == [3, 6]
    assert all(0 <= line["blocked_s"] <= line["seconds"] for line in committed)
    assert [line["kind"] for line in stream(tmp_path)][-1] == "end"


def test_the_next_attempt_goes_on_from_what_it_was_told(tmp_path, monkeypatch):
    supervise(tmp_path, monkeypatch)
    whole = Loop(dataset_size=50).train()
    digest = events(tmp_path, "checkpoint_committed")[0]["digest"]
    resume = {"step": 3, "path": "checkpoints/step-00000003", "digest": digest}
    supervise(tmp_path, monkeypatch, 2, resume)
    again = Loop(dataset_size=50).train()
    assert again.taken == whole.taken[3:]
    assert list(numbers(again)) == list(numbers(whole))
    receipt = stream(tmp_path, "start", 2)[0]
    assert (receipt["resume_step"], receipt["resume_digest"], receipt["cursor"]) == (3, digest, 6)
    assert manifest(tmp_path, 6)["attempt"] == 2
    assert (tmp_path / "quarantine/attempt-0001/step-00000006").is_dir(), "the one of the abandoned lineage is moved aside"


def test_a_named_checkpoint_that_changed_is_passed_over_and_that_is_said(tmp_path, monkeypatch):
    supervise(tmp_path, monkeypatch)
    Loop().train()
    supervise(tmp_path, monkeypatch, 2, {"step": 6, "path": "checkpoints/step-00000006", "digest": "0" * 64})
    loop = Loop().train()
    assert loop.saved == [6]
    (event,) = events(tmp_path, "resumed_older", 2)
    assert (event["step"], event["asked_step"], event["passed_over"][0]["step"]) == (3, 6, 6)


def test_damage_is_counted_in_what_is_saved(tmp_path, monkeypatch):
    supervise(tmp_path, monkeypatch)
    loop = Loop()

    def damage(step):
        if step == 3:
            with torch.no_grad():
                loop.model.weight[0, :2] = torch.tensor([float("nan"), float("inf")])

    loop.train(damage)
    assert manifest(tmp_path, 3)["metrics"]["nonfinite"] >= 2
    assert manifest(tmp_path, 3)["metrics"]["param_norm"] == "NaN"
    assert stream(tmp_path, "step")[2]["loss"] == "NaN"


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left on device"), RuntimeError("PytorchStreamWriter failed")])
def test_a_disk_that_refuses_a_save_ends_no_training(tmp_path, monkeypatch, capsys, error):
    supervise(tmp_path, monkeypatch)
    loop = Loop()
    whole = loop.save

    def save(place):
        if loop.run.step == 3:
            raise error
        whole(place)

    loop.save = save
    loop.train()
    (failed,) = events(tmp_path, "checkpoint_failed")
    assert failed["step"] == 3
    assert str(error) in failed["reason"]
    assert "was not written" in capsys.readouterr().err
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == ["step-00000006"], "nothing is left behind"
    assert stream(tmp_path, "end")[0]["reason"] == "finished"


def test_torch_says_of_a_full_disk_what_is_taken_for_one():
    with pytest.raises((OSError, RuntimeError)) as raised:
        torch.save(torch.zeros(1 << 20), "/dev/full")
    assert is_of_the_disk(raised.value)


def test_an_error_of_the_program_is_its_own(tmp_path, monkeypatch):
    supervise(tmp_path, monkeypatch)
    loop = Loop()
    loop.save = lambda place: {}[place]
    with pytest.raises(KeyError):
        loop.train()


def test_a_stream_that_cannot_be_written_ends_no_training(tmp_path, monkeypatch, capsys):
    supervise(tmp_path, monkeypatch)
    loop = Loop(uses=("settings",))
    (tmp_path / "attempts/0001/metrics.jsonl").mkdir()
    loop.train()
    assert loop.run.step == 6
    assert capsys.readouterr().err.count("could not be written") == 1


def test_a_superseded_attempt_commits_nothing_and_ends(tmp_path, monkeypatch):
    supervise(tmp_path, monkeypatch)
    (tmp_path / "lease.json").write_text('{"epoch": 2, "attempt": 2}')
    loop = Loop(total_steps=1000)
    loop.train(lambda step: loop.run._checkpoints.wait() if step == 4 else None)
    assert loop.run.step == 4
    loop.run._leaving.leave()
    assert not list((tmp_path / "checkpoints").iterdir())
    assert stream(tmp_path, "end")[0]["reason"] == "failed"
    assert json.loads((tmp_path / "attempts/0001/exits/rank-00000.json").read_text())["code"] == 1


def test_a_program_that_writes_checkpoints_itself_has_them_committed(tmp_path, monkeypatch):
    supervise(tmp_path, monkeypatch)
    loop = Loop(uses=("settings",))
    for step in loop.run.steps(loop.run.restore(loop.load)):
        loop.one(step)
        if step == 4:
            own = tmp_path / "mine" / "deep"
            own.mkdir(parents=True)
            loop.save(str(own))
            loop.run.commit_checkpoint(own.parent, step, cursor=400)
    assert verify_checkpoint(tmp_path / "checkpoints/step-00000004").ok
    assert manifest(tmp_path, 4)["cursor"] == 400
    assert list(manifest(tmp_path, 4)["files"]) == ["deep/state.pt"]


def test_a_step_that_is_out_of_reach_is_a_clear_end(tmp_path, monkeypatch):
    supervise(tmp_path, monkeypatch, 1, {"step": 6, "path": "checkpoints/step-00000006", "digest": None})
    loop = Loop()
    with pytest.raises(RuntimeError, match="no checkpoint can be used; the first refusal"), loop.run:
        loop.train()
    assert json.loads((tmp_path / "attempts/0001/exits/rank-00000.json").read_text())["code"] == 4


def test_the_first_launch_may_adopt_what_is_there_and_later_ones_begin_where_they_are_told_to(tmp_path, monkeypatch):
    Loop(out_dir=tmp_path, total_steps=3).train()
    supervise(tmp_path, monkeypatch)
    first = Loop(resume="newest_existing")
    assert first.run.restore(first.load) == 4
    supervise(tmp_path, monkeypatch, 2)
    second = Loop(resume="newest_existing").train()
    assert second.taken[0] == [0, 1]
    assert (stream(tmp_path, "start", 2)[0]["resume_step"], stream(tmp_path, "start", 2)[0]["adopted"]) == (0, False)


def test_files_are_shared_out_among_those_who_see_them():
    assert share_out([["a", "b", "c", "d"], ["a", "b", "c", "d"]]) == [["a", "c"], ["b", "d"]]
    assert share_out([["a"], ["a", "b"], ["c"]]) == [["a"], ["b"], ["c"]]
    assert share_out([[]]) == [[]]


def test_a_rank_that_cannot_read_its_files_back_makes_no_checkpoint(tmp_path):
    (tmp_path / "a").write_bytes(b"1")
    read_part_back(tmp_path, 1, ["b"])
    with pytest.raises(OSError, match=r"rank 1 could not read its files back: .*No such file"):
        read_all_back(tmp_path, [["a"], ["b"]])


def test_a_rank_that_leaves_nothing_is_given_up(tmp_path, monkeypatch):
    monkeypatch.setattr("sentinel.client.torch.reading_back.PART_TIMEOUT_S", -1.0)
    with pytest.raises(TimeoutError, match="rank 1 has not read its files back"):
        read_all_back(tmp_path, [[], ["b"]])
