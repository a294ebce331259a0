"""The documents as text for a person: `sentinel status` and `sentinel incidents`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sentinel.detectors.disk_memory import bytes_words
from sentinel.journal.standbys import StandbySeen
from sentinel.model.amounts import number_between, time_words
from sentinel.model.incidents import blamed_words
from sentinel.model.state import ENDINGS
from sentinel.policy.rung_words import CONDITIONS
from sentinel.report.cost import cost_rows, incident_words
from sentinel.report.detectors import detector_rows
from sentinel.report.documents import under_way_words
from sentinel.report.environment import environment_rows
from sentinel.report.needs_text import need_rows
from sentinel.report.pages import page_rows, page_story
from sentinel.report.schedule import schedule_rows
from sentinel.report.tables import cell, rounded_parts, text_table
from sentinel.run_files.nodes_seen import NodeSeen, nodes_words
from sentinel.run_files.stall import LAST_SEEN
from sentinel.terminal.words import utc_words

INCIDENT_HEADER = ("incident", "onset", "detected", "remedy", "outcome", "steps lost", "s lost")  # fits 80 columns

SUSPENDED = "; `sentinel run` again goes on with it"
HOLES_SHOWN = 5
RANKS_SHOWN = 8


def _policy_words(status: Mapping[str, Any]) -> str:
    words: str = status["policy"] + (f" (sha256 {status['policy_digest'][:12]})" if status.get("policy_digest") else "")
    words += ", observe only" if status["observe_only"] else ""
    if (applied := status.get("policy_applied")) is None:
        return words
    note = f": {applied['note']}" if applied["note"] else ""
    return f"{words}; applied {utc_words(applied['at'])} by {applied['by']}{note}, in the place of {applied['before']}"


def status_text(status: Mapping[str, Any]) -> str:
    step = cell(status["step"]) + (f" of {status['total_steps']}" if status["total_steps"] else "")
    rows = [
        ("run", status["run"]),
        ("state", _state_words(status) + (f": {status['reason']}" if status["reason"] and status["needs"] is None else "")),
        *need_rows(status),
        *[("warning", one["words"]) for one in status["machine_warnings"] if one["incident"] is None],
        *_under_way_rows(status.get("under_way")),
        ("attempt", cell(status["attempt"])),
        ("step", step),
        ("goodput", f"{status['goodput']:.1%} of {time_words(status['wall_s'])} ({ledger_words(status['ledger_s'])})"),
        ("incidents", _incidents_words(status)),
        ("policy", _policy_words(status)),
        ("supervisor", _supervisor_words(status)),
        *_node_rows(status),
    ]
    rows += [("standby", StandbySeen(**one).words) for one in status["standbys"]]
    rows += cost_rows(status["cost"], status["forecast"])
    if status["ranks"]:
        rows.append(("ranks", ranks_words(status["ranks"])))
    if status["deadline"] is not None:
        rows.append(("deadline", _deadline_words(status["deadline"]["in_s"], status["deadline"]["by"])))
    for out in status["excluded_nodes"]:
        rows.append(("left out", f"node {out['node']} (incident {out['incident']}): sentinel readmit {out['node']} RUN_DIR"))
    rows += environment_rows(status["environment"]) + schedule_rows(status["schedule"])
    rows += [("blind", f"{source}: {reason}") for source, reason in status["blind"].items()]
    if status.get("missing_steps"):
        rows.append(("missing", _missing_words(status["missing_steps"])))
    rows += [("disk", _disk_words(disk)) for disk in status["disks"]]
    if (saving := status.get("save_interval")) and not saving["unknown"]:
        rows.append(("saving", _saving_words(saving)))
    if warm := status.get("warm"):
        rows.append(("warm", "; ".join(filter(None, (warm["words"], warm["last"])))))
    if status["warning"]:
        rows.append(("warning", status["warning"]))
    incident = status["open_incident"]
    if incident and incident["remedies"]:
        last = incident["remedies"][-1]
        rows.append(("remedy", f"rung {last['rung'] + 1}, {last['outcome']}: {last['reason']}"))
    rows += page_rows(status["pages"])
    rows += detector_rows(status["detectors"], is_watched=status["supervisor"] == "alive")
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"{name:<{width}}  {' '.join(value.splitlines())}" for name, value in rows)


def _state_words(status: Mapping[str, Any]) -> str:
    """The journal's word, where no supervisor is there to write another one."""
    word: str = status["state"]
    return word if status["supervisor"] == "alive" or word in ENDINGS else LAST_SEEN.format(word)


def _supervisor_words(status: Mapping[str, Any]) -> str:
    place = status.get("supervisor_place")
    where = f" (pid {place['pid']} on {place['host']})" if place else ""
    return f"{status['supervisor']}{where}{SUSPENDED if status['state'] == 'suspended' else ''}"


def _node_rows(status: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Where the ranks are, unless that is the supervisor's machine alone."""
    nodes = [NodeSeen(**one) for one in status.get("nodes", ())]
    place = status.get("supervisor_place")
    is_one_machine = place is not None and [one.node for one in nodes] == [place["host"]]
    return [] if not nodes or is_one_machine else [("nodes", nodes_words(nodes))]


def _incidents_words(status: Mapping[str, Any]) -> str:
    newest = status["newest_incident"]
    return cell(status["incidents"]) + (f"; the newest, {newest['id']} {newest['kind']}: {newest['stands']}" if newest else "")


def _under_way_rows(found: Mapping[str, Any] | None) -> list[tuple[str, str]]:
    return [] if found is None else [("now", under_way_words(found))]


def _saving_words(saving: Mapping[str, Any]) -> str:
    """Young's and Daly's interval beside the one in use."""
    trained, save = time_words(saving["trained_s"]), time_words(saving["save_s"])
    each = f"{saving['interruptions']} interruptions in {trained} of training, {save} a save"
    blocked = f"{saving['now_blocked_share']:.2%} blocked by saves"
    now = f"every {saving['now_steps']} steps costs {saving['now_share']:.1%} of the time ({blocked})"
    if saving["now_steps"] / 2 <= saving["steps"] <= saving["now_steps"] * 2:
        return f"{now}, near the least ({each})"
    least = f"every {saving['steps']} would cost {saving['share']:.1%} ({saving['blocked_share']:.2%} blocked)"
    return f"{now}, {least}; {each}; Daly's estimate"


def _missing_words(holes: Sequence[Sequence[int]]) -> str:
    """Whose numbers the trainer of this attempt could not write; the newest few."""
    steps = ", ".join(f"{first} to {last}" if first != last else str(first) for first, last in holes[-HOLES_SHOWN:])
    more = f", and {len(holes) - HOLES_SHOWN} stretches before" if len(holes) > HOLES_SHOWN else ""
    return f"the numbers of steps {steps}{more}: the trainer could not write them, and what they would have shown is not known"


def ranks_words(ranks: Sequence[Mapping[str, Any]]) -> str:
    """Where each stands and how long it has been silent, the longest first; of many the first few."""
    first = sorted(ranks, key=lambda seen: -seen["silent_s"])[:RANKS_SHOWN]
    words = [f"rank {seen['rank']} {_silence(seen)} (step {seen['step']}, {seen['phase']})" for seen in first]
    more = len(ranks) - len(first)
    return ", ".join(words) + (f", and {more} more" if more else "")


def _silence(seen: Mapping[str, Any]) -> str:
    return f"silent for {time_words(seen['silent_s'])}"


def incidents_text(incidents: Sequence[Mapping[str, Any]]) -> str:
    """The table, and below it what happened in each, sentence by sentence."""
    if not incidents:
        return "no incidents"
    parts = [text_table(INCIDENT_HEADER, [incident_row(incident) for incident in incidents])]
    for incident in incidents:
        parts.append("\n".join(incident_story(incident)))
    return "\n\n".join(parts)


def incident_row(incident: Mapping[str, Any]) -> tuple[object, ...]:
    """Seconds lost: from the moment the fault was first visible until the run made new ground again."""
    return (
        f"{incident['id']} {incident['kind']}",
        incident["onset_step"],
        incident["detected_step"],
        remedy_words(incident),
        incident["stands"],
        steps_lost(incident),
        incident["time_to_recover_s"],
    )


def steps_lost(incident: Mapping[str, Any]) -> int | str:
    """As far as rows showed them: `90 to 99` where they are seldom."""
    least, most = incident["steps_lost"] or 0, incident["steps_lost_at_most"]
    return least if most == least else number_between(least, None if most is None else most - least)


def incident_story(incident: Mapping[str, Any]) -> list[str]:
    lines = [
        f"incident {incident['id']}, {incident['kind']} ({incident['severity']}), {incident['stands']}",
        f"  {incident['reason']}",
        f"  seen {time_words(incident['time_to_detect_s'])} after it was first visible",
    ]
    if blamed := blamed_words(incident["blamed_rank"], incident["blamed_node"]):
        lines.append(f"  blamed: {blamed}")
    if incident.get("begins_anew"):
        lines.append(f"  begins playbook {incident['playbook'] or '(none)'} at its first rung: another policy was applied")
    if (cost := incident.get("cost")) and cost["gpu_hours"]:
        lines.append(f"  cost {incident_words(cost)}")
    for remedy in incident["remedies"]:
        launched = f", attempt {remedy['attempt']}" if remedy["attempt"] is not None else ""
        lines.append(f"  rung {remedy['rung'] + 1} ({rung_words(remedy)}{launched}): {remedy['chosen']}")
        if remedy["expected"]:
            lines.append(f"    expected: {remedy['expected']}")
        is_new = remedy["verdict"] not in ("", remedy["chosen"])
        lines.append(f"    {remedy['outcome']}" + (f": {remedy['verdict']}" if is_new else ""))
    if incident["put_back"]:
        lines.append(f"  put back, because it had just lapsed: {' and '.join(incident['put_back'])}")
    if incident["diagnosis"]:
        lines.append(f"  diagnosis: {incident['diagnosis']['cause']}: {incident['diagnosis']['reason']}")
    if incident["attribution"]:
        lines.append(f"  attribution: {incident['attribution']['reason']}")
    if incident["page"]:
        return [*lines, *(f"  {line}" for line in page_story(incident["page"]))]
    if incident["acknowledged_by"]:
        lines.append(f"  acknowledged by {incident['acknowledged_by']}")
    if incident["pages"]:
        times = f" {len(incident['pages'])} times" if len(incident["pages"]) > 1 else ""
        lines.append(f"  a person was paged{times}: incidents/{incident['id']:04d}/page.json")
    return lines


def remedy_words(incident: Mapping[str, Any]) -> str | None:
    """The rungs that were tried, in order: 'wait, rollback+skip'."""
    return ", ".join(rung_words(remedy) for remedy in incident["remedies"]) or None


def rung_words(remedy: Mapping[str, Any]) -> str:
    """What a rung does, without its conditions: 'rollback+skip'."""
    return "+".join(word for word in remedy["words"] if word not in CONDITIONS)


def ledger_words(ledger_s: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {time_words(value)}" for name, value in rounded_parts(ledger_s).items() if value)


def _deadline_words(in_s: float, by: str) -> str:
    when = f"in {time_words(in_s)}" if in_s >= 0 else f"passed {time_words(-in_s)} ago"
    return f"{when} ({by})"


def _disk_words(disk: Mapping[str, Any]) -> str:
    inodes = "" if disk["free_inodes"] is None else f", {disk['free_inodes']} inodes"
    room = f"{bytes_words(disk['free_bytes'])} of {bytes_words(disk['total_bytes'])}{inodes}"
    return f"{room} free on {disk['mount']} ({disk['place']})"
