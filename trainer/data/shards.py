"""Our own format: a folder of raw token files and a manifest that names them. README.md describes it.

Opening checks sizes alone, which costs little; `verify` reads every byte.
"""

from __future__ import annotations

import hashlib
import json
from bisect import bisect_right
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ..exits import DataError
from .corpus import Corpus, Place
from .text import Bytes, JsonTokenizer
from .tokens import Tokens, mapped

MANIFEST = "manifest.json"
VERSION: Literal[1] = 1
DtypeName = Literal["uint8", "uint16", "uint32"]
DTYPES: dict[DtypeName, np.dtype[Any]] = {"uint8": np.dtype("u1"), "uint16": np.dtype("<u2"), "uint32": np.dtype("<u4")}
ROW = np.dtype("<i8")  # of the document index: first token, number of the source, line in it (0: the source is one document)
ROW_WIDTH = 3

Count = Annotated[int, Field(ge=0)]
PlainName = Annotated[str, Field(pattern=r"^\w[\w.-]*$")]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class Record(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class File(Record):
    """A file of the folder. `tokens` only for shards."""

    file: PlainName
    bytes: Count
    sha256: Sha256
    tokens: Count | None = None


class Documents(Record):
    train: Count
    held_out: Count


class Manifest(Record):
    """`tokenizer`: its file in the folder; null means bytes. `end_of_document`: the token after each document, if any."""

    v: Literal[1] = VERSION
    dtype: DtypeName
    vocab_size: int = Field(ge=2)
    tokenizer: File | None
    end_of_document: Count | None
    held_out_every: int = Field(ge=2)
    documents: Documents
    train: list[File]
    held_out: list[File]
    index: File
    sources: File

    @property
    def files(self) -> list[File]:
        rest = [self.index, self.sources]
        return [*self.train, *self.held_out, *rest, *([self.tokenizer] if self.tokenizer is not None else [])]

    def tokens(self, split: Literal["train", "held_out"]) -> int:
        return sum(file.tokens or 0 for file in getattr(self, split))


def read_manifest(folder: Path) -> tuple[Manifest, str]:
    """The manifest and its SHA-256. Raises DataError, also for one of a newer version."""
    path = folder / MANIFEST
    try:
        text = path.read_bytes()
        content = json.loads(text)
        version = content["v"]
        if version != VERSION:
            raise DataError(f"{path}: version {version!r}, this program reads {VERSION}; update it, or prepare the data anew")
        return Manifest.model_validate(content), hashlib.sha256(text).hexdigest()
    except FileNotFoundError:
        raise DataError(
            f"{folder}: holds no {MANIFEST}, so it is no folder of prepared tokens or its preparation was cut short; "
            f"python -m {__package__} prepare INPUT --out {folder}"
        ) from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from None
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise DataError(f"{path}: {place}: {first['msg']} ({first['input']!r}); it was changed: prepare the data anew") from None
    except (ValueError, KeyError, TypeError):
        raise DataError(f"{path}: is no manifest of prepared tokens; name a folder that trainer.data prepared") from None


def open_shards(folder: Path, seq_len: int) -> Corpus:
    """Raises DataError for what is missing, cut short or of another dtype."""
    manifest, digest = read_manifest(folder)
    check_sizes(folder, manifest)
    dtype = DTYPES[manifest.dtype]
    train, held_out = (
        Tokens([mapped(folder / file.file, dtype) for file in files]) for files in (manifest.train, manifest.held_out)
    )
    text = Bytes() if manifest.tokenizer is None else JsonTokenizer(folder / manifest.tokenizer.file)
    sources_of_tokens = SourceIndex(folder, manifest)
    return Corpus(
        train=train,
        held_out=held_out,
        seq_len=seq_len,
        vocab_size=manifest.vocab_size,
        digest=digest,
        text=text,
        place=sources_of_tokens.of,
        origin=str(folder),
    )


def check_sizes(folder: Path, manifest: Manifest) -> None:
    """Check that every file exists with the manifest's size. Raises DataError."""
    size = DTYPES[manifest.dtype].itemsize
    for file in manifest.train + manifest.held_out:
        if file.bytes != (file.tokens or 0) * size:
            raise DataError(
                f"{folder / MANIFEST}: {file.file}: {file.bytes} bytes are not {file.tokens} tokens of {manifest.dtype}, "
                f"which take {(file.tokens or 0) * size}; the dtype or the file is another's: prepare the data anew"
            )
    for file in manifest.files:
        path = folder / file.file
        try:
            found = path.stat().st_size
        except FileNotFoundError:
            raise DataError(f"{path}: is missing, {MANIFEST} lists it; copy it here again, or prepare the data anew") from None
        except OSError as error:
            raise DataError(f"{path}: cannot be read ({error.strerror})") from None
        if found != file.bytes:
            raise DataError(f"{path}: has {found} bytes, {MANIFEST} says {file.bytes}; copy it again, or prepare the data anew")


class SourceIndex:
    """Where training tokens come from; the index is read at the first question."""

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        self._folder = folder
        self._manifest = manifest

    def of(self, token: int) -> Place:
        """Source (with its line, where each line is a document) and token in it."""
        row = bisect_right(self._index, token, key=lambda row: row[0]) - 1
        start, source, line = map(int, self._index[row])
        return f"{self._sources[source]}{f':{line}' if line else ''}", token - start

    @cached_property
    def _index(self) -> np.ndarray:
        return mapped(self._folder / self._manifest.index.file, ROW).array.reshape(-1, ROW_WIDTH)

    @cached_property
    def _sources(self) -> list[str]:
        names: list[str] = json.loads((self._folder / self._manifest.sources.file).read_bytes())
        return names
