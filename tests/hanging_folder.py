"""A folder on a filesystem that stops answering, as NFS does when its server is gone: a small read-only FUSE filesystem.

    with HangingFolder(path, {"manifest.json": b"{}"}) as folder:
        folder.hang()          # from here on no request is answered: whoever reads waits in the kernel
        folder.go_on()         # what waits is answered

At the end the mount is taken away, and whoever still waits in it gets an answer or an error. It needs root and /dev/fuse:
`why_not` says what is missing. The numbers of the protocol are those of linux/fuse.h.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import struct
import threading
from collections.abc import Mapping
from pathlib import Path

LOOKUP, FORGET, GETATTR, OPEN, READ, STATFS, RELEASE, FLUSH, INIT = 1, 2, 3, 14, 15, 17, 18, 25, 26
OPENDIR, READDIR, RELEASEDIR, INTERRUPT, DESTROY, BATCH_FORGET = 27, 28, 29, 36, 38, 42
UNANSWERED = (FORGET, BATCH_FORGET, INTERRUPT)
ROOT = 1
REQUEST_BYTES = 1 << 17
HEADER = struct.Struct("=IIQQIIII")
ANSWER = struct.Struct("=IiQ")
ATTRIBUTES = struct.Struct("=QQQQQQIIIIIIIIII")
VALID_S = 0  # nothing is cached: every look asks again
MNT_DETACH = 2

_libc = ctypes.CDLL(None, use_errno=True)


def why_not() -> str:
    """What keeps such a folder from being mounted here; empty when nothing does."""
    if os.geteuid() != 0:
        return "mounting needs root"
    return "" if os.access("/dev/fuse", os.R_OK | os.W_OK) else "there is no /dev/fuse"


def _device_of(path: Path) -> int:
    """Of the newest mount there, asked without asking the filesystem itself."""
    rows = [line.split() for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    major, minor = next(row[2] for row in reversed(rows) if row[4] == str(path)).split(":")
    return os.makedev(int(major), int(minor))


class HangingFolder:
    """`path` is made if need be. `files`: content by name. Raises OSError where it cannot be mounted."""

    def __init__(self, path: Path, files: Mapping[str, bytes] | None = None) -> None:
        self.path = path
        self._names = sorted(files or {})
        self._contents = [(files or {})[name] for name in self._names]
        self._answers = threading.Event()
        self._answers.set()
        path.mkdir(parents=True, exist_ok=True)
        self._device = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
        options = f"fd={self._device},rootmode=40000,user_id={os.getuid()},group_id={os.getgid()},allow_other"
        if _libc.mount(b"hanging", os.fsencode(path), b"fuse", 0, options.encode()):
            number = ctypes.get_errno()
            os.close(self._device)
            raise OSError(number, os.strerror(number), str(path))
        self._abort = Path("/sys/fs/fuse/connections") / str(os.minor(_device_of(path))) / "abort"
        threading.Thread(target=self._serve, name="hanging folder", daemon=True).start()

    def hang(self) -> None:
        self._answers.clear()

    def go_on(self) -> None:
        self._answers.set()

    def __enter__(self) -> HangingFolder:
        return self

    def __exit__(self, *_: object) -> None:
        if self._abort.exists():
            self._abort.write_text("1")  # whoever waits gets an error
        _libc.umount2(os.fsencode(self.path), MNT_DETACH)
        self._answers.set()

    def _serve(self) -> None:
        while True:
            try:
                request = os.read(self._device, REQUEST_BYTES)
            except OSError:  # nobody has anything open in it any more, or it was aborted
                os.close(self._device)
                return
            _, code, unique, node, *_rest = HEADER.unpack_from(request)
            if code in UNANSWERED:
                continue
            if code != INIT:
                self._answers.wait()
            body = self._answer(code, node, request[HEADER.size :])
            error, data = (-body, b"") if isinstance(body, int) else (0, body)
            try:
                os.write(self._device, ANSWER.pack(ANSWER.size + len(data), error, unique) + data)
            except OSError:
                continue  # whoever asked has been killed meanwhile

    def _answer(self, code: int, node: int, body: bytes) -> bytes | int:
        """The answer's body, or an errno."""
        match code:
            case _ if code == INIT:
                return struct.pack("=IIIIHHIIHHII6I", 7, 31, 1 << 16, 0, 16, 12, 1 << 16, 1, 16, 0, 0, 0, *[0] * 6)
            case _ if code == GETATTR:
                return struct.pack("=QII", VALID_S, 0, 0) + self._attributes(node)
            case _ if code == LOOKUP:
                name = os.fsdecode(body.rstrip(b"\0"))
                if name not in self._names:
                    return errno.ENOENT
                found = ROOT + 1 + self._names.index(name)
                return struct.pack("=QQQQII", found, 0, VALID_S, VALID_S, 0, 0) + self._attributes(found)
            case _ if code in (OPEN, OPENDIR):
                return struct.pack("=QII", 0, 0, 0)
            case _ if code == READ:
                _, offset, size = struct.unpack_from("=QQI", body)
                return self._contents[node - ROOT - 1][offset : offset + size]
            case _ if code == READDIR:
                return self._entries(struct.unpack_from("=QQI", body)[1])
            case _ if code == STATFS:
                return struct.pack("=5Q10I", 1000, 500, 500, 1000, 500, 4096, 255, 4096, 0, *[0] * 6)
            case _ if code in (RELEASE, FLUSH, RELEASEDIR, DESTROY):
                return b""
        return errno.ENOSYS

    def _attributes(self, node: int) -> bytes:
        if node == ROOT:
            return ATTRIBUTES.pack(ROOT, 0, 0, 0, 0, 0, 0, 0, 0, stat.S_IFDIR | 0o755, 2, os.getuid(), os.getgid(), 0, 4096, 0)
        size = len(self._contents[node - ROOT - 1])
        mode = stat.S_IFREG | 0o644
        return ATTRIBUTES.pack(node, size, 1, 0, 0, 0, 0, 0, 0, mode, 1, os.getuid(), os.getgid(), 0, 4096, 0)

    def _entries(self, offset: int) -> bytes:
        out = b""
        for index, name in list(enumerate(self._names))[offset:]:
            plain = os.fsencode(name)
            entry = struct.pack("=QQII", ROOT + 1 + index, index + 1, len(plain), stat.S_IFREG >> 12) + plain
            out += entry.ljust(-(-len(entry) // 8) * 8, b"\0")
        return out
