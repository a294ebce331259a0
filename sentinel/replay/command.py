"""`sentinel replay`: what was asked for, read, and printed. What cannot be read ends in a sentence on standard error."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from sentinel.client.strict_json import dumps
from sentinel.errors import UsageError
from sentinel.policy.schema import Policy
from sentinel.policy_file import load_policy, shipped_policy_path
from sentinel.replay.found import Result
from sentinel.replay.many import find_logs, replay_many
from sentinel.telemetry.log_formats import FORMATS
from sentinel.view.replay_table import Progress, print_table

EXIT_OK, EXIT_UNREADABLE = 0, 1


@dataclass(frozen=True, slots=True)
class Request:
    """The command line, as it was typed."""

    paths: tuple[Path, ...]
    policy: str
    format: str
    as_json: bool
    plot: Path | None
    follow: bool


def replay_command(request: Request) -> int:
    """Returns the exit code. Raises UsageError and PolicyError before anything is read."""
    if request.format not in ("auto", *FORMATS):
        raise UsageError(f"--format {request.format}: no such format; there are auto, {', '.join(FORMATS)}")
    policy = load_policy(shipped_policy_path(request.policy))
    return _replay(request, policy)


def _replay(request: Request, policy: Policy) -> int:
    logs = find_logs(request.paths)
    code = EXIT_OK
    results: list[Result] = []
    with Progress(len(logs)) as progress:
        for result in replay_many(logs, policy, request.format, done=lambda _: progress.step()):
            if result.error:
                code = EXIT_UNREADABLE
            if request.as_json:
                _print_json(result)
            _print_troubles(result)
            results.append(result)
    if not request.as_json:
        print_table([_summary(result) for result in results])
    return code


def _print_json(result: Result) -> None:
    for found in result.found:
        print(dumps(found.document(result.file)))


def _print_troubles(result: Result) -> None:
    if result.error:
        print(result.error, file=sys.stderr)
    if result.damaged:
        print(f"{result.file}: {result.damaged} damaged, left out; the first: {result.first_damage}", file=sys.stderr)
    if result.dropped:
        print(f"{result.file}: {result.dropped} more findings were counted and are not shown", file=sys.stderr)


def _summary(result: Result) -> dict[str, object]:
    return {
        "file": result.file,
        "rows": result.rows,
        "error": result.error,
        "steps": (result.first_step, result.last_step),
        "found": [found.document(result.file) for found in result.found if found.severity != "info"],
        "info": sum(found.severity == "info" for found in result.found),
    }
