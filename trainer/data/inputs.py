"""The documents of text files, folders and JSONL files, one piece after the other, in bounded memory."""

from __future__ import annotations

import gzip
import json
import os
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from io import BufferedIOBase, BytesIO
from pathlib import Path

from ..exits import ConfigError, DataError
from .library import is_held_out, library_files

PIECE_BYTES = 1 << 20  # a longer text is encoded in pieces, cut behind a line break where there is one
JSONL = (".jsonl", ".jsonl.gz")
PACKED = (".gz", ".zst", ".xz", ".bz2", ".zip")  # their bytes would be trained on as if they were text
# What is taken from a folder. A file that is named itself is always taken.
TEXT = (
    ".txt", ".text", ".md", ".rst", ".tex", ".html", ".csv",
    ".py", ".c", ".h", ".cc", ".cpp", ".hpp", ".cu", ".rs", ".go", ".java", ".js", ".ts", ".sh", ".lua", ".jl", ".sql", ".yaml",
)  # fmt: skip

Advance = Callable[[int], None]  # called with the number of bytes read


@dataclass(frozen=True)
class Source:
    """A file, and the name it goes by in the prepared data: never where it lies on this machine."""

    path: Path
    name: str

    @property
    def is_jsonl(self) -> bool:
        return self.path.name.endswith(JSONL)


@dataclass(frozen=True)
class Piece:
    """Part of a document. `line` 0: the source is one document; else the document is that line of it."""

    source: str
    line: int
    held_out: bool
    first: bool
    last: bool
    text: bytes


@dataclass(frozen=True)
class Inputs:
    """`library`: the standard library's sources come first, the part of them that is the default corpus."""

    sources: tuple[Source, ...]
    library: Path | None
    jsonl_key: str
    held_out_every: int

    @property
    def bytes(self) -> int:
        """On disk, of the sources."""
        return sum(source.path.stat().st_size for source in self.sources)

    def pieces(self, advance: Advance) -> Iterator[Piece]:
        """Every document in order, the same each time. Raises DataError."""
        library = list(library_files(self.library, self.held_out_every)) if self.library is not None else []
        for name, text, apart in library:
            yield Piece(source=name, line=0, held_out=apart, first=True, last=True, text=text)
        number = len(library)
        if number + len(self.sources) < self.held_out_every and not any(source.is_jsonl for source in self.sources):
            for source in self.sources:
                yield from _split_file(source, self.held_out_every, advance)
            return
        for source in self.sources:
            for line, texts in _lines(source, self.jsonl_key, advance) if source.is_jsonl else [(0, _whole(source, advance))]:
                yield from _marked(source.name, line, is_held_out(number, self.held_out_every), texts)
                number += 1


def find_sources(inputs: Iterable[Path]) -> tuple[Source, ...]:
    """Files as they are named; of folders all below it with a known ending, sorted, nothing hidden. Raises DataError, and
    ConfigError for one that is packed."""
    found: list[Source] = []
    for path in inputs:
        if path.is_dir():
            inside = _below(path)
            if not inside:
                raise DataError(f"{path}: holds no file that ends in {' '.join((*TEXT, *JSONL))}; name files themselves")
            found += inside
        elif path.is_file():
            if path.name.endswith(PACKED) and not path.name.endswith(JSONL):
                raise ConfigError(f"{path}: is packed, and only .jsonl.gz is unpacked here; unpack it, and name what was in it")
            found.append(Source(path, path.name))
        else:
            raise DataError(f"{path}: does not exist; name text files, .jsonl files or folders of them")
    return tuple(found)


def _below(root: Path) -> list[Source]:
    def refuse(error: OSError) -> None:
        raise DataError(f"{error.filename}: cannot be read ({error.strerror}); give it to this user, or name what to take")

    found = []
    for folder, folders, names in os.walk(root, onerror=refuse):
        folders[:] = [name for name in folders if not name.startswith((".", "__pycache__"))]
        paths = [Path(folder, name) for name in names if name.endswith(TEXT + JSONL) and not name.startswith(".")]
        found += [Source(path, f"{root.resolve().name}/{path.relative_to(root).as_posix()}") for path in paths]
    return sorted(found, key=lambda source: source.name)


def _marked(source: str, line: int, held_out: bool, texts: Iterable[bytes]) -> Iterator[Piece]:
    """The pieces of one document; even an empty one has one."""
    before, first = None, True
    for text in texts:
        if before is not None:
            yield Piece(source=source, line=line, held_out=held_out, first=first, last=False, text=before)
            first = False
        before = text
    yield Piece(source=source, line=line, held_out=held_out, first=first, last=True, text=before or b"")


def _whole(source: Source, advance: Advance) -> Iterator[bytes]:
    with _opened(source) as file:
        yield from _pieces_of(file.read, advance)


def _split_file(source: Source, every: int, advance: Advance) -> Iterator[Piece]:
    """Too few files to hold whole ones out: the end of each is."""
    with _opened(source) as file:
        left = _border(file, source.path.stat().st_size, every)
        file.seek(0)

        def read(count: int) -> bytes:
            nonlocal left
            text = file.read(min(count, left))
            left -= len(text)
            return text

        yield from _marked(source.name, 0, False, _pieces_of(read, advance))
        yield from _marked(source.name, 0, True, _pieces_of(file.read, advance))


def _border(file: BufferedIOBase, size: int, every: int) -> int:
    """About a part of so many from the end: behind the next line break, or else between two characters of UTF-8."""
    border = size - size // every
    file.seek(border)
    ahead = file.read(min(PIECE_BYTES, (size - border) // 2))
    inside = next((place for place, byte in enumerate(ahead) if not 0x80 <= byte < 0xC0), 0)
    return border + (ahead.find(b"\n") + 1 or inside)


def _pieces_of(read: Callable[[int], bytes], advance: Advance) -> Iterator[bytes]:
    rest = b""
    while text := read(PIECE_BYTES):
        advance(len(text))
        rest += text
        while len(rest) >= PIECE_BYTES:
            end = _good_end(rest)
            yield rest[:end]
            rest = rest[end:]
    if rest:
        yield rest


def _good_end(text: bytes) -> int:
    """Behind the last line break among the first PIECE_BYTES, or else where no UTF-8 character is cut in two."""
    end = text.rfind(b"\n", 0, PIECE_BYTES) + 1
    if end:
        return end
    for back in range(1, 4):
        if text[PIECE_BYTES - back] >= 0xC0:  # where a character of several bytes begins
            return PIECE_BYTES - back
    return PIECE_BYTES


def _lines(source: Source, key: str, advance: Advance) -> Iterator[tuple[int, Iterator[bytes]]]:
    """Number and text of each line that is not blank."""
    with _opened(source) as raw:
        is_packed = source.path.name.endswith(".gz")
        file = gzip.GzipFile(fileobj=raw) if is_packed else raw
        done = 0
        try:
            for number, line in enumerate(file, start=1):
                advance(raw.tell() - done)
                done = raw.tell()
                if line.strip():
                    text = _text_in(line, key, f"{source.path}:{number}")
                    yield number, _pieces_of(BytesIO(text).read, lambda _: None)
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise DataError(f"{source.path}: cannot be unpacked ({error}); fetch it again") from None


def _text_in(line: bytes, key: str, place: str) -> bytes:
    try:
        content = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{place}: is no JSON ({error}); each line must be an object with a text") from None
    text = content.get(key) if isinstance(content, dict) else None
    if not isinstance(text, str):
        keys = sorted(content) if isinstance(content, dict) else type(content).__name__
        raise ConfigError(f"{place}: has no text under {key!r} but {keys}; name the right one with --jsonl-key")
    return text.encode("utf-8", "replace")  # JSON can spell half a surrogate pair


def _opened(source: Source) -> BufferedIOBase:
    try:
        return source.path.open("rb")
    except OSError as error:
        raise DataError(f"{source.path}: cannot be read ({error.strerror}); give it to this user, or leave it out") from None
