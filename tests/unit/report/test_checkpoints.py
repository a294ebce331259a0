"""`sentinel checkpoints list` and `verify`: what is said of a run directory's checkpoints."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from math import nan
from pathlib import Path

import pytest
import torch
from safetensors.torch import save as save_file
from typer.testing import CliRunner

from sentinel.cli.root import app
from sentinel.client.run_layout import JOURNAL_NAME
from sentinel.client.strict_json import dumps
from sentinel.journal.run_file import PolicyReference, read_run_file, write_run_file
from sentinel.journal.store import Journal
from sentinel.model import facts as f
from sentinel.model.actions import PruneCheckpoint
from sentinel.policy_files.loading import shipped_policy_path
from sentinel.report.checkpoints import SIZES, amount_words, read_trust, trust_text
from tests.unit.checkpoints.counted import commit
from tests.unit.told_run import write_run


def save(run_dir: Path, step: int, attempt: int = 1, data: bytes = b"weights" * 1000, **metrics: object) -> Path:
    folder = run_dir / "checkpoints" / f"step-{step:08d}"
    folder.mkdir(parents=True)
    (folder / "data").write_bytes(data)
    files = {"data": {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}}
    told = {"metrics": metrics} if metrics else {}
    (folder / "manifest.json").write_text(dumps({"step": step, "attempt": attempt, "cursor": 0, "files": files, **told}))
    return folder


def write_norms(run_dir: Path, attempt: int, last: int) -> None:
    path = run_dir / "attempts" / f"{attempt:04d}" / "metrics.jsonl"
    path.parent.mkdir(parents=True)
    lines: list[dict[str, object]] = [{"kind": "start", "v": 1, "attempt": attempt, "resume_step": 0}]
    lines += [{"kind": "step", "step": step, "time_s": step, "loss": 2.0, "param_norm": 30.0} for step in range(1, last + 1)]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def run(*words: object) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["checkpoints", *map(str, words)])
    return done.exit_code, done.stdout


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    return write_run(tmp_path / "run")


def test_the_list_has_a_line_for_each_with_step_age_size_word_and_reason(run_dir: Path) -> None:
    save(run_dir, 100)
    code, text = run("list", run_dir)
    assert code == 0
    head, _, first, *_ = text.splitlines()
    assert head.split() == ["step", "age", "size", "trust", "why"]
    assert first.split()[0] == "100"
    assert " 6.84 KiB  proven  attempt 3 trained on from it to step 600 without harm, 500 steps beyond it" in first


def test_the_document_has_the_keys_people_build_on(run_dir: Path) -> None:
    code, text = run("list", run_dir, "--json")
    document = json.loads(text)
    assert code == 0
    assert (document["probation_steps"], document["missing"]) == (60, "")
    words = {"candidate", "verified", "proven", "suspect", "damaged", "quarantined", "pruned"}
    assert document["retain"] is None
    for one in document["checkpoints"]:
        assert set(one) == {"step", "path", "attempt", "digest", "age_s", "bytes", "trust", "why", "kept"}
        assert one["kept"] is None, "sentinel deletes none of them"
        assert one["trust"] in words
        assert one["why"]
        assert one["bytes"] is None, "its directory is gone: that costs this column only"


def test_without_the_policy_it_says_why_nothing_is_proven(run_dir: Path) -> None:
    gone = PolicyReference("/nowhere/mine.yaml", "d" * 64, "mine")
    write_run_file(run_dir, replace(read_run_file(run_dir), policy=gone))
    document = read_trust(run_dir)
    assert {one["trust"] for one in document["checkpoints"]} == {"candidate"}
    assert "nothing can be called proven: the run's policy cannot be read: mine" in trust_text(document)


def test_with_retention_each_says_why_it_is_kept_and_those_that_went_are_counted(tmp_path: Path) -> None:
    run_dir = write_run(tmp_path / "run")
    mine, retain = tmp_path / "mine.yaml", "spec:\n  checkpoints: {retain: {last: 2, every: 70 steps}}\n"
    mine.write_text(shipped_policy_path("demo").read_text().replace("spec:\n", retain, 1))
    write_run_file(run_dir, replace(read_run_file(run_dir), policy=PolicyReference(str(mine), "d" * 64, "mine")))
    with Journal.open(run_dir / JOURNAL_NAME) as journal:
        known = replace(next(e.fact for e in journal.read_entries() if isinstance(e.fact, f.CheckpointCommitted)), digest="d")
        pruned = f.ActionDecided(PruneCheckpoint("prune/1", known.step, known.path, "d", "nobody needs it"))
        journal.append(9999.0, [known, pruned, f.ActionConfirmed("prune/1")], journal.claim_epoch())
    document = read_trust(run_dir)
    assert document["retain"] == {"last": 2, "every": 70}
    there = {c["step"]: c["kept"] for c in document["checkpoints"] if c["trust"] not in ("pruned", "quarantined")}
    assert there == {350: "a multiple of 70 steps: kept for ever"}
    text = trust_text(document)
    assert text.splitlines()[0].split() == ["step", "age", "size", "trust", "why", "kept"]
    assert f"1 deleted, the last of step {known.step}: deleted: nobody needs it" in text


def test_a_run_without_checkpoints_says_so(tmp_path: Path) -> None:
    run_dir = write_run(tmp_path / "run", until=5)
    assert run("list", run_dir) == (0, "no checkpoint was committed yet\n")
    assert run("verify", run_dir) == (0, "there is no checkpoint\n")


def test_verify_compares_bytes_and_numbers_and_its_code_says_whether_all_hold(run_dir: Path) -> None:
    write_norms(run_dir, 1, 101)
    save(run_dir, 50, param_norm=30.0, nonfinite=0)
    save(run_dir, 75)
    assert run("verify", run_dir) == (
        0,
        "step 50: holds: 1 files, 7000 bytes match their digests; param_norm 30, recorded 30 at step 51 (at most 0.15 apart was "
        "expected)\nstep 75: bytes hold, numbers unknown: 1 files, 7000 bytes match their digests; its manifest tells no "
        "numbers\n",
    )
    save(run_dir, 100, param_norm=27.0, nonfinite=0)
    code, text = run("verify", run_dir, 100, 50, "--json")
    assert code == 1
    found = [(one["step"], one["ok"], one["numbers"]) for one in json.loads(text)]
    assert found == [(100, False, "wrong"), (50, True, "hold")]
    (run_dir / "checkpoints" / "step-00000050" / "data").write_bytes(b"other")
    code, text = run("verify", run_dir, 50)
    assert code == 1
    assert text.startswith("step 50: DAMAGED: ")


@pytest.mark.parametrize("told", [{"param_norm": "NaN"}, {"nonfinite": 2}, {"adam_v_norm": "Infinity"}])
def test_numbers_that_are_none_are_damage(run_dir: Path, told: dict[str, object]) -> None:
    save(run_dir, 50, **told)
    assert run("verify", run_dir)[0] == 1


@pytest.mark.parametrize("told", [{"param_norm": "big"}, {"param_norm": None}, {"note": [1, 2]}])
def test_what_is_no_number_in_a_manifest_is_its_own_business(run_dir: Path, told: dict[str, object]) -> None:
    save(run_dir, 50, **told)
    assert run("verify", run_dir)[0] == 0


def test_a_step_that_is_not_there_is_named_with_those_that_are(run_dir: Path) -> None:
    save(run_dir, 50)
    done = CliRunner().invoke(app, ["checkpoints", "verify", str(run_dir), "60"])
    assert str(done.exception) == f"{run_dir}: there is no checkpoint of step 60; there are: 50"


def test_one_without_a_manifest_is_looked_at_like_the_others(run_dir: Path) -> None:
    (save(run_dir, 50) / "manifest.json").unlink()
    save(run_dir, 75)
    (save(run_dir, 100) / "manifest.json").write_text("{")
    code, text = run("verify", run_dir)
    assert code == 1
    assert [line.split(":")[1] for line in text.splitlines()] == [" DAMAGED", " bytes hold, numbers unknown", " DAMAGED"]


def test_the_largest_amounts_of_a_unit_are_told_whole() -> None:
    assert [amount_words(value * 2.0**30, SIZES) for value in (1.5, 1023.4, 1024)] == ["1.5 GiB", "1023 GiB", "1 TiB"]


@pytest.mark.parametrize("name", ["\x1b[31mevil", "\ud800"])
@pytest.mark.parametrize("entry", [{"bytes": 3}, {"bytes": 3, "sha256": "00"}])
def test_a_name_in_a_manifest_gives_the_terminal_no_command(run_dir: Path, name: str, entry: dict[str, object]) -> None:
    manifest = save(run_dir, 50) / "manifest.json"
    manifest.write_text(json.dumps({"v": 1, "step": 50, "attempt": 1, "files": {name: entry}}))
    code, text = run("verify", run_dir)
    assert code == 1
    assert text.startswith("step 50: DAMAGED: ")
    assert text.strip().isprintable()


def test_verify_counts_what_lies_in_the_tensors_of_other_peoples_checkpoints(run_dir: Path) -> None:
    sound, damaged = save_file({"a": torch.ones(9)}), save_file({"a": torch.ones(9), "layer.3.weight": torch.tensor([1.0, nan])})
    for step, data in ((50, sound), (75, damaged), (100, b"\x89HDF" + bytes(50))):
        folder = run_dir / "checkpoints" / f"step-{step:08d}"
        folder.mkdir(parents=True)
        (folder / "model.safetensors" if step < 100 else folder / "model.h5").write_bytes(data)
        commit(run_dir, step)
    code, text = run("verify", run_dir)
    assert code == 1
    holds, wrong, unknown = text.splitlines()
    assert holds.startswith("step 50: holds: 1 files, ")
    assert holds.endswith("its manifest tells no numbers; all 9 values of its tensors are finite")
    assert wrong == "step 75: DAMAGED: 1 of 2 values of model.safetensors (layer.3.weight) are not finite"
    assert unknown.startswith("step 100: bytes hold, numbers unknown: ")
    assert unknown.endswith("not counted: model.h5: its format is not known")
    documents = json.loads(run("verify", run_dir, "--json")[1])
    assert [one["numbers"] for one in documents] == ["hold", "wrong", "unknown"]
    place = {"file": "model.safetensors", "tensor": "layer.3.weight", "values": 2, "nan": 1, "infinite": 0}
    assert documents[1]["values"] == {
        "files": 1, "counted": 11, "nan": 1, "infinite": 0, "tensors": [place], "more_tensors": 0, "not_counted": [],
    }  # fmt: skip
    assert documents[2]["values"]["not_counted"] == ["model.h5: its format is not known"]
    (run_dir / "checkpoints" / "step-00000050" / "model.safetensors").write_bytes(b"other")
    assert json.loads(run("verify", run_dir, 50, "--json")[1])[0]["values"] is None
