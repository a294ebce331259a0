"""What a page says, ready to be delivered: the one thing that every channel gets. Who makes it knows the run; a channel does
not, and need not.

`stage` says what it is about: trigger (a page, or its repetition), update (the same page, changed), acknowledge, resolve, and
message (nobody is needed). All of one incident carry the same `dedup_key`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from sentinel.model.actions import Stage
from sentinel.model.findings import Severity

TITLE_CHARS_MAX = 200
TEXT_CHARS_MAX = 16_000


@dataclass(frozen=True, slots=True)
class Notice:
    """Plain text everywhere; nothing in it is a secret, and no control character but the line break.

    key: of this very delivery; the same one delivered twice is the same. title: one line. text: the whole case, as a person reads
    it in a fixed-width font. facts: short name → short value (kind, onset step, host…), for labels and fields. labels: of the
    rule that opened the incident, as its author wrote them. answers: commands that answer it. asks: what a button may ask for it
    (acknowledge, approve, deny), and the rung that an approval is about. links: name → URL. by: who
    acknowledged or resolved. at_s: wall clock, Unix seconds. began: the second in which the run began, which tells runs of one
    name apart; None outside of any run.
    """

    stage: Stage
    key: str
    dedup_key: str
    run: str
    incident: int
    severity: Severity
    title: str
    text: str
    at_s: float
    by: str = ""
    facts: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    answers: tuple[str, ...] = ()
    asks: Mapping[str, int | None] = field(default_factory=dict)
    links: Mapping[str, str] = field(default_factory=dict)
    began: int | None = None

    def document(self) -> dict[str, Any]:
        """As JSON: what a webhook posts, a command reads, and incidents/NNNN/page.json keeps."""
        plain = {"facts": dict(self.facts), "labels": dict(self.labels), "answers": list(self.answers), "links": dict(self.links)}
        return {"v": 1, **asdict(self), **plain, "asks": dict(self.asks)}


def dedup_key(run: str, incident: int) -> str:
    return f"sentinel/{run}/{incident}"
