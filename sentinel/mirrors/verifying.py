"""`sentinel mirror verify`: every byte of a mirror read back. What does not hold is taken out of the record, and is sent anew."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from sentinel.checkpoints.manifest import MANIFEST, listed_files
from sentinel.client.strict_json import loads
from sentinel.mirrors.command import mirror_settings, only_pusher
from sentinel.mirrors.pushing import Mirroring
from sentinel.mirrors.record import CheckpointThere
from sentinel.mirrors.stores import Digest, NotThere, Store, digest_of, listed
from sentinel.mirrors.stretches import find_damaged, read_list


def verify_mirror(run_dir: Path, asked: Mapping[str, str] | None) -> tuple[list[str], bool]:
    """A line for each part and each damage, and whether all of it holds. Raises UsageError, MirrorError."""
    settings, run_id = mirror_settings(run_dir, asked)
    with only_pusher(run_dir, None):
        mirroring = Mirroring(run_dir, settings, run_id)
        store = mirroring.open()
        record = mirroring.claimed(store)
        findings: list[str] = []
        journal, streams = record.journal, record.streams
        if journal is not None and not _holds(store, journal.name, Digest(journal.size, journal.sha256)):
            findings.append(f"journal: {journal.name} is damaged or gone")
            journal = None
        files = None if streams is None else read_list(store, streams)
        if streams is not None and (files is None or (damaged := find_damaged(store, files))):
            findings.append(f"streams: {', '.join(sorted(damaged)) if files is not None else streams.name}: damaged or gone")
        bad = {one.digest: why for one in record.checkpoints if (why := _damage(store, one))}
        findings += [f"checkpoint of step {one.step}: {bad[one.digest]}" for one in record.checkpoints if one.digest in bad]
        if findings:
            kept = tuple(one for one in record.checkpoints if one.digest not in bad)
            mirroring.change(store, lambda now: replace(now, journal=journal, checkpoints=kept))
            return [*findings, f"sent anew by the next push: sentinel mirror push {run_dir}"], False
    steps = ", ".join(str(one.step) for one in record.checkpoints) or "none"
    entries = record.journal.entries if record.journal is not None else 0
    return [f"{entries} entries, {len(files or {})} files, checkpoints {steps}: every byte is as it was sent"], True


def _holds(store: Store, name: str, expected: Digest) -> bool:
    try:
        return digest_of(store.read(name), expected.algorithm) == expected
    except NotThere:
        return False


def _damage(store: Store, there: CheckpointThere) -> str:
    """What is wrong with a checkpoint; empty when nothing is."""
    try:
        data = b"".join(store.read(f"{there.folder}/{MANIFEST}"))
    except NotThere:
        return f"{MANIFEST} is gone"
    if hashlib.sha256(data).hexdigest() != there.digest:
        return f"{MANIFEST} is damaged"
    for file in listed_files(loads(data)):
        if not _holds(store, f"{there.folder}/{file.name}", listed(file)):
            return f"{file.name} is damaged or gone"
    return ""
