"""What a node has, as one line of JSON, for the preflight before a launch (`sentinel preflight`). Standard library only.

    python -m sentinel.client.node_facts --path /shared/run --port 29500

v: of this document. time_s: Unix seconds by the node's own clock. versions: by name; a package that is not installed is missing.
free_bytes: where checkpoints go, for this user; null where the path cannot be looked at. taken: ports of those asked for that
something holds. shared: what `--shared FOLDER` saw of a folder into which others write meanwhile (`folder_trial`), and
took_s: how many seconds that took.
"""

from __future__ import annotations

import argparse
import errno
import json
import os
import platform
import re
import socket
import sys
import time
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path

from sentinel.client.folder_trial import take_part
from sentinel.client.machine import read_host
from sentinel.client.regular_file import regular

PACKAGES = ("torch", "triton", "nvidia-nccl-cu12", "nvidia-nccl-cu13", "training-sentinel")
DRIVER = "/proc/driver/nvidia/version"
_DRIVER_VERSION = re.compile(r"Kernel Module\D*(?P<version>[0-9]+(?:\.[0-9]+)+)")


def read_facts(path: str, ports: Sequence[int], packages: Sequence[str] = PACKAGES) -> dict[str, object]:
    return {
        "v": 1,
        "host": read_host(),
        "time_s": round(time.time(), 3),
        "versions": _versions(packages),
        "free_bytes": _free_bytes(path),
        "taken": [port for port in ports if _is_taken(port)],
    }


def _versions(packages: Sequence[str]) -> dict[str, str]:
    found = {"python": platform.python_version(), "kernel": platform.release()}
    if driver := _driver():
        found["driver"] = driver
    for name in packages:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def _driver() -> str:
    """Of NVIDIA's kernel module; empty where there is none."""
    try:
        with open(DRIVER, encoding="utf-8", errors="replace", opener=regular) as file:
            found = _DRIVER_VERSION.search(file.read(4096))
    except OSError:
        return ""
    return found["version"] if found else ""


def _free_bytes(path: str) -> int | None:
    """Of the nearest folder above that is there."""
    while True:
        try:
            found = os.statvfs(path)
            return found.f_bavail * found.f_frsize
        except FileNotFoundError:
            above = os.path.dirname(os.path.abspath(path))
            if above == path:
                return None
            path = above
        except OSError:
            return None


def _is_taken(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # a connection that lingers holds up no listener
        try:
            probe.bind(("", port))
        except OSError as error:
            return error.errno in (errno.EADDRINUSE, errno.EACCES)
    return False


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m sentinel.client.node_facts")
    parser.add_argument("--path", default=".", help="Where checkpoints go.")
    parser.add_argument("--port", type=int, action="append", default=[], help="A port that must be free.")
    parser.add_argument("--shared", help="A folder in which whoever asks writes just now.")
    given = parser.parse_args(words)
    facts = read_facts(given.path, given.port)
    if given.shared:
        began_s = time.monotonic()
        facts["shared"] = take_part(Path(given.shared), read_host())
        facts["took_s"] = round(time.monotonic() - began_s, 3)
    print(json.dumps(facts, separators=(",", ":")))
    return 0


if __name__ == "__main__":
    sys.exit(main())
