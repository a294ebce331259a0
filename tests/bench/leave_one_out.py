"""Every constant of the numeric detectors, chosen without one source of runs and judged on that source.

    python tests/bench/leave_one_out.py [--logs DIR] [--by source family group] [--only NAME]

The shipped `default` policy is the starting point, and one constant at a time takes each value of its grid. In turn one source
is left out, and the value is taken that is best on all others: not more than 0.1 false episodes per 10k healthy rows (if none is
so quiet, the quietest), then the most strong events found, then the least mean delay, then the middle of the longest row of
equals (of two middles the quieter). What that value does on the source left out is summed over the sources and stands beside what
the shipped value does. `together` takes, for each source, every constant as it was chosen without it: the honest total.

`source` is the repository a log is from. `family` splits AlgoPerf, which has 33 of the 42 strong events, by the submission that
trained it, so that positives can be left out without losing nearly all. `group` is the logging interval's. Scoring is that of
score_logs.py. For what the labelled logs cannot choose it is shown who fires at each value: healthy runs, and the few positives.
A log is read once, as shipped; a value tells its detector alone of it again (detector_tapes.py).
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from sentinel.model.readings import StepReading
from sentinel.policy.schema import Policy
from sentinel.policy_files.loading import load_policy, shipped_policy_path
from tests.bench.detector_constants import CONSTANTS, SEPARATIONS, UNTOUCHED, Constant, detector_of, setting, shipped, title
from tests.bench.detector_tapes import Tape, findings_with, record
from tests.labelled_logs import ABSENT, NoLabels, labelled_logs
from tests.unit.detectors.bank_kit import alarms
from tests.unit.detectors.score_logs import Group, Label, group_of, is_scored, judge_run, read_labels, read_log

FALSE_PER_10K_MAX = 0.1
BY = ("source", "family", "group")
KIND_OF = {"loss_scale": "loss_scale_collapse"}


@dataclass(frozen=True)
class Log:
    name: str
    labels: list[Label]
    rows: list[StepReading]
    tape: Tape

    def fold(self, by: str) -> str:
        """What is left out together with this log."""
        label = self.labels[0]
        if by == "group":
            return group_of(label)
        if by == "family" and label["source"] == "algoperf-wmt":
            return f"algoperf {Path(self.name).stem.split('_study')[0].split('_', 2)[2].removesuffix('_submission')}"
        return label["source"]


Runs = dict[str, Group]  # what one setting does, by log


def judge(logs: Sequence[Log], policy: Policy, changed: Collection[str]) -> Runs:
    """`changed`: the detectors whose constants are no longer the shipped ones."""
    runs: Runs = {}
    for log in logs:
        runs[log.name] = Group()
        judge_run(runs[log.name], log.name, log.labels, log.rows, alarms(findings_with(log.tape, policy, changed)), False)
    return runs


class Total(NamedTuple):
    """`delay` is the mean of strong events that were found, in rows; infinite when none was."""

    rows: int
    episodes: int
    found: int
    strong: int
    mild: int
    delay: float

    @property
    def false_per_10k(self) -> float:
        return 1e4 * self.episodes / max(1, self.rows)


def total(groups: Sequence[Group]) -> Total:
    strong = [delay for group in groups for delay in group.events.get("strong", ())]
    mild = [delay for group in groups for delay in group.events.get("mild", ())]
    hits = [delay for delay in strong if delay is not None]
    delay = sum(hits) / len(hits) if hits else float("inf")
    rows, episodes = sum(group.rows for group in groups), sum(group.episodes for group in groups)
    return Total(rows, episodes, len(hits), len(strong), sum(delay is not None for delay in mild), delay)


def choose(scores: Sequence[Total]) -> int:
    """Which of the values is taken: the criterion at the top of this file."""
    quiet = [at for at, score in enumerate(scores) if score.false_per_10k <= FALSE_PER_10K_MAX]
    if not quiet:
        return min(range(len(scores)), key=lambda at: (scores[at].episodes, -scores[at].found, scores[at].delay))
    best = min((-scores[at].found, round(scores[at].delay, 3)) for at in quiet)
    equal = [at for at in quiet if (-scores[at].found, round(scores[at].delay, 3)) == best]
    stretches: list[list[int]] = []
    for at in equal:
        if stretches and stretches[-1][-1] == at - 1:
            stretches[-1].append(at)
        else:
            stretches.append([at])
    longest = max(stretches, key=len)
    return longest[len(longest) // 2]


@dataclass(frozen=True)
class HeldOut:
    """One constant: what was chosen without each source, and what those choices do on the sources left out."""

    constant: Constant
    scores: list[Total]
    chosen: dict[str, float]
    held_out: Total
    kept: Total

    def line(self, policy: Policy) -> str:
        picked: dict[float, list[str]] = defaultdict(list)
        for fold, value in self.chosen.items():
            picked[value].append(fold)
        most = max(picked, key=lambda value: len(picked[value]))
        words = [f"{most:g} (of {len(self.chosen)}: {len(picked[most])})"]
        words += [f"{value:g} without {', '.join(folds)}" for value, folds in sorted(picked.items()) if value != most]
        curve = " · ".join(
            f"{value:g}: {score.episodes}, {score.found}+{score.mild}"
            for value, score in zip(self.constant.values, self.scores, strict=True)
        )
        own = f"{shipped(self.constant, policy):g}"
        return f"| {title(self.constant)} | {own} | {'; '.join(words)} | {shown(self.held_out)} | {shown(self.kept)} | {curve} |"


def shown(score: Total) -> str:
    return f"{score.episodes} ({score.false_per_10k:.3f}), {score.found}/{score.strong}, {score.mild}, {score.delay:.2f}"


def measure(constant: Constant, logs: Sequence[Log], policy: Policy) -> list[Runs]:
    """What each value does on every log."""
    table: list[Runs] = []
    for value in constant.values:
        with setting(policy, (constant, value)) as changed:
            table.append(judge(logs, changed, {detector_of(constant)}))
    return table


def leave_one_out(constant: Constant, table: list[Runs], folds: dict[str, str], own: float) -> HeldOut:
    """`folds`: what each log is left out with. `own`: the shipped value, which must be in the grid."""
    assert own in constant.values, f"{title(constant)} is {own:g} now: put it into its grid"
    chosen: dict[str, float] = {}
    outside: list[Group] = []
    for fold in sorted(set(folds.values())):
        at = choose([total([group for name, group in runs.items() if folds[name] != fold]) for runs in table])
        chosen[fold] = constant.values[at]
        outside += [group for name, group in table[at].items() if folds[name] == fold]
    scores = [total(list(runs.values())) for runs in table]
    return HeldOut(constant, scores, chosen, total(outside), scores[constant.values.index(own)])


def together(found: Sequence[HeldOut], logs: Sequence[Log], policy: Policy, by: str) -> dict[str, Total]:
    """Each source judged with every constant as it was chosen without it."""
    result: dict[str, Total] = {}
    for fold in sorted({log.fold(by) for log in logs}):
        changes = [(held.constant, held.chosen[fold]) for held in found]
        with setting(policy, *changes) as changed:
            own = [log for log in logs if log.fold(by) == fold]
            result[fold] = total(list(judge(own, changed, {detector_of(constant) for constant, _ in changes}).values()))
    return result


def separation(constant: Constant, logs: Sequence[Log], policy: Policy) -> str:
    """Who fires at each value: healthy runs, and the others by label."""
    room = constant.room
    assert isinstance(room, str)
    cells = []
    for value in constant.values:
        with setting(policy, (constant, value)) as changed:
            fired: dict[str, int] = defaultdict(int)
            for log in logs:
                kinds = {str(finding.kind) for finding in findings_with(log.tape, changed, {room})}
                fired[log.labels[0]["label"]] += KIND_OF.get(room, room) in kinds
        others = ", ".join(f"{label} {count}" for label, count in sorted(fired.items()) if label != "healthy" and count)
        cells.append(f"{value:g}: healthy {fired['healthy']}{', ' + others if others else ''}")
    return f"| {title(constant)} | {shipped(constant, policy):g} | {' · '.join(cells)} |"


def read_logs(folder: Path, policy: Policy) -> list[Log]:
    logs = []
    for name, labels in read_labels(folder).items():
        rows = read_log(folder / name)
        logs.append(Log(name, labels, rows, record(rows, policy)))
    return logs


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--logs", help="the directory of the labelled logs; or SENTINEL_LOGS")
    parser.add_argument("--by", choices=BY, nargs="+", default=["source", "family"])
    parser.add_argument("--only", help="constants whose title contains this")
    given = parser.parse_args()
    try:
        folder = labelled_logs(given.logs)
    except NoLabels as error:
        parser.error(str(error))
    if folder is None:
        parser.error(ABSENT)
    policy = load_policy(shipped_policy_path("default"))
    logs = read_logs(folder, policy)
    scored = [log for log in logs if is_scored(log.labels[0])]
    wanted = [constant for constant in CONSTANTS if given.only is None or given.only in title(constant)]
    tables = [measure(constant, scored, policy) for constant in wanted]
    print(f"{len(scored)} runs scored; a cell is: false episodes (per 10k), strong found, mild found, mean delay in rows")
    for by in given.by:
        print_by(by, wanted, tables, scored, policy)
    print("\n| too few positives | shipped | who fires at each value |\n|---|---|---|")
    for constant in SEPARATIONS:
        if given.only is None or given.only in title(constant):
            print(separation(constant, logs, policy), flush=True)
    print(UNTOUCHED)
    return 0


def print_by(by: str, wanted: Sequence[Constant], tables: Sequence[list[Runs]], logs: Sequence[Log], policy: Policy) -> None:
    folds = {log.name: log.fold(by) for log in logs}
    found = [leave_one_out(each, table, folds, shipped(each, policy)) for each, table in zip(wanted, tables, strict=True)]
    print(f"\nleft out by {by}\n| constant | shipped | chosen | held out | as shipped | each value: false, strong + mild |")
    print("|---|---|---|---|---|---|")
    for held in found:
        print(held.line(policy))
    print(f"\n| {by} left out, every constant chosen without it | held out |\n|---|---|")
    parts = together(found, logs, policy, by)
    for fold, score in parts.items():
        print(f"| {fold} | {shown(score)} |")
    rows, episodes, hits, strong, mild = (sum(int(score[at]) for score in parts.values()) for at in range(5))
    print(f"by {by}, together: {episodes} false episodes in {rows} healthy rows, {hits}/{strong} strong, {mild} mild", flush=True)


if __name__ == "__main__":
    sys.exit(main())
