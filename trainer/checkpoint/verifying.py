"""What a checkpoint is: a directory of a step's name with a manifest that every file in it matches."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sentinel.client import as_float, loads
from sentinel.client.checkpoint_files import leads_out, list_steps, name_of
from sentinel.client.file_digest import digest_of, listed_digest

from ..exits import DataError

__all__ = ["Verified", "check_sizes", "compare_numbers", "digest_of", "list_steps", "name_of", "read_manifest", "verify"]

SAME = 1e-6  # relative: a number computed again from what was loaded


@dataclass(frozen=True)
class Verified:
    """A checkpoint whose every file matches its manifest. `digest` is the sha256 of manifest.json. `is_vouched`: the supervisor
    has compared the bytes for this launch, and nobody has again."""

    path: Path
    step: int
    digest: str
    manifest: dict[str, Any]
    is_vouched: bool = False


def read_manifest(path: Path) -> Verified:
    """A checkpoint as its manifest describes it. No other file is read. Raises DataError."""
    try:
        text = (path / "manifest.json").read_bytes()
    except OSError as error:
        raise DataError(f"{path}: manifest.json cannot be read ({error.strerror})") from None
    try:
        manifest = loads(text)
        step = int(manifest["step"])
        for entry in manifest["files"].values():
            int(entry["bytes"])
            if listed_digest(entry) is None:
                raise KeyError("sha256")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DataError(f"{path}: manifest.json is not a manifest ({type(error).__name__}: {error})") from None
    return Verified(path, step, hashlib.sha256(text).hexdigest(), manifest)


def check_sizes(found: Verified) -> None:
    """Check that every file exists with its size, which costs little. Raises DataError naming the first that does not, or that
    lies outside the checkpoint."""
    for name, entry in found.manifest["files"].items():
        try:
            if target := leads_out(found.path, name):
                raise DataError(f"{found.path}: {name!r} lies outside the checkpoint, at {target!r}")
            actual = (found.path / name).stat().st_size
        except OSError as error:
            raise DataError(f"{found.path}: {name} cannot be read ({error.strerror})") from None
        if actual != entry["bytes"]:
            raise DataError(f"{found.path}: {name} does not match its digest ({actual} bytes, {entry['bytes']} expected)")


Read = Callable[["Verified"], None]  # compares every file with its digest; raises DataError


def verify(path: Path, digest: str | None = None, vouched: str | None = None, read: Read | None = None) -> Verified:
    """Check every byte of a checkpoint, by `read` or by this process alone. `vouched`: the digest of the manifest whose files the
    supervisor has just verified; where it is this one, no byte is read twice, and the sizes are compared alone. Raises DataError
    naming what does not match."""
    found = read_manifest(path)
    if digest is not None and found.digest != digest:
        raise DataError(f"{path}: manifest.json has sha256 {found.digest[:12]}…, expected {digest[:12]}…")
    check_sizes(found)
    loaded = [*path.glob("*.distcp"), *path.glob(".metadata")]
    unlisted = sorted(file.name for file in loaded if file.name not in found.manifest["files"])
    if unlisted:
        raise DataError(f"{path}: {unlisted[0]} is there, and manifest.json does not list it: nothing tells whether it is whole")
    if found.digest == vouched:
        return replace(found, is_vouched=True)
    (read or read_alone)(found)
    return found


def read_alone(found: Verified) -> None:
    """Compare every file with its digest. Raises DataError naming the first that does not match."""
    for name, entry in found.manifest["files"].items():
        listed = listed_digest(entry)
        assert listed is not None, "read_manifest has looked"
        try:
            if digest_of(found.path / name, listed.algorithm) != listed.hex:
                raise DataError(mismatch(found, name))
        except OSError as error:
            raise DataError(unreadable(found, name, str(error.strerror))) from None


def mismatch(found: Verified, name: str) -> str:
    return f"{found.path}: {name} does not match its digest (all its {found.manifest['files'][name]['bytes']} bytes are there)"


def unreadable(found: Verified, name: str, why: str) -> str:
    return f"{found.path}: {name} cannot be read ({why})"


def compare_numbers(found: Verified, loaded: dict[str, float]) -> None:
    """Raises DataError naming the first number that differs from the manifest's, or how many elements are not finite.

    Both are sums of the same float32 values in float64, over another number of ranks perhaps: the order of the sum moves them by
    parts in 10**10 at most, and SAME is far above that and far below anything that matters. A manifest without numbers is
    believed by its digests alone.
    """
    if loaded["nonfinite"]:
        raise DataError(f"{found.path}: {loaded['nonfinite']:.0f} elements of what was loaded are not finite")
    saved = found.manifest.get("metrics")
    if not isinstance(saved, dict):
        return
    for name, actual in loaded.items():
        try:
            expected = as_float(saved.get(name, actual))
        except ValueError as error:
            raise DataError(f"{found.path}: manifest.json: metrics.{name}: {error}") from None
        if not math.isclose(actual, expected, rel_tol=SAME):
            raise DataError(f"{found.path}: {name} of what was loaded is {actual:.9g}, its manifest says {expected:.9g}")
