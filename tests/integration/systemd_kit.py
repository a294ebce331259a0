"""A real systemd with the shipped unit: a user manager in namespaces of its own, so that nothing outside is touched and
everything in it ends with it. It needs root, and says why it could not be had."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

ROOT = Path(__file__).resolve().parents[2]
UNIT = ROOT / "deploy/systemd/sentinel@.service"
MANAGER = Path("/lib/systemd/systemd")
# What only the system's manager can do, or what names places that are not there in a test.
NOT_FOR_USERS = (
    "User", "Group", "StateDirectory", "StateDirectoryMode", "After", "Wants", "CapabilityBoundingSet", "AmbientCapabilities",
    "ProtectSystem", "ProtectControlGroups", "ProtectKernelModules", "ProtectKernelTunables", "ProtectHostname",
    "RestrictSUIDSGID",
)  # fmt: skip
WATCHDOG_S = 6
GROUPS = [Path("/sys/fs/cgroup", *place, name) for place in ((), ("systemd",)) for name in ("app.slice", "init.scope")]
COMES_UP_S = 10.0


class Systemd:
    """`start` skips the test where no manager comes up. The runs of the unit lie in `folder`."""

    def __init__(self, command: list[str]) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="sd-"))  # short: it holds sockets
        own = {"XDG_RUNTIME_DIR": str(self.folder / "x"), "XDG_CONFIG_HOME": str(self.folder / "config")}
        self._environment = os.environ | own
        units = self.folder / "config/systemd/user"
        units.mkdir(parents=True)
        (self.folder / "x").mkdir(mode=0o700)
        (units / "sentinel@.service").write_text(self._adapted())
        (units / "default.target").write_text("[Unit]\nDescription=nothing else\n")
        (self.folder / "big.env").write_text(f"SENTINEL_POLICY=demo\nSENTINEL_OPTIONS=\nSENTINEL_COMMAND={' '.join(command)}\n")
        self._child: subprocess.Popen[bytes] | None = None
        self._groups = [path for path in GROUPS if not path.exists()]

    def start(self) -> Systemd:
        if os.geteuid() != 0 or not MANAGER.exists() or shutil.which("unshare") is None:
            pytest.skip("a systemd of one's own needs root, systemd and unshare")
        # Not as process 1, which would take it for the system's own manager.
        inside = f"mount -t tmpfs none /run && mkdir -p /run/systemd/system && {MANAGER} --user --unit=default.target; exit $?"
        words = ["unshare", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child", "sh", "-c", inside]
        with (self.folder / "log").open("wb") as log:
            self._child = subprocess.Popen(words, stdout=log, stderr=log, env=self._environment)
        deadline = time.monotonic() + COMES_UP_S
        while time.monotonic() < deadline and self._child.poll() is None:
            if self.do("is-system-running").strip() in ("running", "degraded"):
                return self
            time.sleep(0.1)
        said = (self.folder / "log").read_text(errors="replace")
        self.close()
        pytest.skip(f"no systemd of one's own here: {said[-300:] or 'it does not come up'}")

    def do(self, *words: str) -> str:
        """`systemctl` and what it printed, from within: its socket reaches nobody outside."""
        children = psutil.Process(self._child.pid).children() if self._child is not None else []
        if not children:
            return ""
        enter = ["nsenter", "--target", str(children[0].pid), "--mount", "--pid"]
        words = ("systemctl", "--user", "--no-pager", *words)
        return subprocess.run([*enter, *words], capture_output=True, text=True, timeout=90, env=self._environment).stdout

    def told(self, name: str) -> str:
        return self.do("show", "sentinel@big", f"--property={name}", "--value").strip()

    def close(self) -> None:
        if self._child is not None:
            self._child.kill()
            self._child.wait(10)
        for group in self._groups:  # empty control groups are all that would stay
            for path in sorted((p for p in (group, *group.rglob("*")) if p.is_dir()), reverse=True):
                with suppress(OSError):
                    path.rmdir()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _adapted(self) -> str:
        lines = [line for line in UNIT.read_text().splitlines() if line.partition("=")[0] not in NOT_FOR_USERS]
        text = "\n".join(lines) + "\n"
        here = {
            "/opt/sentinel/bin/sentinel": f"{sys.executable} -m sentinel",
            "/var/lib/sentinel/runs": str(self.folder),
            "/var/lib/sentinel": str(self.folder),
            "/etc/sentinel": str(self.folder),
            "--listen off": "",
            "\nType=notify": f"\nEnvironment=PYTHONPATH={ROOT}\nType=notify",
            "\nRestartSec=5s": "\nRestartSec=100ms",
            "\nWatchdogSec=3min": f"\nWatchdogSec={WATCHDOG_S}s",
        }
        for shipped, short in here.items():
            assert shipped in text, shipped
            text = text.replace(shipped, short)
        assert not re.search(r"=/(opt|var|etc)/", text)
        return text
