"""What the cards below the curves show, as JSON documents: ranks, GPUs, checkpoints, the ends of the logs, a rule's own words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from sentinel.client.strict_json import printable
from sentinel.clock import SystemClock
from sentinel.engine.annotations import labels_of, notes_of, runbook_of
from sentinel.model.incidents import Incident
from sentinel.model.state import RunState
from sentinel.paging.runbook import RUNBOOK, runbook_place
from sentinel.policy.schema import Policy
from sentinel.report.checkpoints import trust_document
from sentinel.report.following import RunSnapshot
from sentinel.report.log_tails import tails_document
from sentinel.run_files.heartbeats import RankSeen
from sentinel.run_files.mirror_standing import read_mirror_standing
from sentinel.run_files.stall import Stall, is_silent, stall_of

RANKS_SHOWN = 64
HANG = "hang"


def machines_document(snapshot: RunSnapshot, ranks: Sequence[RankSeen]) -> dict[str, Any]:
    return {"ranks": _ranks_document(snapshot, ranks), "gpus": _gpus_document(snapshot)}


def _ranks_document(snapshot: RunSnapshot, ranks: Sequence[RankSeen]) -> dict[str, Any]:
    """Those that matter first, RANKS_SHOWN of them. `suspected`: why a hang of this attempt is, empty where it is not;
    `is_believed`: an incident is open about it. Only then a silence has a tone: `bad` where the rank is blamed, or a hang is open
    and it is silent; `warn` where it is silent."""
    state, attempt = snapshot.state, snapshot.state.attempt
    is_over = attempt is None or attempt.is_over
    stall = stall_of(state, snapshot.now_s, snapshot.senses)
    number = attempt.attempt if attempt else None
    # one of an attempt that was ended for it says nothing of the ranks that beat now
    hangs = [one for one in state.open_incidents if str(one.kind) == HANG and one.attempt == number]
    blamed = {incident.blamed_rank for incident in state.open_incidents if incident.blamed_rank is not None}
    suspected = stall.words(snapshot.now_s) if stall else hangs[-1].reason if hangs and not is_over else ""

    def tone(seen: RankSeen) -> str:
        return _tone(seen, blamed, stall, snapshot.now_s, bool(hangs)) if suspected else ""

    rows = [asdict(seen) | {"blamed": seen.rank in blamed, "tone": tone(seen)} for seen in ranks]
    order = {"bad": 0, "warn": 1, "": 2}
    first = sorted(rows, key=lambda row: (order[row["tone"]], -row["silent_s"] if row["tone"] else 0, row["rank"]))[:RANKS_SHOWN]
    return {
        "attempt": attempt.attempt if attempt else None,
        "is_over": is_over,
        "suspected": printable(suspected),
        "is_believed": bool(suspected) and stall is None,
        "count": len(rows),
        "phases": dict(Counter(seen.phase for seen in ranks).most_common(8)),
        "steps": [min(seen.step for seen in ranks), max(seen.step for seen in ranks)] if ranks else None,
        "ranks": first,
    }


def _tone(seen: RankSeen, blamed: set[int], stall: Stall | None, now_s: float, is_hang: bool) -> str:
    silent = is_silent(seen.silent_s, stall, now_s)
    if seen.rank in blamed or (is_hang and silent):
        return "bad"
    return "warn" if silent else ""


def _gpus_document(snapshot: RunSnapshot) -> dict[str, Any]:
    """As the supervisor saw those of its own machine `age_s` ago. `fault`: what the detector of GPU faults says, Xids with it."""
    senses = snapshot.senses
    fault = next(((verdict, reason) for kind, verdict, reason in senses.verdicts if kind == "gpu_fault"), None)
    return {
        "age_s": round(max(0.0, snapshot.now_s - senses.time_s), 3) if senses.time_s is not None else None,
        "missing": senses.missing or ("" if senses.gpus else senses.gpus_why_not),
        "fault": {"verdict": fault[0], "reason": fault[1]} if fault else None,
        "gpus": [asdict(gpu) for gpu in senses.gpus],
    }


def checkpoints_document(snapshot: RunSnapshot) -> dict[str, Any]:
    """As `sentinel checkpoints list --json`, newest first, with `mirror`: where to, what it holds, for how long it is behind."""
    run_dir = snapshot.run_dir
    document = trust_document(run_dir, snapshot.state, snapshot.now_s, snapshot.step)
    standing = read_mirror_standing(run_dir)
    part = standing.parts.get("checkpoints") if standing is not None else None
    mirror = None
    if standing is not None and part is not None:
        behind_s = standing.lag_s("checkpoints", SystemClock().wall_s())
        mirror = {"to": standing.to, "there": part.there, "error": part.error, "behind_s": behind_s}
    return document | {"checkpoints": document["checkpoints"][::-1], "mirror": mirror}


def log_document(snapshot: RunSnapshot) -> dict[str, Any]:
    attempt = snapshot.state.attempt
    if attempt is None:
        return {"attempt": None, "logs": [], "missing": "no attempt was launched yet"}
    return tails_document(snapshot.run_dir, attempt.attempt, blamed_rank(snapshot.state))


def blamed_rank(state: RunState) -> int | None:
    """Of the newest incident of the newest attempt that blames one."""
    if state.attempt is None:
        return None
    own = (one for one in reversed(state.incidents) if one.attempt == state.attempt.attempt)
    return next((one.blamed_rank for one in own if one.blamed_rank is not None), None)


def rule_document(policy: Policy | None, incident: Incident) -> dict[str, Any]:
    """What the author of the rule wrote for whoever reads it; empty where the policy cannot be read."""
    if policy is None:
        return {"notes": [], "runbook": "", "labels": {}}
    labels: Mapping[str, str] = dict(labels_of(policy, incident.alert))
    runbook = runbook_of(policy, incident)
    name, _, section = runbook.partition("#")
    if name == RUNBOOK.name:
        runbook = runbook_place(section, policy.spec.paging.runbook_url)
    return {"notes": list(notes_of(policy, incident)), "runbook": runbook, "labels": labels}
