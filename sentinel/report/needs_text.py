"""What a run needs, as rows of text: what broke, what was tried, whether it trains, what follows, what to do. The sentences are
those of `needs`; here they are laid out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sentinel.model.state import UNOBSERVED, UNSEEN

Row = tuple[str, str]
NOTHING = "nothing is asked of you"
NOT_KNOWN = "whether anything is asked of you is not known: `sentinel doctor` says what is seen"


def need_rows(status: Mapping[str, Any]) -> list[Row]:
    """The first rows of `sentinel status`. A label stands at the first of its lines only."""
    needs, standing = status["needs"], _worst_first(status["standing"])
    rows: list[Row] = []
    above: set[str] = set()
    if needs is not None:
        rows += [("broke", f"{needs['head']}: {needs['cause']}"), *_row("tried", needs["tried"]), ("trains", needs["trains"])]
        rows += _lines("next", _unsaid(needs["next"], above))
    for one in standing:
        if needs is None or one["incident"] != needs["incident"]:
            rows.append(("broke", f"incident {one['incident']}, {one['kind']}, {one['stands']}: {one['reason']}"))
            rows += _lines("next", _unsaid(one["next"], above))
    commands = command_lines(needs, standing)
    if commands:
        return [*rows, *_lines("do", commands)]
    return [*rows, *_row("do", nothing_asked(status))]


def nothing_asked(status: Mapping[str, Any]) -> str:
    """That nothing is asked of who looks, or that this is not known; empty where something may be."""
    if status["needs"] is not None or any(one["answers"] for one in status["standing"]):
        return ""
    return NOT_KNOWN if status["state"] in (UNOBSERVED, UNSEEN) else NOTHING


def command_lines(needs: Mapping[str, Any] | None, standing: Sequence[Mapping[str, Any]]) -> list[str]:
    """What a person can type, and what it does. Of the run's needs all, else of the worst incident; of each other incident the
    likeliest answer."""
    lists = [] if needs is None else [needs["answers"]]
    lists += [one["answers"] for one in standing if needs is None or one["incident"] != needs["incident"]]
    chosen = [answer for number, answers in enumerate(lists) for answer in (answers[:1] if number else answers)]
    found = {answer["command"]: answer["what"] for answer in chosen}
    width = max(map(len, found), default=0)
    return [f"{command:<{width}}  {what}" for command, what in found.items()]


def _worst_first(standing: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """What waits for a person's word first, then the newest."""
    return sorted(standing, key=lambda one: (not one["waits"], -one["incident"]))


def _unsaid(lines: Sequence[str], above: set[str]) -> list[str]:
    """What is not among the lines `above`, to which it is added: what follows from several incidents stands there once."""
    new = [line for line in lines if line not in above]
    above.update(new)
    return new


def _row(label: str, words: str) -> list[Row]:
    return [(label, words)] if words else []


def _lines(label: str, lines: Sequence[str]) -> list[Row]:
    return [(label if number == 0 else "", line) for number, line in enumerate(lines)]
