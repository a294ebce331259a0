"""Text of other people's programs on the way to a terminal: nothing in it is obeyed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sentinel.terminal.clean import LINE_CHARS_MAX, clean


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("loss 2.5", "loss 2.5"),
        ("\x1b[31mloss\x1b[0m 2.5", "loss 2.5"),
        ("\x1b[2J\x1b[H\x1b[?1049hgone", "gone"),
        ("\x1b]0;your title\x07text", "text"),
        ("\x1b]52;c;ZXZpbA==\x1b\\text", "text"),
        ("\x1b]8;;http://evil\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1bPq#0;2;0;0;0\x1b\\text", "text"),
        ("\x9b31mred\x9dtitle\x9cx", "redx"),
        ("\x1b(0lqqk\x1b(B", "lqqk"),
        ("an end cut off \x1b[3", "an end cut off "),
        ("an end cut off \x1b", "an end cut off "),
        ("bell\x07 back\x08space \x00nul", "bell backspace nul"),
        ("10%\r50%\r100%", "100%"),
        ("done\r", "done"),
        ("a\tb", "a    b"),
        ("right \u202eto left\u202c, zero\u200bwidth", "right to left, zerowidth"),
        ("line\u2028separator\u00a0and space", "line separator and space"),
        ("half \ud800 a character", "half ? a character"),
        ("π ≈ 3.14 ✓ 日本", "π ≈ 3.14 ✓ 日本"),
    ],
)  # fmt: skip
def test_what_a_terminal_would_obey_is_taken_out(raw: str, shown: str) -> None:
    assert clean(raw) == shown


def test_a_line_without_end_is_cut() -> None:
    assert clean("x" * 10_000).endswith(f"… ({10_000 - LINE_CHARS_MAX} more)")


@given(st.text(alphabet=st.sampled_from("a[]0;?mPX^_(\x1b\x9b\x9d\x90\x9c\x07\x08\\\r\t\n\u202e\ud800"), max_size=40))
def test_whatever_comes_only_what_can_be_printed_leaves(text: str) -> None:
    assert clean(text).isprintable()
