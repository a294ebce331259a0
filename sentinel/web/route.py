"""What a route is: a method, a path, who may use it, and what answers; and what answers are made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from sentinel.web.acting import Unattended
from sentinel.web.answers import RefusedRequest, Request, Response
from sentinel.web.runs import Runs
from sentinel.web.slack import SlackDoor
from sentinel.web.static_files import StaticFiles
from sentinel.web.watched import ServedRun

Exposition = Callable[[list[ServedRun]], Response]


@dataclass(frozen=True, slots=True)
class Served:
    """What answers are made of."""

    runs: Runs
    files: StaticFiles
    exposition: Exposition | None
    can_act: bool
    unattended: Unattended | None = None
    slack: SlackDoor = field(default_factory=SlackDoor)


Words = Mapping[str, str]  # the parts of the path that stand for something, by their name in the route
Answer = Callable[[Served, Request, Words], Response]


@dataclass(frozen=True, slots=True)
class HttpRoute:
    """`path`: a part in capitals stands for anything; FILE at its end for all that follows. `needs`: nothing, what reading
    needs (on a loopback address nothing), what acting needs, or a signature, which the answer verifies itself."""

    method: Literal["GET", "POST"]
    path: str
    needs: Literal["nothing", "reading", "acting", "signature"]
    answer: Answer

    def match(self, parts: tuple[str, ...]) -> dict[str, str] | None:
        wanted = tuple(self.path[1:].split("/")) if self.path != "/" else ()
        if wanted[-1:] == ("FILE",) and len(parts) >= len(wanted):
            parts = (*parts[: len(wanted) - 1], "/".join(parts[len(wanted) - 1 :]))
        if len(parts) != len(wanted) or any(a != b for a, b in zip(wanted, parts, strict=True) if not a.isupper()):
            return None
        return {a: b for a, b in zip(wanted, parts, strict=True) if a.isupper()}


def number_of(words: Words) -> int:
    text = words["N"]
    if not (text.isascii() and text.isdecimal()) or len(text) > 9:
        raise RefusedRequest(404, "an incident has a number")
    return int(text)
