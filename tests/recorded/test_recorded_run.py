"""A run that an earlier version recorded is shown, reported and continued, fact for fact (README.md says what it holds)."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from sentinel.journal.codec import decode_fact, encode_fact
from tests.recorded import shown

HERE = Path(__file__).resolve().parent
EXPECTED = HERE / "expected"
STEPS, BATCH = 600, 8
SKIPPED_BY_A_PERSON = [4640, 4660]
EMPTY: tuple[object, ...] = (None, False, 0, "", [], {})


def lay_out(place: Path) -> Path:
    """A copy of the recording, on this machine. What ties a run directory to the place where it was begun is `cwd` in run.json,
    which the trainer's `data.path` counts from; the recorded command itself names no place, and the policy lies beside the run.
    Empty directories, which Git does not keep, are made again. No fact is touched."""
    for name in ("run", "corpus"):
        shutil.copytree(HERE / name, place / name)
    shutil.copy(HERE / "policy.yaml", place)
    run_file = place / "run" / "run.json"
    run_file.write_text(json.dumps(json.loads(run_file.read_text()) | {"cwd": str(place)}))
    (place / "run" / "inbox").mkdir(exist_ok=True)
    return place


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return lay_out(tmp_path_factory.mktemp("recorded"))


def expected(name: str) -> Any:
    return json.loads((EXPECTED / name).read_text(encoding="utf-8"))


def journal(place: Path) -> list[tuple[int, float, int, str, str]]:
    return shown.fact_rows(place / "run" / "sentinel.db")


def added(old: Any, new: Any, where: str = "") -> list[str]:
    """Keys that the new document has and the old one had not, unless they are empty: a default of a field that came later."""
    if isinstance(old, dict) and isinstance(new, dict):
        more = [f"{where}.{key}" for key in new if key not in old and new[key] not in EMPTY]
        return more + [found for key in old if key in new for found in added(old[key], new[key], f"{where}.{key}")]
    if isinstance(old, list) and isinstance(new, list):
        return [found for index, pair in enumerate(zip(old, new, strict=False)) for found in added(*pair, f"{where}[{index}]")]
    return []


def test_every_fact_is_read_and_written_again_as_it_was(recorded: Path) -> None:
    rows = journal(recorded)
    kept = [json.loads(line) for line in (EXPECTED / "facts.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [[*row[:4], json.loads(row[4])] for row in rows] == kept, "the recording itself was changed"
    for seq, _, _, kind, body in rows:
        again_kind, again = encode_fact(decode_fact(kind, body))
        assert again_kind == kind, f"entry {seq}: {body}"
        if again != body:  # only because a field was added since, which is empty in what was recorded before
            old, new = json.loads(body), json.loads(again)
            assert not [*shown.differences(old, new), *added(old, new)], f"entry {seq} ({kind}): {body} -> {again}"


def test_the_recording_holds_what_it_is_kept_for(recorded: Path) -> None:
    kinds = {row[3] for row in journal(recorded)}
    assert kinds >= {
        "IncidentOpened", "RungTaken", "ApprovalAsked", "PageRaised", "PageResolved", "WishAnswered", "SettingLapsed",
        "LapseJudged", "CheckpointsQuarantined", "EnvironmentRead", "StopAsked", "RunEnded",
    }  # fmt: skip
    assert {incident["kind"] for incident in expected("incidents.json")} == {"crash", "spike", "non_finite", "hang"}


@pytest.mark.parametrize("name", sorted(shown.DOCUMENTS) + sorted(shown.LINES))
def test_a_document_says_what_it_said(recorded: Path, name: str) -> None:
    assert not list(shown.differences(expected(name.replace(".jsonl", ".json")), shown.document(recorded, name)))


@pytest.mark.parametrize("name", sorted(shown.TEXTS))
def test_a_text_says_what_it_said(recorded: Path, name: str) -> None:
    assert shown.show(recorded, *shown.TEXTS[name]).splitlines() == (EXPECTED / name).read_text(encoding="utf-8").splitlines()


def test_the_metrics_have_their_names_and_values(recorded: Path) -> None:
    assert not list(shown.differences(expected("metrics.json"), shown.metrics(recorded)))


def test_the_report_is_written(recorded: Path) -> None:
    done = shown.sentinel(recorded, "report", "run", "--out", "report.html")
    assert done.returncode == 0, done.stderr
    page = (recorded / "report.html").read_text(encoding="utf-8")
    for incident in expected("incidents.json"):
        assert incident["kind"] in page


@pytest.mark.parametrize("name", sorted(json.loads((EXPECTED / "policies.json").read_text(encoding="utf-8"))))
def test_a_policy_of_then_has_its_values(name: str) -> None:
    path = HERE / "policy.yaml" if name == "policy.yaml" else HERE / "policies" / name
    assert not list(shown.differences(expected("policies.json")[name], shown.policy_values(path)))


def test_the_run_goes_on_to_its_end_with_all_that_was_in_force(tmp_path: Path) -> None:
    place = lay_out(tmp_path)
    before, newest = journal(place), len(list((place / "run" / "attempts").iterdir()))
    words = ["run", "--run-dir", "run", "--policy", "policy.yaml", "--listen", "off"]
    done = shown.sentinel(place, *words, deadline_s=200.0)
    assert done.returncode == 0, done.stdout + done.stderr
    assert journal(place)[: len(before)] == before
    status = json.loads(shown.show(place, "status", "--json"))
    assert (status["state"], status["step"], status["attempt"]) == ("finished", STEPS, newest + 1), done.stdout
    incidents = shown.document(place, "incidents.json")
    assert not list(shown.differences(expected("incidents.json"), incidents)), "what was over stays so, and nothing is added"

    old, new = (json.loads((place / f"run/attempts/{number:04d}/spec.json").read_text()) for number in (newest, newest + 1))
    in_force = {key: value for key, value in old["overrides"].items() if key not in ("id", "attempt", "incident", "request")}
    assert not list(shown.differences(in_force, new["overrides"]))
    assert (in_force["lr_scale"], in_force["clip_norm"], in_force["weight_decay"]) == (0.5, 0.7, 0.05)
    assert SKIPPED_BY_A_PERSON in in_force["skip"]
    lines = [json.loads(line) for line in (place / f"run/attempts/{newest + 1:04d}/metrics.jsonl").read_text().splitlines()]
    assert lines[0]["effective"]["lr_scale"] == 0.5
    assert lines[0]["resume_step"] == expected("status.json")["step"]
    trained = [span for line in lines if line["kind"] == "step" for span in line["samples"]]
    assert max(end for _, end in trained) >= STEPS * BATCH
    for first, end in in_force["skip"]:
        assert not [span for span in trained if span[0] < end and span[1] > first]
