"""A policy that is applied to a run: checked as `policy check` does, and kept in the run directory.

What is kept is the policy as it was read then, with what it extends merged in: RUN_DIR/policies/DIGEST.yaml. A supervisor goes on
by it whatever has become of the file, and of the machine on which somebody had it.
"""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

from sentinel.client.atomic_file import write_atomically
from sentinel.client.run_layout import POLICIES
from sentinel.errors import GiveUp, PolicyError, UsageError
from sentinel.journal.run_file import read_run_file
from sentinel.model.actions import LoadPolicy
from sentinel.model.records import LoadedPolicy
from sentinel.paging.asked import with_checked_routes
from sentinel.policy_files.loading import PolicyFile, read_policy_file, shipped_policy_path
from sentinel.policy_files.yaml_positions import write_yaml
from sentinel.telemetry.reference import load_reference

REFERENCE = ("spec", "detectors", "behind_reference")


def read_checked(policy: str | Path) -> PolicyFile:
    """A file, or the name of a shipped policy. Raises PolicyError, with what `sentinel policy check` prints."""
    path = shipped_policy_path(policy).absolute()
    file = read_policy_file(path)
    load_reference(file.policy, path)
    return file


def kept_path(run_dir: Path, digest: str) -> Path:
    return run_dir / POLICIES / f"{digest[:32]}.yaml"


def keep(run_dir: Path, file: PolicyFile) -> Path:
    """A copy that stands on its own. Raises UsageError where it cannot be written."""
    place = kept_path(run_dir, file.digest)
    document = {key: value for key, value in file.document.items() if key not in ("extends", "remove")}
    text = f"# {file.path}, as it was applied (sha256 {file.digest})\n{write_yaml(_with_absolute_reference(document, file.path))}"
    try:
        write_atomically(place, text.encode())
    except OSError as error:
        raise UsageError(f"{place}: cannot be written: {error.strerror}; ask as the run's owner") from error
    return place


def _with_absolute_reference(document: dict[str, Any], path: str) -> dict[str, Any]:
    """A relative path of the reference run starts at the policy file, and the copy lies elsewhere."""
    document = copy.deepcopy(document)
    settings: Any = document
    for key in REFERENCE:
        settings = settings.get(key) if isinstance(settings, dict) else None
    if isinstance(settings, dict) and isinstance(named := settings.get("reference"), str):
        settings["reference"] = str(Path(path).absolute().parent / named)
    return document


def load_wanted(run_dir: Path, action: LoadPolicy, *, checks_routes: bool = True) -> LoadedPolicy:
    """What somebody asks to go by: the copy that they left, or the file, read anew and kept. `checks_routes`: whether this very
    process is to page on its routes.

    Raises GiveUp, with the sentences of `policy check`, where it may not act, or a page of it could not go out.
    """
    try:
        run = read_run_file(run_dir)
        file = read_checked(kept_path(run_dir, action.digest) if action.digest else action.path)
        if checks_routes:
            with_checked_routes(file.policy, run.pages)
        if not action.digest:
            keep(run_dir, file)
    except (PolicyError, UsageError) as error:
        raise GiveUp(error.message) from error
    named = run.policy.named
    digest, name = action.digest or file.digest, file.policy.metadata.name
    return LoadedPolicy(action.path, digest, name, named, run.policy.named_digest if named else "")
