"""A run as the API of the page tells it, made up and moved on by the test: three attempts, a crash, a spike rolled back."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from sentinel.curves.reach import reach_of
from sentinel.model.incidents import IncidentState

CALM = {"blamed": False, "tone": ""}
EVERYTHING = (-math.inf, math.inf, False)
START_S = 1_700_000_000.0  # Unix seconds, years before anybody's browser looks
STEP_S = 0.5
LAYERS = [f"activation_norm/h.{layer}" for layer in range(4)]
METRICS = ["grad_norm", "loss", "loss_scale", "lr", "tokens_per_s", *LAYERS]


@dataclass
class Attempt:
    number: int
    after_step: int
    last_step: int
    survives_to: int | None
    outcome: str = ""
    why: str = "first launch"
    parent: int | None = None
    non_finite: list[int] = field(default_factory=list)


def value_of(metric: str, step: int, attempt: int, height: float = 5.0) -> float:
    """Smooth, with a little noise from the numbers themselves. `height`: of the spike that was rolled back."""
    noise = math.sin(step * 12.9898 + attempt * 78.233) * 0.5 + math.sin(step * 3.7) * 0.5
    if metric == "loss":
        spike = height * math.exp(-0.5 * ((step - 382) / 2.0) ** 2) if attempt == 2 else 0.0
        return 2.0 + 7.0 * math.exp(-step / 60) + 0.08 * noise + spike
    if metric == "grad_norm":
        return 0.6 + 3.0 * math.exp(-step / 40) + 0.1 * noise + (8.0 if attempt == 2 and 378 < step < 386 else 0.0)
    if metric == "loss_scale":
        return 65536.0 if step < 300 else 32768.0
    if metric == "lr":
        return 3e-4 * min(1.0, step / 50) * (0.5 if attempt == 3 else 1.0)
    if metric == "tokens_per_s":
        return 18_000 + 500 * noise
    return 1.0 + 0.4 * (LAYERS.index(metric) if metric in LAYERS else 0) + 0.002 * step + 0.05 * noise


def stands(state: str) -> str:
    """In words; a state that the page does not know stands as it is."""
    return next((known.words for known in IncidentState if known == state), state)


def incident(number: int, kind: str, **said: Any) -> dict[str, Any]:
    """With every key of the document of `sentinel incidents --json`, and what only the page gets."""
    told = {
        "id": number, "kind": kind, "severity": "critical", "state": "recovered", "onset_step": None, "detected_step": 132,
        "break_step": 132, "time_to_detect_s": 0.5, "time_to_recover_s": 12.0, "steps_lost": 32,
        "reason": "rank 1 was killed by signal 9",
        "verdict": "60 steps past step 132", "alert": "Crash", "benign": False, "blamed_rank": 1, "blamed_node": "",
        "awaits_approval": None, "acknowledged_by": "", "diagnosis": None, "attribution": None, "put_back": [],
        "playbook": "numeric", "begins_anew": False, "remedies": [],
        "pages": [], "page": None, "cost": None, "opened_elapsed_s": 30.5, "closed_elapsed_s": 60.0,
        "notes": [], "runbook": "", "labels": {}, "cost_words": "",
    } | said  # fmt: skip
    told = {"steps_lost_at_most": told["steps_lost"], "stands": stands(told["state"])} | told
    closed_s = told["closed_elapsed_s"]
    return told | {"opened_at_s": START_S + told["opened_elapsed_s"], "closed_at_s": closed_s and START_S + closed_s}


def is_paged(one: dict[str, Any]) -> bool:
    return bool(one["pages"]) and one["state"] != "recovered" and not (one["page"] or {}).get("resolved")


def page_of(opened: dict[str, Any]) -> dict[str, Any]:
    return {"incident": opened["id"], "acknowledged_by": opened["acknowledged_by"]}


def remedy(rung: int, words: list[str], **said: Any) -> dict[str, Any]:
    return {
        "rung": rung, "words": words, "rollback_to_step": None, "skip": [], "lr_scale": None, "clip_norm": None, "attempt": None,
        "outcome": "worked", "reason": "", "chosen": "resume from the checkpoint of step 100", "expected": "", "verdict": "",
    } | said  # fmt: skip


class SimulatedRun:
    def __init__(self, name: str = "demo") -> None:
        self.name = name
        self.began, self.directory, self.place = int(START_S), "", ""
        self.state, self.reason, self.supervisor, self.trouble = "training", "", "alive", ""
        self.standbys: list[dict[str, Any]] = []
        self.ranks: list[dict[str, Any]] = []
        self.needs: dict[str, Any] | None = None
        self.machine_warnings: list[dict[str, Any]] = []
        self.cost_cells = [
            ["cost", "51,234 GPU hours, 128,086 USD"],
            ["lost of it", "1,123 GPU hours, 2,808 USD"],
            ["until its end", "0.10 GPU hours, 0.25 USD more"],
        ]
        self.end_in_s = (900_000.0, 800_000.0, 1_350_000.0)
        self.nothing_asked = ""
        self.unwatched = ""
        self.standing: list[dict[str, Any]] = []  # of its incidents: what follows, what answers it
        self.detector_rows = [("detectors", "as of 3 s ago, attempt 3, step 412"), ("healthy", "spike, hang")]
        self.total_steps = 600
        self.spike = 5.0
        self.tokens_per_step: int | None = 4096
        self.beats: list[dict[str, Any]] = []
        self.suspected = ""
        self.printed = 0  # lines in the log of rank 3, above its end
        self.wall_s: float | None = None  # None: as long as it is there
        self.ended_at_s: float | None = None
        self.attempts = [
            Attempt(1, 0, 132, 100, "crashed: rank 1 was killed by signal 9"),
            Attempt(2, 100, 384, 350, "stopped: stop was requested", "resume from the checkpoint of step 100", 1, [381, 383]),
            Attempt(3, 350, 420, None, "", "roll back to step 350; skip samples 5984..6720", 2),
        ]
        self.incidents = [
            incident(1, "crash", remedies=[remedy(0, ["resume"], attempt=2, verdict="60 steps past step 132")]),
            incident(
                2, "spike", severity="warning", onset_step=379, detected_step=384, blamed_rank=None, steps_lost=34,
                reason="loss 7.1 is 31 deviations above 2.03, held for 4 steps",
                verdict="60 steps past step 384, back in its band", opened_elapsed_s=192.2, closed_elapsed_s=232.0, remedies=[
                    remedy(0, ["wait"], outcome="failed", chosen="patience: wait up to 40 steps", verdict="above its band"),
                    remedy(1, ["rollback", "skip"], attempt=3, chosen="roll back to step 350; skip samples 5984..6720",
                           expected="the loss is back in 2.03 ± 0.2 within 60 steps", verdict="60 steps past step 384"),
                ],
            ),
        ]  # fmt: skip
        self.events: list[dict[str, Any]] = []
        self.seq = 0
        self.names = list(METRICS)
        for elapsed_s, text, tone, about in [
            (0.0, "run demo: policy default", "plain", None),
            (0.1, "attempt 1 launched from scratch", "plain", None),
            (4.5, "attempt 1 first step: 1, 4.4 s after the launch", "plain", None),
            (30.5, "INCIDENT 1 crash (critical), at step 132: rank 1 was killed by signal 9", "bad", 1),
            (30.5, "incident 1 rung 1: resume from the checkpoint of step 100", "warn", 1),
            (30.6, "attempt 2 launched from the checkpoint of step 100", "plain", None),
            (60.0, "incident 1 remedy worked: 60 steps past step 132", "good", 1),
            (60.0, "incident 1 RECOVERED: 60 steps past step 132", "good", 1),
            (192.2, "INCIDENT 2 spike (warning), onset step 379, seen at step 384: loss 7.1 is 31 deviations", "bad", 2),
            (192.2, "incident 2 rung 1: patience: wait up to 40 steps", "warn", 2),
            (194.0, "incident 2 remedy failed: above its band for 4 steps", "warn", 2),
            (194.0, "incident 2 rung 2: roll back to step 350; skip samples 5984..6720", "warn", 2),
            (194.1, "  - 34 steps will be trained again", "quiet", 2),
            (196.5, "attempt 3 launched from the checkpoint of step 350", "plain", None),
            (232.0, "incident 2 RECOVERED: 60 steps past step 384, back in its band", "good", 2),
        ]:
            self.tell(text, tone, about, elapsed_s)

    @property
    def step(self) -> int:
        return self.attempts[-1].last_step

    @property
    def now_s(self) -> float:
        return START_S + 240 + (self.step - 420) * STEP_S

    def advance(self, steps: int) -> None:
        self.attempts[-1].last_step += steps

    def tell(self, text: str, tone: str = "plain", about: int | None = None, elapsed_s: float | None = None) -> None:
        self.seq += 1
        elapsed_s = self.now_s - START_S if elapsed_s is None else elapsed_s
        when = {"seq": self.seq, "at_s": START_S + elapsed_s, "elapsed_s": elapsed_s}
        self.events.append(when | {"text": text, "tone": tone, "incident": about})

    def break_down(self, number: int, kind: str, reason: str, **said: Any) -> dict[str, Any]:
        """A new open incident whose page is open, unless `said` says otherwise."""
        opened = {
            "state": "open", "severity": "critical", "onset_step": self.step - 12, "detected_step": self.step - 2, "verdict": "",
            "reason": reason, "time_to_recover_s": None, "steps_lost": 0, "blamed_rank": None, "closed_elapsed_s": None,
            "opened_elapsed_s": self.now_s - START_S, "pages": [f"page/{number}/1/trigger/"],
        } | said  # fmt: skip
        found = incident(number, kind, **opened)
        self.incidents.append(found)
        self.tell(f"INCIDENT {number} {kind} (critical): {reason}", "bad", number)
        return found

    def told_incidents(self) -> list[dict[str, Any]]:
        """With the words for how each stands, whatever a test has made of its state."""
        return [one | {"stands": stands(one["state"])} for one in self.incidents]

    def status(self) -> dict[str, Any]:
        return {
            "run": self.name, "state": self.state, "reason": self.reason, "attempt": self.attempts[-1].number, "step": self.step,
            "total_steps": self.total_steps, "goodput": 0.861, "wall_s": self.wall_s or self.now_s - START_S,
            "open_incident": None, "incidents": len(self.incidents), "policy": "default", "observe_only": False, "blind": {},
            "attempt_alive": True, "newest_incident": self.told_incidents()[-1] if self.incidents else None,
            "standbys": self.standbys,
            "supervisor": self.supervisor, "warning": self.trouble, "excluded_nodes": [], "seq": self.seq, "now_s": self.now_s,
            "ranks": self.ranks, "detector_rows": self.detector_rows, "needs": self.needs, "standing": self.standing,
            "machine_warnings": self.machine_warnings, "nothing_asked": self.nothing_asked,
            "elapsed_s": self.now_s - START_S, "began_at_s": START_S, "ended_at_s": self.ended_at_s, "trouble": self.trouble,
            "newest": {name: value_of(name, self.step, 3) for name in METRICS},
            "pages": [page_of(i) for i in self.incidents if is_paged(i)],
            "cost_cells": self.cost_cells,
            "forecast": {
                "unknown": "", "left_s": self.end_in_s[0], "low_s": self.end_in_s[1], "high_s": self.end_in_s[2],
                "end_at_s": self.now_s + self.end_in_s[0],
            },
        }  # fmt: skip

    def curves(self, metrics: list[str], since: str, view: tuple[float, float, bool] = EVERYTHING) -> dict[str, Any]:
        """The cursor is the newest attempt's last step; from there on its last point comes again."""
        known = int(since) if since else None
        chosen = [name for name in self.names if any(name == m or (m.endswith("/") and name.startswith(m)) for m in metrics)]
        told = self.attempts if known is None else self.attempts[-1:]
        found = {name: {str(a.number): self._series(name, a, known) for a in told} for name in chosen}
        attempts = [
            {"attempt": a.number, "after_step": a.after_step, "survives_to": a.survives_to, "is_over": bool(a.outcome)}
            for a in self.attempts
        ]
        reach = {asked: self._reach(asked, view) for asked in metrics}
        return {"cursor": str(self.step), "whole": known is None, "attempts": attempts, "reach": reach, "curves": found} | {
            "tokens_per_step": self.tokens_per_step
        }

    def _reach(self, asked: str, view: tuple[float, float, bool]) -> list[float] | None:
        """By the rule of the real server."""
        first, last, is_log = view
        kept: list[float] = []
        lost: list[float] = []
        for name in (name for name in self.names if name == asked or (asked.endswith("/") and name.startswith(asked))):
            for attempt in self.attempts:
                series = self._series(name, attempt, None)
                survives_to = attempt.survives_to or 0
                for step, value in zip(series["step"], series["high"], strict=True):
                    if first <= step <= last:
                        (kept if step <= survives_to or attempt is self.attempts[-1] else lost).append(value)
        found = reach_of(kept, lost, is_log=is_log)
        return found and [found.low, found.high]

    def _series(self, name: str, attempt: Attempt, known: int | None) -> dict[str, Any]:
        bad = attempt.non_finite if name == "loss" else []
        first = attempt.after_step + 1 if known is None else known
        steps = [step for step in range(first, attempt.last_step + 1) if step not in bad]
        values = [value_of(name, step, attempt.number, self.spike) for step in steps]
        return {"step": steps, "low": values, "high": values, "non_finite": bad}

    def machines(self) -> dict[str, Any]:
        """Eight ranks that beat, or what the test has put in their place; two GPUs, one of them in trouble."""
        beating = [
            {"rank": rank, "step": self.step, "phase": "forward", "silent_s": 0.1 * rank, "host": "node-1"} | CALM
            for rank in range(8)
        ]
        rows = self.beats or beating
        gpu = {
            "name": "H100", "lost": False, "busy_percent": 97, "memory_used_bytes": 70 << 30, "memory_total_bytes": 80 << 30,
            "temperature_c": 61, "power_mw": 640_000, "troubles": [],
        }  # fmt: skip
        hot = {"index": 1, "temperature_c": 91, "troubles": ["slowed down: HW thermal"]}
        steps = [min(row["step"] for row in rows), max(row["step"] for row in rows)]
        ranks = {
            "attempt": 3, "is_over": False, "suspected": self.suspected, "is_believed": False, "count": len(rows),
            "phases": {"forward": len(rows)}, "steps": steps, "ranks": rows,
        }  # fmt: skip
        return {"ranks": ranks, "gpus": {"age_s": 3.2, "missing": "", "fault": None, "gpus": [{"index": 0, **gpu}, gpu | hot]}}

    def checkpoints(self) -> dict[str, Any]:
        def one(step: int, trust: str, why: str, **said: Any) -> dict[str, Any]:
            return {
                "step": step, "path": f"checkpoints/step-{step:08d}", "attempt": 3, "digest": f"sha256:{step:064x}",
                "age_s": 60.0, "bytes": 3 << 29, "trust": trust, "why": why, "kept": "one of the newest three",
            } | said  # fmt: skip

        found = [
            one(400, "candidate", "committed, not verified yet"), one(350, "proven", "the run trained 60 steps beyond it"),
            one(380, "quarantined", "after the onset of incident 2", bytes=None, kept=None), one(100, "pruned", "", bytes=None),
        ]  # fmt: skip
        mirror = {"to": "s3://bucket/demo", "there": "step 350", "error": "", "behind_s": 42.0}
        retain = {"last": 3, "every": None}
        return {"run": "demo", "probation_steps": 60, "missing": "", "retain": retain, "checkpoints": found, "mirror": mirror}

    def log(self) -> dict[str, Any]:
        death = ["Traceback (most recent call last):", "  <b>File</b> train.py", "RuntimeError: NCCL timeout, api_key=***"]
        lines = [*(f"step {n}" for n in range(self.printed)), *death]
        logs = [
            {"label": "launcher", "file": "attempts/0003/logs/launcher.err", "lines": ["started 8 ranks"]},
            {"label": "rank 3 (blamed), errors", "file": "attempts/0003/logs/rank-3.err", "lines": lines},
        ]
        return {"attempt": 3, "logs": logs, "missing": ""}

    def lineage(self) -> list[dict[str, Any]]:
        return [
            {
                "attempt": a.number, "parent": a.parent, "resumed_step": a.after_step, "why": a.why, "settings": {},
                "last_step": a.last_step, "first_step": a.after_step + 1, "outcome": a.outcome.partition(":")[0],
                "end_reason": a.outcome.partition(": ")[2], "survives_to": a.survives_to, "changed_live": [], "exclude_nodes": [],
            }
            for a in self.attempts
        ]  # fmt: skip

    def ledger(self) -> dict[str, Any]:
        accounts = {"training": 206.6, "checkpointing": 3.1, "replay": 16.0, "detection": 2.4, "recovery": 7.4, "waiting": 4.5}
        return {"accounts": accounts, "goodput": accounts["training"] / 240, "whole_s": 240.0}
