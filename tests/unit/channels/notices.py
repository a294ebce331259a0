"""Notices for tests of channels, with text that is hard on a channel: marks of Slack's, quotes, accents, many lines."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sentinel.channels.notice import Notice, dedup_key
from sentinel.channels.wording import titled
from sentinel.model.actions import Stage

AT_S = 1_795_000_000.25  # 2026-11-18T11:06:40.250Z
TEXT = 'Spike: loss 8.6 over 2.2 <!channel> & "quoted"\ntried: roll back → failed\n▁▂▇ onset\nsentinel ack 4 runs/gpt-7'


def notice(stage: Stage = "trigger", **changes: Any) -> Notice:
    by = "ada@desk" if stage in ("acknowledge", "resolve") else ""
    said = Notice(
        stage=stage,
        key=f"page/4/1/{stage}/r",
        dedup_key=dedup_key("gpt-7", 4),
        run="gpt-7",
        incident=4,
        severity="critical",
        title=titled("gpt-7: spike since step 71", stage, by),
        text=TEXT,
        at_s=AT_S,
        by=by,
        facts={"kind": "spike", "onset_step": "71", "host": "node-3"},
        answers=("sentinel ack 4 runs/gpt-7",),
        links={"runbook": "https://book.example/RUNBOOK.md#spike", "report": "/runs/gpt-7/incidents/0004/report.html"},
    )
    return replace(said, **changes)
