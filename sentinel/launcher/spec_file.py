"""attempts/N/spec.json: what was launched, written once before the keeper starts.

Its reader in a trainer is `sentinel.client.spec`; the keeper reads argv, cwd and env.
"""

from __future__ import annotations

import os
from typing import Any

from sentinel.client.atomic_file import write_atomically
from sentinel.client.file_digest import ALGORITHMS
from sentinel.client.settings import settings_to_json
from sentinel.client.strict_json import dumps
from sentinel.launcher.environment import environment_to_json
from sentinel.launcher.exit_report import read_object
from sentinel.model.attempts import AttemptSpec, ResumePoint, SampleRange, SettingsInForce, Vouched
from sentinel.run_files.attempt_files import EXCLUDE_VARIABLE, LAUNCH_VARIABLE, AttemptFiles


def write_spec(files: AttemptFiles, spec: AttemptSpec) -> None:
    """Write spec.json atomically, and the folders the attempt's processes write into. Raises OSError."""
    assert spec.attempt == files.attempt, f"the spec of attempt {spec.attempt} does not belong in {files.folder}"
    assert spec.argv, "a command has at least its program"
    files.make_folders()
    value = {
        "v": 1,
        "attempt": spec.attempt,
        "launch": spec.launch,
        "argv": list(spec.argv),
        "cwd": os.path.abspath(spec.cwd),
        "env": files.environment | launch_variables(spec),
        "resume": None if spec.resume is None else resume_to_json(spec.resume),
        "verified": None if spec.vouched is None else vouched_to_json(spec.vouched),
        "reads_digests": list(ALGORITHMS),
        "overrides": overrides_to_json(spec.overrides, spec.attempt),
        "inspect": None if spec.inspect is None else {"samples": [[span.start, span.end] for span in spec.inspect]},
        "exclude_nodes": list(spec.exclude_nodes),
        "trainer": None if spec.trainer is None else dict(spec.trainer),
        "environment": None if spec.environment is None else environment_to_json(spec.environment),
    }
    write_atomically(files.spec, dumps(value).encode() + b"\n")


def launch_variables(spec: AttemptSpec) -> dict[str, str]:
    """What one launch adds to the environment of its processes, beside the marks of its attempt."""
    launch = {} if spec.launch is None else {LAUNCH_VARIABLE: spec.launch}
    return launch | ({EXCLUDE_VARIABLE: ",".join(spec.exclude_nodes)} if spec.exclude_nodes else {})


def read_launch(files: AttemptFiles) -> str | None:
    """The word of the launch that spec.json records; None where there is none. Raises OSError."""
    launch = (read_object(files.spec) or {}).get("launch")
    return launch if isinstance(launch, str) and launch else None


def resume_to_json(resume: ResumePoint) -> dict[str, Any]:
    return {"step": resume.step, "path": resume.path, "digest": resume.digest}


def vouched_to_json(word: Vouched) -> dict[str, Any]:
    return {"step": word.step, "digest": word.digest, "how": word.how}


def overrides_to_json(overrides: SettingsInForce, attempt: int) -> dict[str, Any]:
    """The object of spec.json and overrides.json (PROTOCOL.md 'overrides.json'), every key there: null means 'as configured'."""
    return {
        "id": overrides.id,
        "attempt": attempt,
        "incident": overrides.incident,
        **settings_to_json(overrides, skip=[_skip_to_json(skipped, overrides.data_seed) for skipped in overrides.skip]),
        "until": dict(overrides.until),
        "request": None,
    }


def _skip_to_json(skipped: SampleRange, data_seed: int | None) -> list[int]:
    """Every range counts in the order in force; a new one is named, so that no reader can take it for the order before."""
    return [skipped.start, skipped.end] if data_seed is None else [skipped.start, skipped.end, data_seed]
