"""What the commands show of the recorded run, as documents that can be compared whatever the day, the place and the machine.

Used twice: when the recording was made, to keep them in `expected/`, and by the test. Only the command line and SQLite are used,
so that modules may move; the loader of policies is the exception.

Left out, and why:
- `age_s` (a checkpoint, what the detectors last said): seconds until now, by the clock of whoever looks.
- the values of CLOCKED_METRICS: an age, and the time of the last write to a file, which a checkout of this repository sets anew.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sqlite3
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from dataclasses import fields as dataclass_fields
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any

from tests.integration.forked_sentinel import run_sentinel

ROOT = Path(__file__).resolve().parents[2]
DEADLINE_S = 60.0
CLOCKED_KEYS = {"age_s"}
CLOCKED_METRICS = ("sentinel_checkpoint_age_seconds", "sentinel_heartbeat_timestamp_seconds")
INCIDENTS = 4
DOCUMENTS = {
    "status.json": ("status", "--json"),
    "incidents.json": ("incidents", "--json"),
    "lineage.json": ("lineage", "--json"),
    "checkpoints.json": ("checkpoints", "list", "--json"),
    **{f"incident-{n}.json": ("incidents", "show", str(n), "--samples", "--json") for n in range(1, INCIDENTS + 1)},
}
TEXTS = {
    "incidents.txt": ("incidents",),
    "lineage.txt": ("lineage",),
    "events.txt": ("events",),
    "chronicle.md": ("chronicle",),
}
LINES = {"events.jsonl": ("events", "--json")}


def environment() -> dict[str, str]:
    """Of a command: this tree's code, `python` is this interpreter, and nothing of the terminal that the tests run in."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    left_out = ("SENTINEL_", "COLUMNS", "FORCE_COLOR")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(left_out)}
    return kept | {"PATH": path, "PYTHONPATH": str(ROOT), "COLUMNS": "120", "TERM": "dumb", "TZ": "UTC"}


def sentinel(place: Path, *words: str, deadline_s: float = DEADLINE_S) -> subprocess.CompletedProcess[str]:
    """One command, started where the run's policy lies."""
    return run_sentinel(*words, cwd=place, deadline_s=deadline_s, environ=environment())


def show(place: Path, *words: str) -> str:
    """What the command prints of `place`/run."""
    done = sentinel(place, *words, "run")
    assert done.returncode == 0, (words, done.stderr)
    return done.stdout


def unclocked(document: Any) -> Any:
    """The document without what depends on when somebody looks."""
    if isinstance(document, dict):
        return {key: unclocked(value) for key, value in document.items() if key not in CLOCKED_KEYS}
    return [unclocked(value) for value in document] if isinstance(document, list) else document


def document(place: Path, name: str) -> Any:
    if name in LINES:
        return [unclocked(json.loads(line)) for line in show(place, *LINES[name]).splitlines()]
    return unclocked(json.loads(show(place, *DOCUMENTS[name])))


def metrics(place: Path) -> dict[str, float]:
    """Sample of /metrics → value, as `sentinel web` answers a scrape; 0 where the value depends on the clock."""
    command = [sys.executable, "-m", "sentinel", "web", "run", "--listen", "127.0.0.1:0"]
    web = subprocess.Popen(command, cwd=place, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        assert web.stdout is not None
        assert select.select([web.stdout], [], [], DEADLINE_S)[0], "sentinel web says where it listens"
        said = web.stdout.readline()
        address = next(word for word in said.split() if word.startswith("http://")).rstrip("/.,")
        with urllib.request.urlopen(f"{address}/metrics", timeout=DEADLINE_S) as answer:
            text = answer.read().decode()
    finally:
        web.send_signal(signal.SIGTERM)
        web.wait(DEADLINE_S)
    samples = (line.rpartition(" ") for line in text.splitlines() if line and not line.startswith("#"))
    return {name: 0.0 if name.startswith(CLOCKED_METRICS) else float(value) for name, _, value in samples}


def fact_rows(journal: Path) -> list[tuple[int, float, int, str, str]]:
    """seq, at_s, epoch, kind and body of every fact, as they lie in the file."""
    connection = sqlite3.connect(f"file:{journal}?mode=ro", uri=True)
    try:
        return connection.execute("SELECT seq, at_s, epoch, kind, body FROM facts ORDER BY seq").fetchall()
    finally:
        connection.close()


def policy_values(path: Path) -> Any:
    """Every value of a policy, defaults too, under the words of the language."""
    from sentinel.policy_files.loading import load_policy

    return plain(load_policy(path))


def plain(value: Any) -> Any:
    """Models and dataclasses as dictionaries; a field that holds None is as good as absent."""
    fields = getattr(type(value), "model_fields", None)
    if fields is not None:
        held = {field.alias or name: getattr(value, name) for name, field in fields.items()}
    elif is_dataclass(value):
        held = {field.metadata.get("alias") or field.name: getattr(value, field.name) for field in dataclass_fields(value)}
    elif isinstance(value, dict):
        held = value
    elif isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    else:
        return value if isinstance(value, (int, float, str)) else repr(value)
    return {str(key): plain(item) for key, item in held.items() if item is not None}


def differences(old: Any, new: Any, where: str = "") -> Iterator[str]:
    """Where the new document does not say what the old one said. A key may be added; each list keeps its length and order."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key, value in old.items():
            if key not in new:
                yield f"{where}.{key}: {value!r} is missing now"
            else:
                yield from differences(value, new[key], f"{where}.{key}")
    elif isinstance(old, list) and isinstance(new, list):
        if len(old) != len(new):
            yield f"{where}: {len(old)} before, {len(new)} now"
        for index, (before, now) in enumerate(zip(old, new, strict=False)):
            yield from differences(before, now, f"{where}[{index}]")
    elif old != new or isinstance(old, bool) != isinstance(new, bool):
        yield f"{where}: {old!r} before, {new!r} now"


def write_expected(place: Path, policies: Path, expected: Path) -> None:
    """Once, with the code that made the recording."""
    expected.mkdir()

    def keep(name: str, value: Any) -> None:
        (expected / name).write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n")

    for name in (*DOCUMENTS, *LINES):
        keep(name.replace(".jsonl", ".json"), document(place, name))
    for name, words in TEXTS.items():
        (expected / name).write_text(show(place, *words))
    keep("metrics.json", metrics(place))
    rows = [json.dumps([*row[:4], json.loads(row[4])], ensure_ascii=False) for row in fact_rows(place / "run" / "sentinel.db")]
    (expected / "facts.jsonl").write_text("".join(row + "\n" for row in rows))
    keep("policies.json", {path.name: policy_values(path) for path in sorted([*policies.glob("*.yaml"), place / "policy.yaml"])})
