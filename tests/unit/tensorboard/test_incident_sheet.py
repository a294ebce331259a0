"""Incidents on the stitched board: texts, markers that rise, and files that a live TensorBoard sees."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from sentinel.model.incidents import Incident
from sentinel.tensorboard.incident_sheet import IncidentSheet, sheet, story
from sentinel.tensorboard.survivors import Begun
from tests.unit.tensorboard.board_kit import CREATED_S, draw, effective, messages, rows, series, write
from tests.unit.told_run import state_of, told


def incidents(until: float = 1e9) -> tuple[Incident, ...]:
    return state_of(told(until)).incidents


def texts(folder: Path) -> list[str]:
    """The messages of the newest sheet that hold a text."""
    newest = max(path for path in folder.iterdir() if "incidents-" in path.name)
    return [m.decode(errors="replace") for m in messages(newest) if b"sentinel/incidents/" in m]


def test_an_incident_is_a_text_and_a_marker_at_its_onset(tmp_path: Path) -> None:
    write(tmp_path, 1, rows(1, 1, 400))
    draw(tmp_path, [Begun(1, 0)], incidents())
    assert series(effective(tmp_path), "sentinel/incident") == [(132, 1.0), (379, 2.0)], "a crash stands where it was found"
    crash, spike = texts(effective(tmp_path))
    assert "sentinel/incidents/0001" in crash
    assert "**Incident 1: crash**" in crash
    assert "**recovered**" in crash
    for words in (
        "onset at step 379",
        "loss 8.6 over 2.2",
        "rollback+skip",
        "roll back to step 350; skip samples",
        "worked",
        "failed",
    ):
        assert words in spike, words


def test_markers_rise_whatever_the_order_of_finding_and_share_a_step_by_the_newest() -> None:
    crash, spike = incidents()
    late = replace(spike, id=3, onset_step=90)
    again = replace(spike, id=4, onset_step=379)
    path_order = sheet((crash, spike, late, again), 0.0)
    steps = [path_order.index(b"\x10" + bytes((step & 127 | 128, step >> 7)) + b"\x2a") for step in (132, 379)]
    assert steps == sorted(steps)


def test_a_change_is_a_new_file_and_the_same_again_is_none(tmp_path: Path) -> None:
    folder = tmp_path / "effective"
    kept = IncidentSheet(folder)

    def names() -> list[str]:
        return sorted(path.name for path in folder.iterdir())

    kept.tell((), CREATED_S)
    (first,) = names()
    kept.tell(incidents(91), CREATED_S)
    (second,) = names()
    assert second > first, "TensorBoard opens new names, and never an old one again"
    assert second < "events.out.tfevents.0000000001.sentinel", "read before the attempts"
    IncidentSheet(folder).tell(incidents(91), CREATED_S)
    assert names() == [second], "a successor who has nothing else to say"
    IncidentSheet(folder).tell(incidents(), CREATED_S)
    assert names() > [second]
    assert len(texts(folder)) == 2


def test_a_successor_takes_away_what_a_killed_one_left_beside(tmp_path: Path) -> None:
    folder = tmp_path / "effective"
    IncidentSheet(folder).tell((), CREATED_S)
    (old,) = folder.iterdir()
    data = old.read_bytes()
    IncidentSheet(folder).tell(incidents(), CREATED_S)
    old.write_bytes(data)
    IncidentSheet(folder).tell(incidents(), CREATED_S)
    assert len(list(folder.iterdir())) == 1


def test_what_a_trainer_wrote_is_no_markup() -> None:
    (_, spike) = incidents()
    told_as = story(replace(spike, reason="<img src=x> rank | a\n# b *c*"))
    assert "<img" not in told_as.replace("\\<img", "")
    assert "\n# b" not in told_as
