"""A filesystem that two clients share, on this machine: GlusterFS over FUSE, its server on the loopback, no glusterd.

Each client keeps for a second what it has seen, as on two machines. A command `beside` runs in a mount namespace of its own,
where the same path is another client's. The translators are those that a volume has by default.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

SBIN = "/usr/sbin:/sbin"
PROGRAMS = ("glusterfsd", "glusterfs", "unshare", "umount")
CLIENT = ("write-behind", "readdir-ahead", "open-behind", "quick-read", "md-cache")


def why_not() -> str:
    """Why there can be none here; empty where there can."""
    missing = [name for name in PROGRAMS if shutil.which(name, path=f"{os.environ.get('PATH', '')}:{SBIN}") is None]
    if missing:
        return f"no {', '.join(missing)} here: apt-get install --no-install-recommends glusterfs-server (make cluster-test does)"
    if os.geteuid() != 0:
        return "mounts need root"
    return "" if Path("/dev/fuse").exists() else "no /dev/fuse here"


class SharedFilesystem:
    """`folder`: where the processes of this machine have it mounted; `other`: where a second client has it."""

    def __init__(self, scratch: Path) -> None:
        self.folder, self.other, self._scratch = scratch / "shared", scratch / "other", scratch
        self._environ = dict(os.environ) | {"PATH": f"{os.environ.get('PATH', '')}:{SBIN}"}
        for name in ("shared", "other", "brick"):
            (scratch / name).mkdir()
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self._port = probe.getsockname()[1]
        (scratch / "server.vol").write_text(self._server())
        (scratch / "client.vol").write_text(self._client())
        self._ask("glusterfsd", "-f", f"{scratch}/server.vol", "-l", f"{scratch}/server.log", "-p", f"{scratch}/server.pid")
        for place in (self.folder, self.other):
            self._ask(*self._mount(place))
            end_s = time.monotonic() + 20
            while not os.path.ismount(place) or not _is_up(place):
                assert time.monotonic() < end_s, (scratch / "client.log").read_text(errors="replace")
                time.sleep(0.1)

    def beside(self, command: Sequence[str], *more: str) -> list[str]:
        """The command with a client of its own. `more`: further options of unshare, such as --uts."""
        script = f'{" ".join(self._mount(self.folder))} && exec "$@"'
        words = ["unshare", "--mount", "--propagation", "private", *more, "sh", "-c", script, "sh"]
        return ["env", f"PATH={self._environ['PATH']}", *words, *command]

    def down(self) -> None:
        for place in (self.folder, self.other):
            subprocess.run(["umount", "--lazy", str(place)], env=self._environ, check=False)
        self._ask("pkill", "-F", f"{self._scratch}/server.pid")

    def _mount(self, place: Path) -> list[str]:
        return ["glusterfs", "-f", f"{self._scratch}/client.vol", "-l", f"{self._scratch}/client.log", str(place)]

    def _ask(self, *words: str) -> None:
        subprocess.run(words, env=self._environ, timeout=30, check=True)

    def _server(self) -> str:
        return "".join(
            (
                _translator("posix", "storage/posix", f"option directory {self._scratch / 'brick'}"),
                _translator("locks", "features/locks", "subvolumes posix"),
                _translator("brick", "performance/io-threads", "subvolumes locks"),
                _translator(
                    "server",
                    "protocol/server",
                    "option transport-type tcp",
                    f"option transport.socket.listen-port {self._port}",
                    "option transport.socket.bind-address 127.0.0.1",
                    "option auth.addr.brick.allow *",
                    "subvolumes brick",
                ),
            )
        )

    def _client(self) -> str:
        lines = _translator(
            "remote",
            "protocol/client",
            "option transport-type tcp",
            "option remote-host 127.0.0.1",
            f"option remote-port {self._port}",
            "option remote-subvolume brick",
        )
        below = ("remote", *CLIENT)
        return lines + "".join(
            _translator(name, f"performance/{name}", f"subvolumes {below[number]}") for number, name in enumerate(CLIENT)
        )


def _is_up(place: Path) -> bool:
    """The mount answers before the server does."""
    try:
        (place / ".up").touch()
    except OSError:
        return False
    return True


def _translator(name: str, kind: str, *options: str) -> str:
    return "\n  ".join((f"volume {name}", f"type {kind}", *options)) + "\nend-volume\n"
