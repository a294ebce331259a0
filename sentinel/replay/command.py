"""`sentinel replay` and `sentinel watch`: what was asked for, read, printed, drawn. What cannot be read ends in a sentence on
standard error; a file that was only met in a directory and is no log is passed over and reported."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path

from sentinel.clock import SystemClock
from sentinel.curves.svg import PlotMark, draw_picture
from sentinel.detectors.reference import Reference
from sentinel.errors import UsageError
from sentinel.policy.schema import Policy
from sentinel.policy_files.loading import load_policy, shipped_policy_path
from sentinel.replay.findings import ReplayFinding, ReplayResult
from sentinel.replay.follow import follow_logs
from sentinel.replay.many_logs import Log, find_logs, replay_many
from sentinel.report.masked import masked_json
from sentinel.telemetry.format_names import FORMATS
from sentinel.telemetry.reference import load_reference, read_reference
from sentinel.terminal.replay_table import LogsProgress, count_words, describe_found, print_table, sum_up

EXIT_OK, EXIT_UNREADABLE = 0, 1
NAMES_SHOWN = 12


@dataclass(frozen=True, slots=True)
class ReplayRequest:
    """The command line, as it was typed."""

    paths: tuple[Path, ...]
    policy: str
    format: str
    as_json: bool
    plot: Path | None
    follow: bool
    reference: Path | None = None


def replay_command(request: ReplayRequest) -> int:
    """Returns the exit code. Raises UsageError and PolicyError before anything is read."""
    if request.format not in ("auto", *FORMATS):
        raise UsageError(f"--format {request.format}: no such format; there are auto, {', '.join(FORMATS)}")
    if request.follow and request.plot is not None:
        raise UsageError("--follow and --plot contradict each other; draw when the run is over")
    policy_path = shipped_policy_path(request.policy)
    policy = load_policy(policy_path)
    reference = read_reference(request.reference) if request.reference is not None else load_reference(policy, policy_path)
    if request.follow:
        return _follow(request, policy, reference)
    if request.plot is not None:
        _ensure_folder(request.plot)
    return _replay(request, policy, reference)


def _replay(request: ReplayRequest, policy: Policy, reference: Reference | None) -> int:
    logs = find_logs(request.paths)
    code, read = EXIT_OK, 0
    summaries: list[dict[str, object]] = []
    drawn: set[str] = set()
    with LogsProgress(len(logs)) as progress:
        draw = request.plot is not None
        results = replay_many(logs, policy, request.format, draw=draw, reference=reference, done=progress.step)
        for log, result in zip(logs, results, strict=True):
            passed_over = result.unrecognised and not log.asked
            if result.error and not passed_over:
                code = EXIT_UNREADABLE
            read += not result.error
            _print_problems(result, "passed over: " if passed_over else "")
            if passed_over:
                continue
            if request.as_json:
                _print_json(result, result.found)
            else:
                summaries.append(_summary(result))
            if request.plot is not None and not result.error:
                _draw(request.plot, log, result, drawn)
    if not request.as_json:
        print_table(summaries)
    return code if read else EXIT_UNREADABLE


def _follow(request: ReplayRequest, policy: Policy, reference: Reference | None) -> int:
    def report(result: ReplayResult, found: list[ReplayFinding]) -> None:
        unique = list({id(one): one for one in found}.values())
        if request.as_json:
            _print_json(result, unique)
            return
        alert = "\a" if sys.stdout.isatty() else ""
        for one in unique:
            if one.severity != "info":
                print(alert + describe_found(one.document(result.file)), flush=True)

    def say(sentence: str) -> None:
        print(sentence, file=sys.stderr, flush=True)

    results, followed = follow_logs(request.paths, policy, request.format, SystemClock(), report, say, reference)
    if not followed:
        return EXIT_UNREADABLE
    (say if request.as_json else print)(sum_up([_summary(result) for result in results if result.rows]))
    return EXIT_OK


def _print_json(result: ReplayResult, found: list[ReplayFinding]) -> None:
    for one in found:
        print(masked_json(one.document(result.file)), flush=True)


def _print_problems(result: ReplayResult, prefix: str) -> None:
    if result.error:
        print(prefix + result.error, file=sys.stderr)
    if result.damaged:
        print(f"{result.file}: {result.damaged} damaged, left out; the first: {result.first_damage}", file=sys.stderr)
    if result.remark:
        print(f"{result.file}: {result.remark}", file=sys.stderr)
    if result.counts_epochs:
        print(f"{result.file}: its steps begin again with each epoch; they are counted on", file=sys.stderr)
    if result.repeated:
        again = f"{count_words(result.repeated, 'row')} of steps already there (several ranks in one log?)"
        print(f"{result.file}: {again}: passed over", file=sys.stderr)
    if result.rows and not result.has_loss:
        names = ", ".join(sorted(result.metrics)[:NAMES_SHOWN]) + (", …" if len(result.metrics) > NAMES_SHOWN else "")
        what = f"it has {names or 'nothing but steps'}; call the loss 'loss' in a copy, if it has one"
        print(f"{result.file}: no training loss in it, so none is judged ({what})", file=sys.stderr)
    if result.dropped:
        print(f"{result.file}: {result.dropped} more findings were counted and are not shown", file=sys.stderr)


def _summary(result: ReplayResult) -> dict[str, object]:
    return {
        "file": result.file,
        "rows": result.rows,
        "error": result.error,
        "found": [found.document(result.file) for found in result.found if found.severity != "info"],
        "info": sum(found.severity == "info" for found in result.found),
    }


def _ensure_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"--plot {folder}: no directory, and none can be made ({error.strerror})") from None


def _draw(folder: Path, log: Log, result: ReplayResult, drawn: set[str]) -> None:
    """A name of the log's own, and of its folder where two logs share one."""
    plain = re.sub(r"[^A-Za-z0-9._-]+", "_", log.path.name) or "run"
    name, count = plain, 1
    while name in drawn:
        count += 1
        name = f"{plain}-{count}"
    drawn.add(name)
    marks: list[PlotMark] = []
    for found in result.found:
        words = f"{found.severity} {found.kind}: {found.reason}"
        if found.severity == "info":
            marks.append(PlotMark(found.detected_step, "info", words))
            continue
        if found.onset_step is not None:
            marks.append(PlotMark(found.onset_step, "onset", f"onset of {found.kind} at step {found.onset_step}"))
        marks.append(PlotMark(found.detected_step, "found", words))
        if found.remedy_step is not None:
            marks.append(PlotMark(found.remedy_step, "remedy", f"{found.remedy} at step {found.remedy_step}"))
    try:
        (folder / f"{name}.svg").write_text(draw_picture(result.file, result.curves, marks), encoding="utf-8")
    except OSError as error:
        raise UsageError(f"--plot {folder}: cannot be written ({error.strerror})") from None
