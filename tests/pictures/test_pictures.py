"""The pictures of the documents are those that `make pictures` makes, and its parts work. No browser, no run."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from xml.etree import ElementTree

import pytest
from rich.text import Text

from sentinel.cli.top import TopOfRun
from sentinel.clock import SystemClock
from tests.pictures import __main__ as verb
from tests.pictures.drawing import BACKGROUND, CELL, COLUMNS, ROWS, THEME, render_rows
from tests.pictures.film import EVENT_S, LAST_S, QUIET_S, STEPS_EACH, Moment, choose_frames, choose_still, draw_film, moment_of
from tests.pictures.recording import MOMENTS, ROOT, check_incidents, json_of, read_moments

DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
IMAGE = re.compile(r'!\[[^\]]*\]\(([^)\s]+)\)|(?:src|srcset)="([^"]+)"')
FILM_BYTES_MAX, PICTURE_BYTES_MAX = 1_000_000, 250_000
SVG = "{http://www.w3.org/2000/svg}"
DRAWN = {"svg", "style", "defs", "g", "use", "path", "text", "rect", "circle"}
RECORDED = ROOT / "tests" / "recorded" / "run"


def named(document: Path) -> set[Path]:
    found = (first or second for first, second in IMAGE.findall(document.read_text(encoding="utf-8")))
    return {(document.parent / name).resolve() for name in found if not name.startswith("http")}


def moment(step: int, newest: str = "", attempt: int = 1, is_stalled: bool = False, word: str = "training") -> Moment:
    return Moment((f"<path d='M{step} 0'/>", "<path d='M0 1'/>"), (word, newest), attempt, step, is_stalled)


def test_every_picture_of_the_documents_is_one_that_the_verb_makes_and_it_makes_no_others() -> None:
    shown = set().union(*(named(document) for document in DOCUMENTS))
    assert shown == {verb.PICTURES / name for name in verb.NAMES}
    assert set(verb.PICTURES.iterdir()) == shown


@pytest.mark.parametrize("name", verb.NAMES)
def test_a_picture_is_there_and_small(name: str) -> None:
    size = (verb.PICTURES / name).stat().st_size
    assert 1_000 < size < (FILM_BYTES_MAX if name == verb.FILM else PICTURE_BYTES_MAX)


@pytest.mark.parametrize("name", [verb.FILM, verb.STILL])
def test_what_is_drawn_here_needs_nothing_else_and_runs_nothing(name: str) -> None:
    text = (verb.PICTURES / name).read_text()
    root = ElementTree.fromstring(text)
    assert {part.tag.removeprefix(SVG) for part in root.iter()} <= DRAWN
    assert re.findall(r'(?:href|src)="[^#]|url\(|@import|@font-face', text) == []
    known = {part.get("id") for part in root.iter(f"{SVG}g")}
    assert {part.get("href", "").removeprefix("#") for part in root.iter(f"{SVG}use")} <= known


def test_the_film_shows_what_the_demonstration_is_about() -> None:
    """A demonstration in which something else happened must not be committed."""
    text = (verb.PICTURES / verb.FILM).read_text()
    for words in ("1 crash recovered", "2 hang recovered", "3 spike recovered", "STALLED", "FINISHED", "run finished"):
        assert words in text, words


def test_letters_stand_in_their_column_and_blocks_are_shapes() -> None:
    (row,) = render_rows(Text.assemble(("ab  c<", "bold red"), "▁█", "─╮"), columns=10, rows=1)
    red = THEME.ansi_colors[1].hex
    assert f'<text x="0" y="13" textLength="{2 * CELL}" fill="{red}" font-weight="700">ab</text>' in row
    assert f'<text x="{4 * CELL}" y="13" textLength="{2 * CELL}" fill="{red}" font-weight="700">c&lt;</text>' in row
    assert 'd="M48 17V15h8V1h8V17z"' in row
    assert 'd="M64 8h8M72 8q4 0 4 4v5"' in row


def test_every_colour_of_the_terminal_can_be_read_on_its_background() -> None:
    def luminance(colour: str) -> float:
        parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    texts = ["x", *(Text("x", style) for style in ("red", "green", "yellow", "cyan", "bold red", "dim"))]
    for text in texts:
        (row,) = render_rows(Text.assemble(text), columns=1, rows=1)
        colour = next(iter(re.findall(r'fill="(#\w+)"', row)), THEME.foreground_color.hex)
        assert (luminance(colour) + 0.05) / (luminance(BACKGROUND) + 0.05) >= 4.5, (text, colour)


def test_the_film_dwells_on_news_and_hurries_over_steps() -> None:
    quiet = [moment(step) for step in range(3 * STEPS_EACH)]
    news, end = moment(40, "incident 1"), moment(41, "incident 1")
    frames = choose_frames([*quiet, news, end])
    assert [(shown.step, seconds) for shown, seconds in frames] == [
        (0, EVENT_S), (STEPS_EACH, QUIET_S), (2 * STEPS_EACH, QUIET_S), (40, EVENT_S), (41, LAST_S),
    ]  # fmt: skip
    assert [seconds for _, seconds in choose_frames([news])] == [LAST_S]
    assert choose_frames([]) == []


def test_the_still_is_the_end_of_the_first_suspected_hang() -> None:
    moments = [moment(1), moment(2, is_stalled=True), moment(3, is_stalled=True), moment(4), moment(5, is_stalled=True)]
    assert choose_still(moments).step == 3
    with pytest.raises(ValueError, match="record it anew"):
        choose_still(moments[:1])


def test_a_film_is_one_strip_that_jumps_and_draws_what_comes_again_once() -> None:
    frames = [(moment(1), 1.0), (moment(2), 3.0), (moment(2, "end"), 4.0)]
    text = draw_film(frames, "sentinel demo")
    root = ElementTree.fromstring(text)
    assert [row.get("id") for row in root.find(f"{SVG}defs") or ()] == ["r0", "r1", "r2"]
    jumps = re.findall(r"([\d.]+)%\{transform:translateX\((-?\d+)px\)\}", text)
    assert [float(share) for share, _ in jumps] == [0.0, 12.5, 50.0]
    width = int(root.get("viewBox", "").split()[2])
    assert [int(x) for _, x in jumps] == [0, -width, -2 * width]
    still, motion = text.split("@media(prefers-reduced-motion:no-preference)")
    assert f".film{{transform:translateX({-2 * width}px)}}" in still, "without motion the last frame is seen"
    assert "animation:film 8.00s step-end infinite" in motion
    assert "animation" not in draw_film(frames[:1], "sentinel top demo")
    assert draw_film(frames, "sentinel demo") == text


def test_a_recorded_run_becomes_a_frame_and_is_read_back(tmp_path: Path) -> None:
    shutil.copytree(RECORDED, tmp_path / "run")
    top = TopOfRun(tmp_path / "run", SystemClock(), blocks=True)
    try:
        picture = top.refresh()
    finally:
        top.close()
    assert picture is not None
    seen = moment_of(picture)
    assert (len(seen.rows), seen.news[0], seen.is_stalled) == (ROWS, "stopped", False)
    assert "STOPPED" in "".join(seen.rows)
    assert all(int(x) <= COLUMNS * CELL for row in seen.rows for x in re.findall(r'x="(\d+)"', row))
    (tmp_path / MOMENTS).write_text(json_of([seen]))
    assert read_moments(tmp_path) == [seen]


def test_a_run_in_which_something_else_happened_is_no_picture(tmp_path: Path) -> None:
    run_dir = shutil.copytree(RECORDED, tmp_path / "run")
    check_incidents(run_dir, ("crash", "spike", "non_finite", "hang"))
    with pytest.raises(RuntimeError, match="happened, and not crash; try again on a quiet machine"):
        check_incidents(run_dir, ("crash",))


def test_the_verb_refuses_before_it_trains(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(verb, "MISSING", "")
    (tmp_path / "demo").mkdir()
    assert verb.main(["--keep", str(tmp_path)]) == 2
    assert f"{tmp_path}: is not empty; delete it, or draw it again with --from {tmp_path}" in capsys.readouterr().err
    monkeypatch.setattr(verb, "MISSING", "chromium is not installed")
    assert verb.main([]) == 2
    assert "no pictures without a browser: chromium is not installed" in capsys.readouterr().err
