"""What the streams say around an incident, and over a whole run, as drawn panels: a bounded piece of each attempt concerned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sentinel.curves.registry import metrics_shown_on
from sentinel.curves.svg import AttemptLine, Panel, PlotMark, draw_panel
from sentinel.model.incidents import Incident
from sentinel.paging.case import judged_metric
from sentinel.report.html.collected import Collected
from sentinel.report.lineage import Branch
from sentinel.run_files.stream import Row, read_steps, read_thinned

METRICS = metrics_shown_on("report")
ATTEMPTS_MAX = 8  # of one incident: the first that broke, and the newest
BEFORE_MIN, BEFORE_MAX = 60, 2000  # steps
BEHIND_MAX = 4000
RUN_ATTEMPTS_MAX = 64
RUN_BYTES_MAX = 24 << 20
WIDE_ATTEMPTS = 8  # so many share these bytes; of more, each also has a narrower strip of the picture
BAND_SPREADS = 3.0
LIVES_ON = 1 << 62  # of the newest attempt more is written while this is read


def incident_panels(run: Collected, incident: Incident, only_judged: bool = False) -> list[Panel]:
    """A panel for each metric that was reported, the judged one first."""
    first, last = window(incident)
    judged = judged_metric(incident)
    names = [judged] if only_judged else list(dict.fromkeys([judged, *METRICS]))
    branches = _concerned(run, incident, first)
    rows = {
        branch.attempt: read_steps(run.run_dir, branch.attempt, max(first, branch.resumed_step + 1), last, names.__contains__)
        for branch in branches
    }
    steps = [row[0] for found in rows.values() for row in found]
    if not steps:
        return []
    return _panels(names, branches, rows, incident_marks(incident), (min(steps), max(steps)), incident)


def window(incident: Incident) -> tuple[int, int]:
    """The steps worth a look: what was level before, the break, and as far as the newest try is known to have come."""
    onset = incident.onset_step if incident.onset_step is not None else incident.break_step
    broke = max([incident.detected_step, incident.break_step, *(t.struck_step or 0 for t in incident.tries)])
    margin = min(BEFORE_MAX, max(BEFORE_MIN, 2 * (broke - onset)))
    back = [t.remedy.rollback_to_step for t in incident.tries if t.remedy.rollback_to_step]
    first = max(0, min([onset, *back]) - margin // 2, onset - BEFORE_MAX)
    return min(first, max(0, onset - margin)), min(broke + margin, onset + BEHIND_MAX)


def incident_marks(incident: Incident) -> list[PlotMark]:
    marks = [PlotMark(incident.onset_step, "onset", "onset")] if incident.onset_step is not None else []
    marks.append(PlotMark(incident.detected_step, "seen", "seen"))
    for number, one in enumerate(incident.tries, start=1):
        back = one.remedy.rollback_to_step
        if one.attempt is not None and back is not None:
            marks.append(PlotMark(back, "remedy", f"try {number} from here"))
        if one.struck_step is not None:
            marks.append(PlotMark(one.struck_step, "struck", f"try {number} struck again"))
    return marks


def run_panels(run: Collected) -> tuple[list[Panel], float]:
    """The whole run, its newest attempts, with every incident marked; and which share of the streams was read."""
    branches = run.branches[-RUN_ATTEMPTS_MAX:]
    each = bytes_of_each(len(branches))
    rows: dict[int, list[Row]] = {}
    shares = []
    for branch in branches:
        rows[branch.attempt], share = read_thinned(run.run_dir, branch.attempt, METRICS.__contains__, each)
        shares.append(share)
    steps = [row[0] for found in rows.values() for row in found]
    if not steps:
        return [], 1.0
    marks = [_mark(incident) for incident in run.state.incidents]
    return _panels(METRICS, branches, rows, marks, (min(steps), max(steps)), None), min(shares)


def bytes_of_each(attempts: int) -> int:
    """How much of each stream is read for a picture of so many: some hundred rows at least of a trainer without layers."""
    narrow = max(1, attempts) / WIDE_ATTEMPTS
    return int(RUN_BYTES_MAX // max(1, attempts) / max(1.0, narrow))


def _mark(incident: Incident) -> PlotMark:
    step = incident.onset_step if incident.onset_step is not None else incident.break_step
    return PlotMark(step, "onset", str(incident.id))


def _concerned(run: Collected, incident: Incident, first: int) -> list[Branch]:
    """Where it broke, what was launched against it, what went past the place, and whence it came, if that lies in sight."""
    numbers = {incident.attempt, *(t.attempt for t in incident.tries if t.attempt is not None)}
    numbers |= {one.attempt for one in run.branches if one.attempt > incident.attempt and _passes(one, incident.break_step)}
    broke = run.branch(incident.attempt)
    if broke is not None and broke.parent is not None and broke.resumed_step > first:
        numbers.add(broke.parent)
    found = [branch for branch in run.branches if branch.attempt in numbers]
    return found if len(found) <= ATTEMPTS_MAX else [*found[:2], *found[2 - ATTEMPTS_MAX :]]


def _passes(branch: Branch, step: int) -> bool:
    return branch.survives_to is not None and branch.resumed_step <= step < branch.survives_to


def _panels(
    names: Sequence[str], branches: Sequence[Branch], rows: Mapping[int, Sequence[Row]], marks: Sequence[PlotMark],
    span: tuple[int, int], incident: Incident | None,
) -> list[Panel]:  # fmt: skip
    panels = []
    inside = [mark for mark in marks if span[0] <= mark.step <= span[1]]
    for name in names:
        lines = []
        for place, branch in enumerate(branches):
            points = [(step, metrics[name]) for step, metrics in rows[branch.attempt] if name in metrics]
            keep = None if branch.survives_to is None else branch.survives_to if branch.outcome else LIVES_ON
            lines += [AttemptLine(branch.attempt, points, keep, place)] if points else []
        panel = draw_panel(name, lines, inside, first=span[0], last=span[1], band=_band(incident, name))
        if panel is not None:
            panels.append(panel)
    return panels


def _band(incident: Incident | None, metric: str) -> tuple[float, float] | None:
    band = incident.band if incident is not None else None
    if band is None or band.metric != metric:
        return None
    return band.median - BAND_SPREADS * band.mad, band.median + BAND_SPREADS * band.mad
