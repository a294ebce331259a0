"""What a person gets wrong at the edges of the trainer: each ends in one sentence, before anything is overwritten."""

import gzip
import json
import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.trainer.in_process import train_here
from trainer.checkpoint import verify
from trainer.checkpoint.exporting import export
from trainer.checkpoint.listing import place_of
from trainer.command_line import check_out_dir, check_world, parse_arguments
from trainer.config.loading import describe_settings, load_config
from trainer.data.__main__ import main as data_main
from trainer.exits import ConfigError, DataError, NonFiniteError, SaveError, describe_error
from trainer.resuming import resume


def test_a_run_does_not_begin_anew_among_the_checkpoints_of_another(launch, tmp_path):
    check_out_dir(launch)
    (tmp_path / "checkpoints" / "step-00000500").mkdir(parents=True)
    with pytest.raises(ConfigError, match=r"of an earlier run, the newest of step 500; add --resume"):
        check_out_dir(launch)
    check_out_dir(replace(launch, resume=True))


def test_a_place_that_cannot_be_written_is_refused_before_training(launch, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    for place in ("file", "file/below"):
        with pytest.raises(ConfigError, match=rf"--out-dir .*{place}: .*file is no directory"):
            check_out_dir(replace(launch, out_dir=tmp_path / place))
    assert list(tmp_path.iterdir()) == [tmp_path / "file"], "nothing is made yet"
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(ConfigError, match="cannot be written by this user"):
        check_out_dir(launch)


def test_only_what_nobody_foresaw_is_told_with_a_traceback():
    for error in (ConfigError("so"), DataError("so"), NonFiniteError("so"), SaveError("so")):
        assert describe_error(error) == "trainer: so"
    lost = RuntimeError("[../gloo/transport/tcp/pair.cc:553] Connection closed by peer [::1]:1\nmore of it")
    assert describe_error(lost).startswith("trainer: another rank left")
    assert "Traceback" not in describe_error(KeyboardInterrupt())
    for error in (lost, KeyboardInterrupt()):
        assert len(describe_error(error).splitlines()) == 1
    assert "ValueError: unforeseen" in describe_error(ValueError("unforeseen"))
    assert "peer" not in describe_error(RuntimeError("NCCL error: unhandled system error"))


EDITS = {
    "cursor": None, "config": None, "loss_scaler": None, "orders": 3, "skip": [["a"]], "recent": 3, "clipped": 5,
    "history": {"gate": 3},
}  # fmt: skip


def test_a_manifest_edited_by_hand_is_passed_over_with_the_reason(world, monkeypatch, tmp_path):
    """Its own digest is known to a supervisor alone: without one, every byte still holds."""
    sizes = "schedule.steps=2", "checkpoint.every=1", "data.batch_size=2", "data.seq_len=16", "evaluation.batches=1"
    run, _ = train_here(world, monkeypatch, tmp_path, "--preset", "micro", "--set", *sizes)
    place = tmp_path / "checkpoints" / "step-00000002" / "manifest.json"
    whole = json.loads(place.read_text())
    for name, value in EDITS.items():
        edited = {key: entry for key, entry in whole.items() if key != name} | ({} if value is None else {name: value})
        place.write_text(json.dumps(edited))
        found, refused = resume(run, None)
        assert (found.step, refused[0]["step"]) == (1, 2), name
        assert "manifest.json" in refused[0]["reason"], name
    place.write_text(json.dumps(whole | {"files": {}}))
    with pytest.raises(DataError, match=r"is there, and manifest.json does not list it"):
        verify(place.parent)
    with pytest.raises(DataError, match="has no checkpoint of step 99; there are 1, 2"):
        place_of(tmp_path / "checkpoints", 99)
    (tmp_path / "file").touch()
    plain = tmp_path / "checkpoints" / "step-00000001"
    for out in (tmp_path / "file" / "model.safetensors", Path("/proc/none/model.safetensors")):
        with pytest.raises(ConfigError, match=r"--out .*: cannot be written"):
            export(plain, out)
    monkeypatch.setitem(sys.modules, "safetensors.torch", None)
    with pytest.raises(ConfigError, match="that package is not installed; pip install safetensors"):
        export(plain, tmp_path / "out" / "model.safetensors")
    assert not (tmp_path / "out").exists()


def packed_and_damaged(folder):
    packed = bytearray(gzip.compress(b"".join(b'{"text": "document %d"}\n' % number for number in range(4000))))
    packed[300:340] = bytes(byte ^ 0x5A for byte in packed[300:340])
    (folder / "bad.jsonl.gz").write_bytes(packed)
    (folder / "deep.jsonl").write_text("[" * 100_000)
    (folder / "text.txt.gz").write_bytes(gzip.compress(b"text"))
    (folder / "text.txt").write_text("a line of text\n" * 1000)


def test_inputs_that_cannot_be_read_are_one_sentence_and_leave_nothing(tmp_path, capsys):
    packed_and_damaged(tmp_path)
    out = str(tmp_path / "out")
    cases = (
        (["prepare", "bad.jsonl.gz", "--out", out], 4, "bad.jsonl.gz: cannot be unpacked"),
        (["prepare", "deep.jsonl", "--out", out], 4, "deep.jsonl:1: is no JSON"),
        (["prepare", "text.txt.gz", "--out", out], 3, "text.txt.gz: is packed"),
        (["prepare", "text.txt", "--out", str(tmp_path / "text.txt")], 3, "--out"),
        (["prepare", "text.txt"], 3, "required: --out; see"),
        (["frob"], 3, "invalid choice: 'frob'"),
        (["show", str(tmp_path / "nowhere")], 4, "nowhere: does not exist"),
        (["verify", str(tmp_path / "nowhere")], 4, "nowhere: does not exist"),
    )
    for words, code, says in cases:
        words = [
            str(tmp_path / word) if word in ("bad.jsonl.gz", "deep.jsonl", "text.txt.gz", "text.txt") else word for word in words
        ]
        assert data_main(words) == code, words
        output = capsys.readouterr().err
        assert says in output, words
        assert len(output.splitlines()) == 1, words
    assert not os.path.exists(out) or not os.listdir(out)


def test_a_disk_that_is_full_names_the_folder(tmp_path, capsys, monkeypatch):
    packed_and_damaged(tmp_path)

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    assert data_main(["prepare", str(tmp_path / "text.txt"), "--out", str(tmp_path / "out")]) == 4
    assert "out: cannot be written (No space left on device); make room" in capsys.readouterr().err
    assert not list((tmp_path / "out").iterdir())


def test_a_folder_that_cannot_be_listed_is_not_left_out_in_silence(tmp_path, capsys, monkeypatch):
    packed_and_damaged(tmp_path)
    shut = tmp_path / "shut"
    shut.mkdir()
    listed = os.scandir

    def scandir(path):
        if os.fspath(path) == str(shut):
            raise PermissionError(13, "Permission denied", str(shut))
        return listed(path)

    monkeypatch.setattr(os, "scandir", scandir)
    assert data_main(["prepare", str(tmp_path), "--out", str(tmp_path / "out")]) == 4
    assert "shut: cannot be read (Permission denied)" in capsys.readouterr().err


def test_settings_read_well_and_what_is_no_value_is_told_plainly(tmp_path):
    output = describe_settings()
    assert "init.std  (float | small | wang; 0.02; fixed for a run)" in output
    assert "optim.betas  ([float, float]; [0.9, 0.95])" in output
    assert "model.kv_heads  (int | null; null; fixed for a run)" in output
    for words in (".=3", "optim..lr=3"):
        with pytest.raises(ConfigError, match=r"write SECTION.FIELD=VALUE"):
            load_config("micro", None, [words])
    with pytest.raises(ConfigError, match=r"--set optim 3: is a section, not a setting; write --set optim.FIELD=VALUE"):
        load_config("micro", None, ["optim=3"])
    deep = tmp_path / "deep.yaml"
    deep.write_text("[" * 500)
    with pytest.raises(ConfigError, match=r"deep.yaml: is not YAML"):
        load_config(None, deep)


def test_replicas_that_ranks_do_not_divide_into_are_refused_by_check_too():
    with pytest.raises(ConfigError, match=r"parallel.replicas 3: 2 ranks do not divide"):
        check_world(parse_arguments(["--check", "--set", "parallel.replicas=3"]), 2)
