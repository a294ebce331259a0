"""A small run on disk, and places to mirror it to: a directory, fsspec's memory, and one that dies at any call."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from sentinel.client.checkpoint_files import MANIFEST, name_of
from sentinel.client.file_digest import SHA256, TREE, digest_of
from sentinel.client.run_layout import attempt_folder, stream_path
from sentinel.journal.run_file import PolicyReference, RunFile, write_run_file
from sentinel.journal.session import take_run
from sentinel.mirrors.pushing import Mirroring
from sentinel.mirrors.settings import MirrorSettings
from sentinel.mirrors.stores import MirrorError, Store
from sentinel.model import facts as f
from sentinel.model.attempts import SettingsInForce


def row(step: int) -> str:
    return json.dumps({"kind": "step", "step": step, "loss": 2.0}) + "\n"


def lay_checkpoint(run_dir: Path, step: int, content: str = "") -> str:
    """Commit one; its digest."""
    folder = run_dir / "checkpoints" / name_of(step)
    (folder / "shards").mkdir(parents=True)
    files = {"model.bin": f"model {step} {content}".encode() * 50, "shards/rank 0.bin": f"moments {step}".encode() * 30}
    for name, data in files.items():
        (folder / name).write_bytes(data)
    algorithms = dict.fromkeys(files, SHA256) | {"shards/rank 0.bin": TREE}
    listed = {name: {"bytes": len(data), of: digest_of(folder / name, of)} for (name, data), of in
              zip(files.items(), algorithms.values(), strict=True)}
    text = json.dumps({"step": step, "attempt": 1, "samples_end": step, "files": listed}).encode()
    (folder / MANIFEST).write_bytes(text)
    return hashlib.sha256(text).hexdigest()


@dataclass
class SmallRun:
    """A run whose attempt 1 trains, as its supervisor leaves it when it is killed."""

    run_dir: Path
    run_id: str = "gpt"
    at_s: float = 100.0

    def begin(self) -> SmallRun:
        self.run_dir.mkdir(parents=True)
        reference = PolicyReference("default", "0" * 64, "default")
        created = "2026-11-25T00:00:00+00:00"
        write_run_file(self.run_dir, RunFile(self.run_id, ("train",), str(self.run_dir.parent), reference, "local", created))
        self.facts(
            f.RunCreated(self.run_id, ("train",), "/", "default", "0", False, ()),
            f.AttemptLaunched(1, None, SettingsInForce(), "first launch"),
        )
        logs = attempt_folder(self.run_dir, 1) / "logs"
        logs.mkdir(parents=True)
        (logs / "rank-00000.err").write_text("hello\n")
        (attempt_folder(self.run_dir, 1) / "spec.json").write_text('{"argv": ["train"]}')
        self.steps(1, 20)
        return self

    def facts(self, *facts: f.Fact) -> None:
        self.at_s += 1.0
        with take_run(self.run_dir) as session:
            session.journal.append(self.at_s, facts, session.epoch)

    def steps(self, first: int, last: int) -> None:
        with stream_path(self.run_dir, 1).open("a") as stream:
            stream.writelines(row(step) for step in range(first, last + 1))

    def checkpoint(self, step: int, content: str = "") -> SmallRun:
        digest = lay_checkpoint(self.run_dir, step, content)
        self.facts(f.CheckpointCommitted(1, step, f"checkpoints/{name_of(step)}", step, digest))
        return self

    def mirroring(self, to: str, every: str = "10 steps", keep: str = "2") -> Mirroring:
        return Mirroring(self.run_dir, MirrorSettings.of("test", {"to": to, "every": every, "keep": keep}), self.run_id)


@dataclass
class Counted:
    """A store that counts its calls that change something, and dies at one of them: before it, or (an object) with half of it."""

    store: Store
    dies_at: int | None = None
    half: bool = False
    calls: int = 0
    put_names: list[str] = field(default_factory=list)

    @property
    def where(self) -> str:
        return self.store.where

    def _call(self) -> bool:
        self.calls += 1
        return self.calls == self.dies_at

    def put(self, name: str, blocks: Iterable[bytes]) -> None:
        if self._call():
            if self.half:
                data = b"".join(blocks)
                self.store.put(name, [data[: len(data) // 2]])
            raise MirrorError("the network is away")
        self.put_names.append(name)
        self.store.put(name, blocks)

    def read(self, name: str, offset: int = 0) -> Iterator[bytes]:
        return self.store.read(name, offset)

    def size(self, name: str) -> int | None:
        return self.store.size(name)

    def names(self, folder: str = "") -> list[str]:
        return self.store.names(folder)

    def delete(self, name: str) -> None:
        if self._call():
            raise MirrorError("the network is away")
        self.store.delete(name)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}
