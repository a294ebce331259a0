"""What people hand to a reader of logs and is none: each is named as what it is, with what to do instead."""

from __future__ import annotations

import re
from pathlib import Path

LFS = b"version https://git-lfs.github.com/spec/"
_ANNEX = re.compile(rb"(?:/annex/objects/|\.git/annex/objects/)\S{10,}\s*$")
_PAGE = re.compile(rb"^\s*(?:<!doctype\s+html|<html[\s>]|<\?xml)", re.IGNORECASE)
_TITLE = re.compile(rb"<title[^>]{0,100}>([^<]{1,200})", re.IGNORECASE)
_ENCODED = {b"\xff\xfe": "UTF-16", b"\xfe\xff": "UTF-16"}
_PACKED = {b"\x28\xb5\x2f\xfd": "zstd -d", b"PK\x03\x04": "unzip", b"7z\xbc\xaf": "7z x"}
_BINARY = {
    b"PAR1": "a Parquet table; write it as CSV",
    b"SQLite format 3\0": "an SQLite database; export the metrics as CSV, with a column step",
    b"\x89HDF": "an HDF5 file; write its metrics as CSV",
    b"%PDF": "a PDF; name the log itself",
    b"\x80\x02": "pickled Python objects; write the metrics as CSV",
    b"\x80\x04": "pickled Python objects; write the metrics as CSV",
    b"\x80\x05": "pickled Python objects; write the metrics as CSV",
    b"\x93NUMPY": "a NumPy array; write it as CSV, with a header and a column step",
}
STRANGE_SHARE = 0.02  # of control characters, from which on a file without a zero byte is no text


def why_no_log(path: Path, head: bytes) -> str:
    """In a sentence, or empty where the head may be that of a log of text."""
    why = why_no_text(head) or ("a binary file, and no TensorBoard event file" if b"\0" in head else "")
    return f"{path}: {why}" if why else ""


def why_no_text(head: bytes) -> str:
    """What the file is, and what to do, where it holds no lines of a log; empty where it may."""
    if stand_in := what_stands_for_it(head):
        return stand_in
    if _PAGE.match(head.removeprefix(b"\xef\xbb\xbf")):
        title = _TITLE.search(head)
        named = f" ({' '.join(title[1].decode(errors='replace').split())})" if title is not None else ""
        return f"a page of HTML or XML{named} and no log; fetch the file itself"
    mark = _ENCODED.get(head[:2])
    if mark is not None:
        return f"{mark} text; make a copy with: iconv -f {mark} -t UTF-8"
    known = next((what for magic, what in _BINARY.items() if head.startswith(magic)), None)
    if known is not None:
        return known
    return "a binary file, and no TensorBoard event file" if _is_strange(head) else ""


def what_stands_for_it(head: bytes) -> str:
    """What the file is where it only stands for a log: a pointer, or packed data that we do not unpack; empty otherwise."""
    if head.startswith(LFS):
        return "is a Git LFS pointer and not the file itself; fetch the file with: git lfs pull"
    if len(head) < 1000 and _ANNEX.search(head):
        return "is a git-annex pointer and not the file itself; fetch the file with: git annex get"
    command = next((command for magic, command in _PACKED.items() if head.startswith(magic)), None)
    return f"packed data; unpack a copy with: {command}" if command is not None else ""


def _is_strange(head: bytes) -> bool:
    control = sum(head.count(byte) for byte in range(32) if byte not in b"\t\n\r\x0b\x0c\x1b\x08")
    return control > STRANGE_SHARE * len(head)
