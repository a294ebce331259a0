"""Ranks, GPUs, checkpoints and pages in a frame: every terminal from 80 x 24 up has the parts, and a larger one more of them."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console

from sentinel.curves.blocks import Point
from sentinel.model.actions import SendPage
from sentinel.model.incidents import AwaitedApproval
from sentinel.model.paging import IncidentPage
from sentinel.model.state import Checkpoint
from sentinel.run_files.heartbeats import RankSeen
from sentinel.run_files.stall import Stall
from sentinel.telemetry.gpu_sample import GpuSample
from sentinel.terminal.document import picture_document
from sentinel.terminal.panel import draw, draw_plain
from sentinel.terminal.picture import Picture
from sentinel.terminal.words import Line
from tests.unit.told_run import at, state_of, told

GIB = 1 << 30
TELLING = {"loss": 2.5, "grad_norm": 0.5, "activation_norm": 11.0, "loss_scale": 65536.0, "lr": 6e-4, "val_loss": 2.6}


def ranks(count: int, slow: int | None = None) -> tuple[RankSeen, ...]:
    return tuple(RankSeen(n, 40, "backward", 31.0 if n == slow else 0.2, f"node-{n}") for n in range(count))


def gpus(count: int) -> tuple[GpuSample, ...]:
    one = GpuSample(0, "d", False, "H200", temperature_c=61, busy_percent=97, power_mw=700_000)
    one = replace(one, memory_used_bytes=100 * GIB, memory_total_bytes=140 * GIB)
    return tuple(replace(one, index=n) for n in range(count))


def picture(until: float = 91, **more) -> Picture:
    lines = tuple((f"0:{n:02d}", Line(f"event {n}")) for n in range(24))
    points = tuple(Point(2, n, TELLING) for n in range(300, 385))
    made = Picture(state_of(told(until)), at(min(until, 150)), 600, points, lines, 0.2, True)
    return replace(made, **more)


def frame(shown: Picture, width: int = 80, height: int = 24) -> list[str]:
    out = io.StringIO()
    Console(file=out, width=width, height=height, force_terminal=True, color_system=None, legacy_windows=False).print(draw(shown))
    return out.getvalue().splitlines()


def plain(shown: Picture) -> str:
    out = io.StringIO()
    Console(file=out, width=400, color_system=None).print(draw_plain(shown))
    return out.getvalue()


@pytest.mark.parametrize("count", [0, 1, 2, 8, 9, 512])
@pytest.mark.parametrize(("width", "height"), [(40, 24), (80, 24), (80, 25), (100, 40), (200, 60)])
def test_a_frame_fits_whatever_there_is_to_show(count: int, width: int, height: int) -> None:
    shown = picture(ranks=ranks(count), gpus=gpus(count), warnings=("nobody supervises this run",))
    lines = frame(shown, width, height)
    assert len(lines) <= height - 2
    assert {len(line) for line in lines} == {width}
    text = "\n".join(lines)
    for part in ("loss", "grad norm", "rank", "GPU", "saved", "incident", "now:", "what happened", "event 23", "nobody superv"):
        assert part in text


def test_a_larger_terminal_shows_more_curves_each_rank_each_gpu_and_more_events() -> None:
    shown = picture(ranks=ranks(8), gpus=gpus(4))
    small, large = "\n".join(frame(shown)), "\n".join(frame(shown, 120, 60))
    assert "8: 8 backward; step 40; rank 0 silent 0.2 s" in small
    assert "4, busy 97 to 97 %, memory 400 of 560 GiB, up to 61 °C, 2800 W" in small
    assert "event 5" not in small
    for part in ("act. norm 11", "scale     6.554e+04", "lr        0.0006", "val loss  2.6", "rank 7    step 40", "event 5"):
        assert part in large
    assert "GPU 3     H200, busy 97 %, memory 100.0 of 140.0 GiB, 61 °C, 700 W" in large


def test_many_ranks_are_one_row_that_names_the_most_silent() -> None:
    text = "\n".join(frame(picture(ranks=ranks(64, slow=17)), 100, 60))
    assert "64: 64 backward; step 40; rank 17 silent 31 s" in text
    over = "\n".join(frame(picture(until=150, ranks=ranks(64, slow=17)), 100, 60))
    assert "64, ended, step 40" in over


def test_while_a_hang_is_suspected_a_silent_rank_has_a_colour_and_nobody_says_when_the_run_ends() -> None:
    quiet = (RankSeen(0, 40, "forward", 0.3, "a"), RankSeen(1, 40, "backward", 5.9, "a"))
    calm, asking = picture(ranks=quiet), picture(ranks=quiet, stall=Stall(picture().now_s - 6.0, 0.2))
    assert [coloured(calm, f"rank {n}") for n in (0, 1)] == [False, False]
    assert [coloured(asking, f"rank {n}") for n in (0, 1)] == [False, True]
    assert " left" in "\n".join(frame(calm))
    assert " left" not in "\n".join(frame(asking))


def coloured(shown: Picture, label: str) -> bool:
    """Whether the row of that label is amber."""
    console = Console(width=80, height=60, force_terminal=True, color_system="standard", file=io.StringIO())
    rows = console.render_lines(draw(shown), console.options)
    (row,) = [row for row in rows if any(piece.text.startswith(label) for piece in row)]
    return any(piece.style is not None and piece.style.color is not None and piece.style.color.name == "yellow" for piece in row)


def test_what_the_driver_does_not_tell_is_not_shown_as_nothing() -> None:
    dark = (GpuSample(0, "a", False, "H200"), GpuSample(1, "b", True, "H200"))
    text = plain(picture(gpus=dark))
    assert "GPU 0     H200, busy unknown" in text
    assert "GPU 1     H200: LOST, the driver cannot reach it" in text
    assert "GPUs      2, 1 LOST" in "\n".join(frame(picture(gpus=dark)))
    assert "GPUs      no driver here" in plain(picture(gpus_why_not="no driver here"))


def test_checkpoints_say_the_newest_one_may_go_on_from_and_what_was_put_aside() -> None:
    shown = picture(until=85)
    saved = (
        Checkpoint(350, "p", 2, 1, verified="bytes", committed_s=at(25)),
        Checkpoint(375, "p", 2, 1, condemned="at an onset", committed_s=at(30)),
    )
    state = replace(shown.state, checkpoints=saved)
    text = plain(replace(shown, state=state))
    assert "saved     2 checkpoints; checkpoint 350 verified, 60 s old; 1 not to be used" in text
    assert "saved     no checkpoint" in plain(replace(shown, state=replace(state, checkpoints=())))


def test_a_page_is_shown_until_somebody_has_seen_it() -> None:
    shown = picture()
    (crash, spike) = shown.state.incidents
    paged = replace(spike, pages=("page/2/1/trigger/pager",))
    page = SendPage("page/2/1/trigger/pager", 2, "critical", "t", "x", route="pager")
    state = replace(shown.state, incidents=(crash, paged), pending={page.key: page})
    assert "page      a person was called for incident 2, 1 on the way (pager); nobody has acknowledged it" in plain(
        replace(shown, state=state)
    )
    seen = replace(state, incidents=(crash, replace(paged, acknowledged_by="ada@desk")), pending={})
    assert "page      a person was called for incident 2; seen by ada@desk" in plain(replace(shown, state=seen))
    assert "page  " not in plain(shown)


def test_a_reason_that_quotes_a_log_cannot_drive_the_terminal() -> None:
    shown = picture()
    (crash, spike) = shown.state.incidents
    evil = replace(spike, reason="\x1b[2J\x1b]0;owned\x07evil")
    shown = replace(shown, state=replace(shown.state, incidents=(crash, evil)), lines=(("0:01", Line("\x1b[31mred\x9b2J")),))
    for text in ("\n".join(frame(shown)), plain(shown)):
        assert "evil" in text
        assert "red" in text
        assert "\x1b[2J" not in text
        assert "owned" not in text
        assert "\x9b" not in text


def test_lines_without_a_terminal_say_the_same_in_full() -> None:
    text = plain(picture(ranks=ranks(3), gpus_why_not="none"))
    for part in ("RECOVERING", "step 384 of 600", "^ onset 379", "rank 2    step 40", "2 spike open", "now: end", "event 0"):
        assert part in text
    assert "│" not in text


def test_a_rung_that_waits_says_what_it_would_do_and_what_to_type() -> None:
    """It was "watching whether it heals"."""
    shown = picture(90.5)
    crash, spike = shown.state.incidents
    would = "rung 2 of playbook numeric would: roll back to step 350"
    page = IncidentPage("warning", "demo: spike", "text", at(90), reason=would)
    asks = replace(spike, approval=AwaitedApproval(1, shown.now_s + 1320, "deny"), page=page)
    lines = frame(replace(shown, state=replace(shown.state, incidents=(crash, asks))))
    text = "\n".join(lines)
    assert "now: sentinel approve 2 RUN_DIR, or deny: rung 2 is passed over in 22 min" in text, "whole in 80 characters"
    assert would in text
    stopped = replace(shown.state, incidents=(crash, asks), ended="stopped", end_reason="by ann", plan=None)
    assert "sentinel approve" not in plain(replace(shown, state=stopped)), "nobody can answer it any more"


def test_now_of_a_failed_run_and_of_a_suspected_hang() -> None:
    shown = picture(91)
    failed = replace(shown.state, ended="failed", end_reason="rung 4 of playbook restart calls a person", plan=None, pending={})
    assert "now: nothing trains: it has failed, and waits for a person" in plain(replace(shown, state=failed))
    calm = picture(80, stall=Stall(at(70), 0.2))
    assert "now: a hang is suspected; nothing is done before it is believed" in "\n".join(frame(calm))


@pytest.mark.parametrize("tone", ["bad", "warn"])
def test_what_a_run_needs_stands_in_a_frame_with_what_to_type(tone: str) -> None:
    """`now: watching`, of a run that nobody watches, would be the one lie that is believed."""
    needs = {
        "head": "Nobody watches this run", "tone": tone, "incident": 2, "cause": "its supervisor is gone",
        "tried": "2 repairs failed", "trains": "It trains on: its ranks still beat.", "next": ["nothing is repaired"],
        "answers": [{"command": f"sentinel {verb} /runs/demo", "what": ""} for verb in ("run", "stop", "more")],
    }  # fmt: skip
    shown = picture(needs=needs)
    text = plain(shown)
    assert "now: It trains on: its ranks still beat; nothing is repaired" in text
    assert [row for row in text.splitlines() if row.startswith("do:")] == [
        "do:  sentinel run /runs/demo", "do:  sentinel stop /runs/demo",
    ]  # fmt: skip
    assert "2 repairs failed" in text
    rows = frame(shown)
    assert len(rows) <= 24
    assert any("do:  sentinel run /runs/demo" in row for row in rows)
    assert picture_document(shown)["needs"]["trains"] == "It trains on: its ranks still beat."
