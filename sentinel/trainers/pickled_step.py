"""The step that a file of torch.save holds, read without loading it: the opcodes of its pickle are read and not carried out."""

from __future__ import annotations

import os
import pickletools
import zipfile
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

STEPS_KEPT = 512  # of files whose steps were read
PICKLE_BYTES_MAX = 64 << 20
STEPS_END = 10**15


def read_step_key(path: Path, key: str) -> int | None:
    """The step under a key of the dictionary that torch.save wrote. None where it is not found, and where no step can be so. A
    file that has not changed is read once."""
    with suppress(OSError):
        status = os.stat(path)
        return _step_within(path, key, status.st_size, status.st_mtime_ns)
    return None


@lru_cache(maxsize=STEPS_KEPT)
def _step_within(path: Path, key: str, _size: int, _changed_ns: int) -> int | None:
    try:
        with zipfile.ZipFile(path) as archive:
            name = next(entry for entry in archive.namelist() if entry.endswith("/data.pkl") or entry == "data.pkl")
            if archive.getinfo(name).file_size > PICKLE_BYTES_MAX:
                return None
            data = archive.read(name)
        found = _number_after(data, key)
    except Exception:  # noqa: BLE001 - what is damaged raises whatever its decoders raise, such as zlib.error
        return None
    return found if found is not None and 0 <= found < STEPS_END else None


def _number_after(data: bytes, key: str) -> int | None:
    """The first whole number that a pickle puts directly behind this text. A text that came before is fetched from the memo."""
    is_next, was_text, memos, noted = False, False, set[int](), 0
    for opcode, value, _ in pickletools.genops(data):
        if opcode.name in ("BINPUT", "LONG_BINPUT", "PUT", "MEMOIZE"):
            number = noted if opcode.name == "MEMOIZE" else value
            noted += 1
            if was_text and isinstance(number, int):
                memos.add(number)
            was_text = False
            continue
        if (
            is_next
            and isinstance(value, int)
            and not isinstance(value, bool)
            and opcode.name.startswith(("BININT", "LONG", "INT"))
        ):
            return value
        was_text = isinstance(value, str) and value == key
        is_next = was_text or (opcode.name in ("BINGET", "LONG_BINGET", "GET") and value in memos)
    return None
