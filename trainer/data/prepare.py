"""Documents to shards. The same input gives the same bytes; a preparation cut short leaves no manifest, so nothing opens it."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Literal

import numpy as np

from ..exits import ConfigError, DataError
from .inputs import Advance, Inputs, Piece
from .shards import DTYPES, MANIFEST, ROW, Documents, File, Manifest
from .text import Bytes, JsonTokenizer, train_tokenizer

TOKENIZER = "tokenizer.json"
BATCH_BYTES = 8 << 20  # of text encoded at once, or
BATCH_PIECES = 4096  # so many pieces
TRAINING_BYTES_MAX = 1 << 30  # of text a tokenizer is trained on: its statistics no longer change


@dataclass(frozen=True)
class PrepareOptions:
    """What to make: `tokenizer` is bytes, a tokenizer.json, or train:VOCAB; `end` names the token behind each document."""

    tokenizer: str = "bytes"
    end: str | None = None
    shard_tokens: int = 1 << 28


class Writer:
    """A file written beside its place, digested on the way, and renamed when it is whole."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._aside = path.with_name(f"{path.name}.partial")
        self._file: BinaryIO = self._aside.open("xb")
        self._digest = hashlib.sha256()
        self.bytes = 0

    def write(self, content: bytes) -> None:
        self._file.write(content)
        self._digest.update(content)
        self.bytes += len(content)

    def close(self, tokens: int | None = None) -> File:
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        self._aside.rename(self._path)
        return File(file=self._path.name, bytes=self.bytes, sha256=self._digest.hexdigest(), tokens=tokens)


class Split:
    """The shards of one split, begun as they fill up."""

    def __init__(self, folder: Path, name: Literal["train", "held_out"], dtype: np.dtype, shard_tokens: int) -> None:
        self._folder, self._name, self._dtype, self._shard_tokens = folder, name, dtype, shard_tokens
        self._writer: Writer | None = None
        self.files: list[File] = []
        self.tokens = 0
        self.documents = 0

    def write(self, tokens: np.ndarray) -> None:
        while len(tokens):
            if self._writer is None:
                self._writer = Writer(self._folder / f"{self._name}-{len(self.files):05d}.bin")
            room = self._shard_tokens - self._writer.bytes // self._dtype.itemsize
            self._writer.write(tokens[:room].astype(self._dtype).tobytes())
            self.tokens += min(room, len(tokens))
            if room <= len(tokens):
                self.close()
            tokens = tokens[room:]

    def close(self) -> None:
        if self._writer is not None:
            self.files.append(self._writer.close(self._writer.bytes // self._dtype.itemsize))
            self._writer = None


def prepare(inputs: Inputs, folder: Path, options: PrepareOptions, train_advance: Advance, advance: Advance) -> Manifest:
    """Write everything `inputs` holds into an empty or new folder; on an error it is empty again. Raises DataError, ConfigError
    and OSError."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"--out {folder}: cannot be made ({error.strerror}); name a new folder") from None
    if any(folder.iterdir()):
        raise ConfigError(f"--out {folder}: is not empty (one cut short leaves files); name a new folder, or empty this one")
    try:
        return _write(inputs, folder, options, train_advance, advance)
    except OSError as error:
        _clear(folder)
        raise DataError(f"--out {folder}: cannot be written ({error.strerror}); make room, or name another folder") from None
    except BaseException:
        _clear(folder)
        raise


def _clear(folder: Path) -> None:
    """It was empty before, so all of it is ours."""
    for path in folder.iterdir():
        path.unlink()


def _write(inputs: Inputs, folder: Path, options: PrepareOptions, train_advance: Advance, advance: Advance) -> Manifest:
    text, tokenizer = _text(inputs, folder, options, train_advance)
    end, vocab_size = text.end_of_document, text.vocab_size
    kind = next(name for name, dtype in DTYPES.items() if vocab_size - 1 <= np.iinfo(dtype).max)
    names: tuple[Literal["train"], Literal["held_out"]] = ("train", "held_out")
    splits = [Split(folder, name, DTYPES[kind], options.shard_tokens) for name in names]
    index = Writer(folder / "documents.bin")
    sources: dict[str, int] = {}  # name → number
    for batch in _batches(inputs.pieces(advance)):
        for piece, tokens in zip(batch, text.encode([piece.text for piece in batch]), strict=True):
            split = splits[piece.held_out]
            if piece.first and piece.text:
                split.documents += 1
                if not piece.held_out:
                    source = sources.setdefault(piece.source, len(sources))
                    index.write(np.array([split.tokens, source, piece.line], ROW).tobytes())
            if len(tokens) and int(tokens.max()) >= vocab_size:
                raise DataError(f"{piece.source}: token {tokens.max()} is not below the tokenizer's {vocab_size}")
            split.write(tokens)
            if piece.last and end is not None and (piece.text or not piece.first):
                split.write(np.array([end]))
    total = sum(split.documents for split in splits)
    for split, name in zip(splits, ("to train on", "held out"), strict=True):
        split.close()
        if not split.tokens:
            raise DataError(f"{folder}: no text is {name}; give it more documents, or --held-out-every {max(2, total)}")
    source_names = Writer(folder / "sources.json")
    source_names.write(json.dumps(list(sources), indent=0).encode())
    manifest = Manifest(
        dtype=kind,
        vocab_size=vocab_size,
        tokenizer=tokenizer,
        end_of_document=end,
        held_out_every=inputs.held_out_every,
        documents=Documents(train=splits[0].documents, held_out=splits[1].documents),
        train=splits[0].files,
        held_out=splits[1].files,
        index=index.close(),
        sources=source_names.close(),
    )
    _commit(folder, manifest)
    return manifest


def _text(inputs: Inputs, folder: Path, options: PrepareOptions, advance: Advance) -> tuple[Bytes | JsonTokenizer, File | None]:
    """What encodes, and its file in the folder."""
    wanted = options.tokenizer
    if wanted == "bytes":
        if options.end is not None:
            raise ConfigError(f"--end-of-document {options.end!r}: --tokenizer bytes has no token left for it; leave it out")
        return Bytes(), None
    path = folder / TOKENIZER
    kind, _, size = wanted.partition(":")
    if kind == "train":
        if not size.isdecimal():
            raise ConfigError(f"--tokenizer {wanted}: write train:VOCAB with a number of tokens, as train:8192")
        train_tokenizer(_training_texts(inputs, advance), int(size), path)
        content = path.read_bytes()
        path.unlink()
    else:
        try:
            content = Path(wanted).read_bytes()
        except OSError as error:
            raise ConfigError(
                f"--tokenizer {wanted}: cannot be read ({error.strerror}); it is bytes, a tokenizer.json, or train:VOCAB"
            ) from None
    writer = Writer(path)
    writer.write(content)
    return JsonTokenizer(path, options.end), writer.close()


def _training_texts(inputs: Inputs, advance: Advance) -> Iterator[bytes]:
    """What is trained on, up to TRAINING_BYTES_MAX: held-out text must not shape the tokenizer either."""
    left = TRAINING_BYTES_MAX
    for piece in inputs.pieces(advance):
        if left <= 0:
            return
        if not piece.held_out:
            left -= len(piece.text)
            yield piece.text


def _batches(pieces: Iterator[Piece]) -> Iterator[list[Piece]]:
    batch: list[Piece] = []
    size = 0
    for piece in pieces:
        batch.append(piece)
        size += len(piece.text)
        if size >= BATCH_BYTES or len(batch) >= BATCH_PIECES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _commit(folder: Path, manifest: Manifest) -> None:
    """The manifest is the last file; with it the data exists."""
    writer = Writer(folder / MANIFEST)
    writer.write((manifest.model_dump_json(indent=1, exclude_none=False) + "\n").encode())
    writer.close()
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
