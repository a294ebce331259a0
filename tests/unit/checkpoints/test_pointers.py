"""Pointers to the newest checkpoint, after later checkpoints were moved to quarantine."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sentinel.checkpoints import pointers as checkpoint_pointers
from sentinel.checkpoints.pointers import fix_pointers
from sentinel.checkpoints.quarantine import quarantine_above

MEGATRON = "latest_checkpointed_iteration.txt"


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    """Checkpoints of steps 100 and 200 in our names, of step 100 in DeepSpeed's too."""
    for name in ("step-00000100", "step-00000200", "global_step100"):
        (tmp_path / "checkpoints" / name).mkdir(parents=True)
        (tmp_path / "checkpoints" / name / "manifest.json").write_text("{}")
    return tmp_path


def point(run_dir: Path, name: str, told: str) -> Path:
    path = run_dir / "checkpoints" / name
    path.write_text(told)
    return path


def kept(run_dir: Path, name: str) -> str:
    return (run_dir / "quarantine" / "attempt-0003" / name).read_text()


def roll_back(run_dir: Path, step: int = 100) -> list[str]:
    quarantine_above(run_dir, step, 3)
    return fix_pointers(run_dir, step, 3)


@pytest.mark.parametrize(
    ("name", "told", "now"),
    [
        (MEGATRON, "200", "100"),
        (MEGATRON, "200\n", "100\n"),
        ("latest", "step-00000200", "step-00000100"),
        ("latest", "global_step200\n", "global_step100\n"),
    ],
)
def test_a_pointer_to_a_quarantined_step_names_the_resume_step_in_its_own_form(
    run_dir: Path, name: str, told: str, now: str
) -> None:
    path = point(run_dir, name, told)
    (words,) = roll_back(run_dir)
    assert words == f"{name} now names {now.strip()}"
    assert (path.read_text(), kept(run_dir, name)) == (now, told)
    assert roll_back(run_dir) == [], "done twice, it changes nothing"
    assert path.read_text() == now


def test_a_link_leads_to_the_resume_step(run_dir: Path) -> None:
    link = run_dir / "checkpoints" / "latest"
    link.symlink_to("step-00000200")
    assert roll_back(run_dir) == ["latest now leads to step-00000100"]
    assert (os.readlink(link), kept(run_dir, "latest")) == ("step-00000100", "step-00000200")
    assert roll_back(run_dir) == []


def test_a_link_by_its_whole_path_keeps_it(run_dir: Path) -> None:
    place = run_dir / "checkpoints"
    (place / "latest").symlink_to(place / "step-00000200")
    assert roll_back(run_dir) == [f"latest now leads to {place}/step-00000100"]
    assert (place / "latest").is_dir()


def test_a_link_to_somewhere_else_stays(run_dir: Path) -> None:
    (run_dir / "checkpoints" / "latest").symlink_to(run_dir / "elsewhere" / "step-00000200")
    assert roll_back(run_dir) == []


@pytest.mark.parametrize("told", ["release", "100", "99", "", "step-00000200 and more", "x" * 5000, "-5", "2" * 40])
def test_what_names_no_quarantined_step_stays(run_dir: Path, told: str) -> None:
    path = point(run_dir, "latest", told)
    assert roll_back(run_dir) == []
    assert path.read_text() == told


def test_a_name_that_still_lies_there_stays(run_dir: Path) -> None:
    (run_dir / "checkpoints" / "global_step200").mkdir()
    path = point(run_dir, "latest", "global_step200")
    assert roll_back(run_dir) == []
    assert path.read_text() == "global_step200"


@pytest.mark.parametrize(("told", "step"), [("iter_0000200", 100), ("200", 0), ("step-00000200", 0)])
def test_where_there_is_nothing_to_name_the_pointer_is_taken_away(run_dir: Path, told: str, step: int) -> None:
    path = point(run_dir, "latest", told)
    assert roll_back(run_dir, step) == [f"latest named {told} and was taken away"]
    assert not path.exists()
    assert kept(run_dir, "latest") == told


def test_bytes_that_are_no_text_and_a_directory_of_that_name_stay(run_dir: Path) -> None:
    (run_dir / "checkpoints" / "latest").mkdir()
    (run_dir / "checkpoints" / MEGATRON).write_bytes(b"\xff\xfe200")
    assert roll_back(run_dir) == []


def test_a_second_rollback_of_the_same_attempt_keeps_both_texts(run_dir: Path) -> None:
    point(run_dir, "latest", "200")
    roll_back(run_dir)
    point(run_dir, "latest", "300")
    roll_back(run_dir)
    assert (kept(run_dir, "latest"), kept(run_dir, "latest.2")) == ("200", "300")


def test_killed_before_the_pointer_is_written_the_next_try_does_it_and_keeps_one_text(
    run_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = point(run_dir, "latest", "200")
    really = checkpoint_pointers.write_atomically

    def die(place: Path, data: bytes) -> None:
        if place == path:
            raise KeyboardInterrupt
        really(place, data)

    monkeypatch.setattr(checkpoint_pointers, "write_atomically", die)
    with pytest.raises(KeyboardInterrupt):
        roll_back(run_dir)
    monkeypatch.undo()
    assert roll_back(run_dir) == ["latest now names 100"]
    assert sorted(os.listdir(run_dir / "quarantine" / "attempt-0003")) == ["latest", "step-00000200"]


def test_one_that_cannot_be_written_is_told_and_the_other_is_set_right(run_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pointers = [point(run_dir, name, "200") for name in ("latest", MEGATRON)]
    really = checkpoint_pointers.write_atomically

    def refuse(place: Path, data: bytes) -> None:
        if place == pointers[0]:
            raise PermissionError(13, "Permission denied")
        really(place, data)

    monkeypatch.setattr(checkpoint_pointers, "write_atomically", refuse)
    first, second = roll_back(run_dir)
    assert first == "latest names a step above 100 and cannot be set right: Permission denied"
    assert second == f"{MEGATRON} now names 100"


def test_where_quarantine_lies_inside_checkpoints_the_old_text_does_too(run_dir: Path) -> None:
    inside = run_dir / "checkpoints" / ".quarantine" / "attempt-0003"
    inside.mkdir(parents=True)
    point(run_dir, "latest", "200")
    assert fix_pointers(run_dir, 100, 3) == ["latest now names 100"]
    assert (inside / "latest").read_text() == "200"


def test_a_run_without_checkpoints_has_no_pointer(tmp_path: Path) -> None:
    assert fix_pointers(tmp_path, 0, 1) == []


@pytest.mark.parametrize("told", ["\0/step-00000200", "\x1b[31m/../step-00000200"])
def test_one_that_names_no_place_is_left_and_holds_nothing_up(run_dir: Path, told: str) -> None:
    pointer = point(run_dir, "latest", told)
    assert roll_back(run_dir) == []
    assert pointer.read_text() == told
