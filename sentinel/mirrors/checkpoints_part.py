"""Checkpoints on the mirror, file by file with the digests of their manifest, the manifest last.

Which one: the newest that a run may resume from, once it lies `every` steps beyond the newest that is there. One that was begun
is completed first: where the network is slower than the training the newest would never be whole. What came across and was read
back is written down, so that a killed process sends none of it twice; what nobody wrote down is read and compared first.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from sentinel.checkpoints.manifest import MANIFEST, NotACheckpoint, listed_files, read_manifest
from sentinel.client.atomic_file import write_atomically
from sentinel.client.regular_file import NotRegular, read_regular, regular
from sentinel.client.strict_json import dumps, loads
from sentinel.mirrors.record import CheckpointThere, MirrorRecord
from sentinel.mirrors.stores import Digest, MirrorError, Store, blocks_of, digest_of, listed, send
from sentinel.model.state import Checkpoint, RunState
from sentinel.plan.trust import judge_trust
from sentinel.run_files.mirror_standing import mirror_folder

FOLDER = "checkpoints"
GOOD = ("candidate", "verified", "proven")


class Unfit(Exception):
    """This checkpoint cannot be sent, and another may: it is damaged, or was deleted meanwhile."""


class Interrupted(Exception):
    """Asked to end between two files."""


def good_checkpoints(state: RunState) -> list[Checkpoint]:
    """Those that the run may resume from, by rising step."""
    found = [trust.checkpoint for trust in judge_trust(state, None) if trust.word in GOOD]
    return sorted((one for one in found if one.digest), key=lambda one: one.step)


def whole_there(record: MirrorRecord, state: RunState) -> list[CheckpointThere]:
    """Of the mirror's those that this run may still resume from, by rising step. What the journal does not know any more, it has
    pruned: that is no word against it."""
    against = {t.checkpoint.digest for t in judge_trust(state, None) if t.word in ("damaged", "suspect", "quarantined")}
    return sorted((one for one in record.checkpoints if one.digest not in against), key=lambda one: one.step)


@dataclass(slots=True)
class CheckpointsPart:
    """`unfit`: digests of checkpoints that cannot be sent, and why."""

    run_dir: Path
    every_steps: int
    keep: int
    unfit: dict[str, str] = field(default_factory=dict)

    def choose(self, state: RunState, record: MirrorRecord) -> Checkpoint | None:
        """Which one is to be sent now; None: nothing is due."""
        good = [one for one in good_checkpoints(state) if one.digest not in self.unfit]
        there = whole_there(record, state)
        known = {one.digest for one in there}
        begun, _ = self._sending("")
        for one in good:
            if one.digest == begun and one.digest not in known:
                return one
        newest = max((one.step for one in there), default=None)
        least = newest + self.every_steps if newest is not None else 0
        if state.ended and newest is not None:
            least = newest + 1
        return next((one for one in reversed(good) if one.step >= least and one.digest not in known), None)

    def send(self, store: Store, found: Checkpoint, wall_s: float, stop: threading.Event | None) -> CheckpointThere:
        """`stop`: ends it between two files. Raises MirrorError; Unfit for what cannot be sent; Interrupted."""
        assert found.digest is not None, "good_checkpoints has looked"
        place = self.run_dir / found.path
        try:
            manifest, digest = read_manifest(place)
            files = list(listed_files(manifest))
            text = read_regular(place / MANIFEST)
        except (FileNotFoundError, NotRegular, NotACheckpoint, ValueError) as error:
            raise Unfit(f"{found.path}: {error}") from error
        except OSError as error:
            raise MirrorError(f"{found.path}: cannot be read now: {error}") from error
        if digest != found.digest:
            raise Unfit(f"{found.path}: its manifest is another than the journal knows")
        folder = f"{FOLDER}/step-{found.step:08d}-{digest[:12]}"
        begun, across = self._sending(store.where)
        done = across if begun == digest else set()
        for file in files:
            if stop is not None and stop.is_set():
                raise Interrupted
            self._send_file(store, f"{folder}/{file.name}", place / file.name, listed(file), file.name in done)
            done.add(file.name)
            self._write_down(store.where, digest, done)
        send(store, f"{folder}/{MANIFEST}", [text])
        return CheckpointThere(found.step, digest, folder, sum(file.size for file in files), wall_s)

    def forget_sending(self) -> None:
        with suppress(OSError):
            self._place.unlink()

    def _send_file(self, store: Store, name: str, path: Path, expected: Digest, is_across: bool) -> None:
        if store.size(name) == expected.size and (is_across or digest_of(store.read(name), expected.algorithm) == expected):
            return
        try:
            with open(path, "rb", opener=regular) as file:
                sent = send(store, name, blocks_of(file), expected.algorithm)
        except (FileNotFoundError, NotRegular, ValueError) as error:
            raise Unfit(f"{path}: {error}") from error
        except OSError as error:  # it says nothing about the checkpoint
            raise MirrorError(f"{path}: cannot be read now: {error}") from error
        if sent != expected:
            raise Unfit(f"{path}: is not as its manifest says")

    @property
    def _place(self) -> Path:
        return mirror_folder(self.run_dir) / "sending.json"

    def _sending(self, where: str) -> tuple[str, set[str]]:
        """The digest of the checkpoint that was begun, and which of its files came across to this place."""
        with suppress(OSError, ValueError, KeyError, TypeError):
            plain = loads(read_regular(self._place))
            return str(plain["digest"]), set(map(str, plain["files"])) if plain["where"] == where else set()
        return "", set()

    def _write_down(self, where: str, digest: str, done: set[str]) -> None:
        text = dumps({"where": where, "digest": digest, "files": sorted(done)})
        with suppress(OSError):
            write_atomically(self._place, text.encode() + b"\n", durable=False)


def kept_after(
    there: Sequence[CheckpointThere], fresh: CheckpointThere, keep: int, state: RunState
) -> tuple[CheckpointThere, ...]:
    """What stays once `fresh` is whole: it, and the newest of the others that the run may resume from, `keep` in all."""
    record = MirrorRecord(0, "", "", 0, "", checkpoints=tuple(one for one in there if one.digest != fresh.digest))
    others = whole_there(record, state)
    return tuple(sorted((*others[len(others) - min(keep - 1, len(others)) :], fresh), key=lambda one: one.step))


def drop_old_checkpoints(store: Store, kept: tuple[MirrorRecord, ...], sending: str) -> None:
    """Folders that no kept record names. `sending`: the digest of one that is being sent, and stays. Raises MirrorError."""
    named = {one.folder for record in kept for one in record.checkpoints}
    for name in store.names(FOLDER):
        is_sending = bool(sending) and name.endswith(f"-{sending[:12]}")
        if f"{FOLDER}/{name}" not in named and not is_sending:
            store.delete(f"{FOLDER}/{name}")
