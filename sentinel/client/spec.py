"""spec.json: what was launched. The supervisor writes it once before the attempt starts; a trainer only reads it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from sentinel.client.file_digest import SHA256
from sentinel.client.overrides import Overrides, OverridesError
from sentinel.client.regular_file import read_regular
from sentinel.client.strict_json import loads


class SpecError(ValueError):
    """spec.json, or the environment that leads to it, cannot be used; the message names value, place and remedy."""


@dataclass(frozen=True)
class Resume:
    """The checkpoint to continue from. `digest` is the sha256 of its manifest.json; None means: whatever stands there.
    `verified`: how the supervisor has verified the files of that very manifest for this launch; empty where it does not say."""

    step: int
    path: str  # relative to the run directory
    digest: str | None = None
    verified: str = ""


@dataclass(frozen=True)
class Spec:
    """`resume` None means: start from scratch, even if checkpoints exist. `inspect`: half-open ranges of sample indices.
    `launch`: the word of this very launch, None from an older supervisor. `reads_digests`: the algorithms of a manifest
    that this one reads."""

    attempt: int
    argv: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    resume: Resume | None = None
    overrides: Overrides = field(default_factory=Overrides)
    inspect: tuple[tuple[int, int], ...] | None = None  # samples to look at; then this attempt trains nothing
    launch: str | None = None
    reads_digests: tuple[str, ...] = (SHA256,)


def read_spec(path: Path) -> Spec:
    """Read and check a spec.json. Raises SpecError."""
    try:
        raw = loads(read_regular(path))
    except OSError as error:
        raise SpecError(f"{path}: cannot be read ({error.strerror}); the supervisor writes it before it launches") from None
    except ValueError as error:
        raise SpecError(f"{path}: is not strict JSON ({error})") from None
    if not isinstance(raw, dict):
        raise SpecError(f"{path}: is not a JSON object")
    if raw.get("v", 1) != 1:
        raise SpecError(f"{path}: v: version {raw['v']!r} is not known here; this client reads version 1")
    attempt = raw.get("attempt")
    if not isinstance(attempt, int) or isinstance(attempt, bool) or attempt < 0:
        raise SpecError(f"{path}: attempt: {attempt!r} is not a whole number")
    try:
        overrides = Overrides.from_json(raw.get("overrides") or {}, f"{path}: overrides")
    except OverridesError as error:
        raise SpecError(str(error)) from None
    return Spec(
        attempt=attempt,
        argv=tuple(str(word) for word in raw.get("argv") or ()),
        env={str(key): str(value) for key, value in (raw.get("env") or {}).items()},
        resume=_read_resume(raw.get("resume"), raw.get("verified"), path),
        overrides=overrides,
        inspect=_read_inspect(raw.get("inspect"), path),
        launch=launch if isinstance(launch := raw.get("launch"), str) else None,
        reads_digests=tuple(map(str, read)) if isinstance(read := raw.get("reads_digests"), list) else (SHA256,),
    )


def _read_resume(raw: object, word: object, path: Path) -> Resume | None:
    """`word`: `verified` of the file. One that is not of this checkpoint only means that it is verified again."""
    if raw is None:
        return None
    if not isinstance(raw, dict):
        raise SpecError(f"{path}: resume: {raw!r} is neither null nor an object")
    step, where, digest = raw.get("step"), raw.get("path"), raw.get("digest")
    if not isinstance(step, int) or isinstance(step, bool) or not isinstance(where, str):
        raise SpecError(f"{path}: resume: {raw!r} needs a whole number 'step' and a string 'path'")
    if digest is not None and not isinstance(digest, str):
        raise SpecError(f"{path}: resume.digest: {digest!r} is neither null nor a string")
    is_meant = isinstance(word, dict) and digest is not None and (word.get("step"), word.get("digest")) == (step, digest)
    how = word.get("how") if is_meant and isinstance(word, dict) else None
    return Resume(step, where, digest, how if isinstance(how, str) else "")


def _read_inspect(raw: object, path: Path) -> tuple[tuple[int, int], ...] | None:
    if raw is None:
        return None
    ranges = raw.get("samples") if isinstance(raw, dict) else None
    if not isinstance(ranges, list) or not all(_is_range(pair) for pair in ranges):
        raise SpecError(f"{path}: inspect: {raw!r} is neither null nor an object with 'samples': [[start, end], …]")
    return tuple((start, end) for start, end in ranges)


def _is_range(pair: object) -> bool:
    return isinstance(pair, list) and len(pair) == 2 and all(type(end) is int for end in pair) and 0 <= pair[0] < pair[1]
