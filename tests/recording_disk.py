"""A filesystem that writes down what is done to it, in order, and can be asked what a loss of power would have left.

It runs as a process of its own (`python -m tests.recording_disk MOUNT LOG`), because a page fault in a mapped file must not wait
for a server in the same interpreter. Every change is a line of LOG, appended before it is answered:

    {"op": "write", "node": 5, "offset": 0, "data": "…base64…"}     create, mkdir, write, truncate, rename, unlink, rmdir, fsync,
    fsyncdir

    with RecordingDisk(path, log) as disk: ...                      # work in disk.path
    for state in crash_states(log): state.write_to(folder)          # the trees that may be there after the power came back

The model of a loss of power is that of POSIX and no kinder: of a file that was not synced, what was written since its last sync
is there or is not; of a directory that was not synced, the names since its last sync are there or are not, in the order in which
they were made (journaling filesystems keep that order). Needs root and /dev/fuse. The protocol's numbers are those of
linux/fuse.h.
"""

from __future__ import annotations

import base64
import ctypes
import errno
import json
import os
import stat
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.hanging_folder import ANSWER, HEADER, MNT_DETACH

ROOT = 1
DIRECT_IO_OFF, BIG_WRITES, ATOMIC_TRUNC = 0, 1 << 5, 1 << 3
WRITE_MAX = 1 << 17
DEADLINE_S = 10.0
ENTRY = struct.Struct("=QQQQII")
ATTRIBUTES = struct.Struct("=QQQQQQIIIIIIIIII")

_libc = ctypes.CDLL(None, use_errno=True)


@dataclass
class Node:
    """A file or a directory. `names` of a directory: node by name."""

    is_folder: bool
    mode: int
    data: bytearray = field(default_factory=bytearray)
    names: dict[str, int] = field(default_factory=dict)
    times: list[int] = field(default_factory=lambda: [time.time_ns()] * 3)


@dataclass
class Tree:
    """Nodes by number; the root is 1."""

    nodes: dict[int, Node] = field(default_factory=lambda: {ROOT: Node(True, 0o755)})

    def apply(self, change: dict[str, Any]) -> None:
        """A line of the log."""
        nodes = self.nodes
        match change["op"]:
            case "create" | "mkdir":
                nodes[change["node"]] = Node(change["op"] == "mkdir", change["mode"])
                nodes[change["parent"]].names[change["name"]] = change["node"]
            case "write":
                data, at, new = nodes[change["node"]].data, change["offset"], base64.b64decode(change["data"])
                if len(data) < at:
                    data.extend(b"\0" * (at - len(data)))
                data[at : at + len(new)] = new
            case "truncate":
                data, size = nodes[change["node"]].data, change["size"]
                del data[size:]
                data.extend(b"\0" * (size - len(data)))
            case "rename":
                number = nodes[change["parent"]].names.pop(change["name"])
                nodes[change["to_parent"]].names[change["to_name"]] = number
            case "unlink" | "rmdir":
                del nodes[change["parent"]].names[change["name"]]

    def write_to(self, folder: Path, number: int = ROOT) -> None:
        """As files on an ordinary disk."""
        folder.mkdir(parents=True, exist_ok=True)
        for name, child in self.nodes[number].names.items():
            node = self.nodes[child]
            if node.is_folder:
                self.write_to(folder / name, child)
            else:
                (folder / name).write_bytes(node.data)
                (folder / name).chmod(stat.S_IMODE(node.mode))


# -- what a loss of power leaves ---------------------------------------------------------------------------------------

OF_DATA = ("write", "truncate")
OF_NAMES = ("create", "mkdir", "rename", "unlink", "rmdir")


def read_log(log: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]


def crash_states(changes: list[dict[str, Any]], after: int) -> Iterator[tuple[str, Tree]]:
    """What may lie on the disk when the power is lost after so many changes: everything; what was synced alone; all names with
    synced data; synced names with all data."""
    done = changes[:after]
    synced_data, synced_names = _synced(done)
    for words, keeps_data, keeps_names in (
        ("everything", True, True),
        ("what was synced", False, False),
        ("all names, synced data", False, True),
        ("synced names, all data", True, False),
    ):
        tree = Tree()
        for index, change in enumerate(done):
            if change["op"] in OF_DATA and (keeps_data or index in synced_data):
                if change["node"] in tree.nodes:
                    tree.apply(change)
            elif change["op"] in OF_NAMES and (keeps_names or index in synced_names):
                tree.apply(change)
        yield words, tree


def _synced(done: list[dict[str, Any]]) -> tuple[set[int], set[int]]:
    """Which changes are on the disk for sure: data by a sync of its file behind it, names by a sync of any directory they are in,
    and with them all names before (the order of names is kept). A synced file has its own name, as ext4 and XFS do it."""
    data: set[int] = set()
    names_until = -1
    for index, change in enumerate(done):
        if change["op"] == "fsync":
            own = [before for before in range(index) if done[before].get("node") == change["node"]]
            data |= {before for before in own if done[before]["op"] in OF_DATA}
            names_until = max([names_until, *(before for before in own if done[before]["op"] == "create")])
        elif change["op"] == "fsyncdir":
            names_until = index
    return data, {index for index in range(names_until + 1) if done[index]["op"] in OF_NAMES}


# -- the mount ---------------------------------------------------------------------------------------------------------


class RecordingDisk:
    """Mounted at `path` while it is entered. Raises OSError where it cannot be."""

    def __init__(self, path: Path, log: Path) -> None:
        self.path, self.log = path, log

    def __enter__(self) -> RecordingDisk:
        self.path.mkdir(parents=True, exist_ok=True)
        self.log.write_text("")
        words = [sys.executable, "-m", "tests.recording_disk", str(self.path), str(self.log)]
        self._server = subprocess.Popen(words, cwd=Path(__file__).parent.parent, stdout=subprocess.PIPE)
        assert self._server.stdout is not None, "it was asked for"
        if self._server.stdout.readline() != b"ready\n":
            raise OSError(errno.ENODEV, "the recording disk could not be mounted", str(self.path))
        return self

    def __exit__(self, *_: object) -> None:
        _libc.umount2(os.fsencode(self.path), MNT_DETACH)
        try:
            self._server.wait(DEADLINE_S)
        except subprocess.TimeoutExpired:
            self._server.kill()
            self._server.wait()
        if self._server.stdout is not None:
            self._server.stdout.close()

    def changes(self) -> list[dict[str, Any]]:
        return read_log(self.log)


class Server:
    """Answers the kernel from a Tree, one request after the other."""

    def __init__(self, device: int, log: Path) -> None:
        self._device = device
        self._log = log.open("a", encoding="utf-8")
        self._tree = Tree()
        self._next = ROOT + 1
        self._codes: dict[int, Callable[[int, bytes], bytes]] = {
            1: self._lookup, 3: self._getattr, 4: self._setattr, 8: self._mknod, 9: self._mkdir, 10: self._unlink,
            11: self._unlink, 12: self._rename, 14: self._open, 15: self._read, 16: self._write, 17: self._statfs,
            18: self._nothing, 20: self._fsync, 25: self._nothing, 26: self._init, 27: self._open, 28: self._readdir,
            29: self._nothing, 30: self._fsyncdir, 34: self._nothing, 35: self._create, 38: self._nothing, 45: self._rename2,
        }  # fmt: skip

    def serve(self) -> None:
        while True:
            try:
                request = os.read(self._device, WRITE_MAX + 4096)
            except OSError:
                return  # unmounted
            _, code, unique, node, *_rest = HEADER.unpack_from(request)
            if code in (2, 36, 42):  # FORGET, INTERRUPT, BATCH_FORGET want no answer
                continue
            error, data = 0, b""
            try:
                answer = self._codes.get(code)
                if answer is None:
                    error = -errno.ENOSYS
                else:
                    data = answer(node, request[HEADER.size :])
            except OSError as failed:
                error = -(failed.errno or errno.EIO)
            os.write(self._device, ANSWER.pack(ANSWER.size + len(data), error, unique) + data)

    def _do(self, op: str, **what: Any) -> None:
        self._log.write(json.dumps({"op": op, **what}) + "\n")
        self._log.flush()
        self._tree.apply({"op": op, **what})

    def _child(self, parent: int, name: str) -> int:
        found = self._tree.nodes[parent].names.get(name)
        if found is None:
            raise FileNotFoundError(errno.ENOENT, name)
        return found

    def _attributes(self, number: int) -> bytes:
        node = self._tree.nodes[number]
        kind = stat.S_IFDIR if node.is_folder else stat.S_IFREG
        size = len(node.data)
        seconds, rest = zip(*(divmod(one, 10**9) for one in node.times), strict=True)
        mode = kind | stat.S_IMODE(node.mode)
        return ATTRIBUTES.pack(number, size, -(-size // 512), *seconds, *rest, mode, 1, os.getuid(), os.getgid(), 0, 4096, 0)

    def _entry(self, number: int) -> bytes:
        return ENTRY.pack(number, 0, 0, 0, 0, 0) + self._attributes(number)

    def _touched(self, number: int) -> None:
        now = time.time_ns()
        self._tree.nodes[number].times[1:] = [now, now]

    def _init(self, node: int, body: bytes) -> bytes:
        return struct.pack("=IIIIHHIIHHII6I", 7, 31, 1 << 16, BIG_WRITES, 16, 12, WRITE_MAX, 1, 32, 0, 0, 0, *[0] * 6)

    def _lookup(self, node: int, body: bytes) -> bytes:
        return self._entry(self._child(node, os.fsdecode(body.rstrip(b"\0"))))

    def _getattr(self, node: int, body: bytes) -> bytes:
        return struct.pack("=QII", 0, 0, 0) + self._attributes(node)

    def _setattr(self, node: int, body: bytes) -> bytes:
        valid, _, _, size = struct.unpack_from("=IIQQ", body)
        if valid & 1 << 3:
            self._do("truncate", node=node, size=size)
            self._touched(node)
        if valid & 1:
            self._tree.nodes[node].mode = struct.unpack_from("=I", body, 68)[0]
        return self._getattr(node, b"")

    def _make(self, parent: int, name: str, mode: int, op: str) -> int:
        if name in self._tree.nodes[parent].names:
            raise FileExistsError(errno.EEXIST, name)
        number, self._next = self._next, self._next + 1
        self._do(op, parent=parent, name=name, node=number, mode=mode)
        self._touched(parent)
        return number

    def _mknod(self, node: int, body: bytes) -> bytes:
        mode = struct.unpack_from("=I", body)[0]
        return self._entry(self._make(node, os.fsdecode(body[16:].rstrip(b"\0")), mode, "create"))

    def _create(self, node: int, body: bytes) -> bytes:
        mode = struct.unpack_from("=II", body)[1]
        number = self._make(node, os.fsdecode(body[16:].rstrip(b"\0")), mode, "create")
        return self._entry(number) + self._open(number, b"")

    def _mkdir(self, node: int, body: bytes) -> bytes:
        mode = struct.unpack_from("=I", body)[0]
        return self._entry(self._make(node, os.fsdecode(body[8:].rstrip(b"\0")), mode, "mkdir"))

    def _unlink(self, node: int, body: bytes) -> bytes:
        name = os.fsdecode(body.rstrip(b"\0"))
        child = self._tree.nodes[self._child(node, name)]
        if child.is_folder and child.names:
            raise OSError(errno.ENOTEMPTY, name)
        self._do("unlink", parent=node, name=name)
        self._touched(node)
        return b""

    def _rename(self, node: int, body: bytes) -> bytes:
        return self._move(node, struct.unpack_from("=Q", body)[0], body[8:])

    def _rename2(self, node: int, body: bytes) -> bytes:
        target, flags = struct.unpack_from("=QI", body)
        if flags:
            raise OSError(errno.EINVAL, "rename with flags")
        return self._move(node, target, body[16:])

    def _move(self, node: int, target: int, names: bytes) -> bytes:
        old, new = (os.fsdecode(name) for name in names.split(b"\0")[:2])
        self._child(node, old)
        self._do("rename", parent=node, name=old, to_parent=target, to_name=new)
        self._touched(node)
        self._touched(target)
        return b""

    def _open(self, node: int, body: bytes) -> bytes:
        return struct.pack("=QII", node, DIRECT_IO_OFF, 0)

    def _read(self, node: int, body: bytes) -> bytes:
        _, offset, size = struct.unpack_from("=QQI", body)
        return bytes(self._tree.nodes[node].data[offset : offset + size])

    def _write(self, node: int, body: bytes) -> bytes:
        _, offset, size = struct.unpack_from("=QQI", body)
        self._do("write", node=node, offset=offset, data=base64.b64encode(body[40 : 40 + size]).decode())
        self._touched(node)
        return struct.pack("=II", size, 0)

    def _fsync(self, node: int, body: bytes) -> bytes:
        self._do("fsync", node=node)
        return b""

    def _fsyncdir(self, node: int, body: bytes) -> bytes:
        self._do("fsyncdir", node=node)
        return b""

    def _readdir(self, node: int, body: bytes) -> bytes:
        _, offset, size = struct.unpack_from("=QQI", body)
        out = b""
        for index, (name, child) in list(enumerate(self._tree.nodes[node].names.items()))[offset:]:
            plain = os.fsencode(name)
            kind = (stat.S_IFDIR if self._tree.nodes[child].is_folder else stat.S_IFREG) >> 12
            entry = struct.pack("=QQII", child, index + 1, len(plain), kind) + plain
            entry = entry.ljust(-(-len(entry) // 8) * 8, b"\0")
            if len(out) + len(entry) > size:
                break
            out += entry
        return out

    def _statfs(self, node: int, body: bytes) -> bytes:
        return struct.pack("=5Q10I", 10**6, 10**6, 10**6, 10**6, 10**6, 4096, 255, 4096, 0, *[0] * 6)

    def _nothing(self, node: int, body: bytes) -> bytes:
        return b""


def main(path: str, log: str) -> None:
    device = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
    options = f"fd={device},rootmode=40000,user_id={os.getuid()},group_id={os.getgid()},allow_other"
    if _libc.mount(b"recording", os.fsencode(path), b"fuse", 0, options.encode()):
        print(os.strerror(ctypes.get_errno()), flush=True)
        sys.exit(1)
    print("ready", flush=True)
    Server(device, Path(log)).serve()


if __name__ == "__main__":
    main(*sys.argv[1:])
