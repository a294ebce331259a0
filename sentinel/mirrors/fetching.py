"""What lies on a mirror, fetched into a directory: everything is compared with its digest on the way, and what does not hold is
named and left out. What is there already as it should be, from a fetch that was cut off, is not fetched again."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory

from sentinel.checkpoints.manifest import MANIFEST, NotACheckpoint, listed_files, read_manifest
from sentinel.checkpoints.verification import verify_checkpoint
from sentinel.client.atomic_file import ensure_directory
from sentinel.client.checkpoint_files import name_of
from sentinel.client.closed_files import closed
from sentinel.client.file_digest import new_hasher
from sentinel.client.regular_file import regular
from sentinel.client.run_layout import CHECKPOINTS, JOURNAL_NAME
from sentinel.client.strict_json import printable
from sentinel.errors import UsageError
from sentinel.journal.head import Chain
from sentinel.journal.salvage import WholeEntries, read_whole
from sentinel.mirrors.opening import open_store
from sentinel.mirrors.record import CheckpointThere, JournalThere, MirrorRecord, find_mirror, read_records
from sentinel.mirrors.settings import check_address, is_address, plain_place
from sentinel.mirrors.stores import Digest, MirrorError, Store, blocks_of, digest_of, listed
from sentinel.mirrors.streams_part import is_left_out
from sentinel.mirrors.stretches import BundleStretch, Files, read_stretches

PART = ".fetched"


def open_mirror_at(place: str) -> tuple[Store, MirrorRecord]:
    """A mirror, by its own folder or by the only one below. Raises UsageError where there is none, MirrorError."""
    place = plain_place(check_address("--from", place))
    return find_mirror(open_store(place), lambda name: open_store(place, name))


@contextmanager
def journal_copy(place: str | None) -> Iterator[Path | None]:
    """What `sentinel journal salvage --from` names, as a file or folder of this machine; of a mirror its newest copy that holds.

    Raises UsageError, MirrorError.
    """
    path = None if place is None or is_address(place) else Path(place)
    if place is None or (path is not None and (path.is_file() or (path / JOURNAL_NAME).exists() or not path.exists())):
        yield path
        return
    store, _ = open_mirror_at(place)
    with TemporaryDirectory(prefix="sentinel-") as folder:
        fetch_journal(store, Path(folder))
        yield Path(folder)


def fetch_object(store: Store, name: str, path: Path, expected: Digest) -> None:
    """Raises MirrorError where it is not there or not as it was sent, OSError where it cannot be written."""
    if path.exists() and _digest_here(path, expected.algorithm) == expected:
        return
    ensure_directory(path.parent)
    aside = path.with_name(f"{path.name}{PART}")
    hasher, size = new_hasher(expected.algorithm), 0
    with open(aside, "wb", opener=closed) as file:
        for block in store.read(name):
            hasher.update(block)
            size += len(block)
            file.write(block)
        file.flush()
        os.fsync(file.fileno())
    found = Digest(size, hasher.hexdigest(), expected.algorithm)
    if found != expected:
        aside.unlink()
        raise MirrorError(f"{store.where}/{name}: is not as it was sent ({found.size} bytes, {expected.size} were)")
    os.rename(aside, path)


def fetch_journal(store: Store, folder: Path) -> tuple[MirrorRecord, JournalThere, WholeEntries, list[str]]:
    """The newest copy that holds, as folder/sentinel.db; the record that names it, and what is wrong with newer ones.

    Raises MirrorError where none does.
    """
    wrong: list[str] = []
    path, tried = folder / JOURNAL_NAME, set()
    for record, there in _journals(store):
        if there.name in tried:
            continue
        tried.add(there.name)
        try:
            fetch_object(store, there.name, path, Digest(there.size, there.sha256))
        except MirrorError as error:
            wrong.append(str(error))
            continue
        whole = read_whole(path)
        if whole.chain == Chain(there.entries, there.digest):
            return record, there, whole, wrong
        wrong.append(f"{store.where}/{there.name}: its entries are not those that were sent")
        path.unlink()
    raise MirrorError(f"{store.where}: holds no copy of the journal that can be used{': ' if wrong else ''}{'; '.join(wrong)}")


def _journals(store: Store) -> Iterator[tuple[MirrorRecord, JournalThere]]:
    for record in read_records(store):
        for there in (record.journal, record.journal_before):
            if there is not None:
                yield record, there


def fetch_checkpoint(store: Store, there: CheckpointThere, run_dir: Path) -> str:
    """Into checkpoints/, the manifest first for its digests; its path, relative to the run. Raises MirrorError, OSError."""
    name = name_of(there.step)
    folder = run_dir / CHECKPOINTS / name
    data = b"".join(store.read(f"{there.folder}/{MANIFEST}"))
    if hashlib.sha256(data).hexdigest() != there.digest:
        raise MirrorError(f"{store.where}/{there.folder}/{MANIFEST}: is not as it was sent")
    fetch_object(store, f"{there.folder}/{MANIFEST}", folder / MANIFEST, Digest(len(data), there.digest))
    try:
        files = list(listed_files(read_manifest(folder)[0]))
    except (NotACheckpoint, ValueError) as error:
        raise MirrorError(f"{store.where}/{there.folder}: {error}") from error
    for file in files:
        fetch_object(store, f"{there.folder}/{file.name}", folder / file.name, listed(file))
    checked = verify_checkpoint(folder)
    if not checked.ok:
        raise MirrorError(f"{store.where}/{there.folder}: {checked.reason}")
    return f"{CHECKPOINTS}/{name}"


def fetch_files(store: Store, files: Files, run_dir: Path) -> list[str]:
    """The files of the run directory; a line for each that is not whole, of which the beginning comes along. Raises OSError,
    MirrorError."""
    wrong: dict[str, str] = {}
    for path, there in files.items():
        if not there.stretches:
            _write_at(_below(run_dir, path), 0, b"")
    for bundle, parts in sorted(_by_bundle(files).items()):  # by number: a file's parts in their order
        places = _places(files, bundle)
        for part, is_whole, data in read_stretches(store, bundle, parts):
            path, at = places[part.offset]
            if path in wrong:
                continue
            if not is_whole or not _write_at(_below(run_dir, path), at, data):
                wrong[path] = f"{path}: what followed byte {at} is damaged or gone ({store.where}/{bundle})"
    return list(wrong.values())


def _by_bundle(files: Files) -> dict[str, list[BundleStretch]]:
    found: dict[str, list[BundleStretch]] = {}
    for there in files.values():
        for one in there.stretches:
            found.setdefault(one.bundle, []).append(one)
    return found


def _places(files: Files, bundle: str) -> dict[int, tuple[str, int]]:
    """By the offset in the bundle: the file that a stretch belongs to, and where in it."""
    places: dict[int, tuple[str, int]] = {}
    for path, there in files.items():
        at = 0
        for one in there.stretches:
            if one.bundle == bundle:
                places[one.offset] = (path, at)
            at += one.size
    return places


def _write_at(path: Path, at: int, data: bytes) -> bool:
    """At the end of what was written before; False where that is not all there."""
    ensure_directory(path.parent)
    if at and (not path.exists() or path.stat().st_size != at):
        return False
    with open(path, "ab" if at else "wb", opener=closed) as file:
        file.write(data)
    return True


def _below(run_dir: Path, name: str) -> Path:
    """Raises UsageError for a name that no list of ours has: one that leads out of the run directory, or to what is fetched and
    compared by itself."""
    where = PurePosixPath(name)
    if where.is_absolute() or ".." in where.parts or not where.parts or "\0" in name or name != printable(name):
        raise UsageError(f"the mirror names a file {name!r}, which lies outside the run directory: sentinel did not write it")
    if is_left_out(where):
        raise UsageError(f"the mirror lists {name!r} among the run's files, where it has no place: sentinel did not write it")
    return run_dir / name


def _digest_here(path: Path, algorithm: str) -> Digest:
    with open(path, "rb", opener=regular) as file:
        return digest_of(blocks_of(file), algorithm)
