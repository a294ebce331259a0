"""`make install-locked`, done: pip fetches the files of the supervisor's lock and refuses one with another hash."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from supply_chain.locks import ROOT, lock_path, misfit, read_lock, this_platform

LOCK = read_lock(lock_path("supervisor"))
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(misfit(LOCK.holds_for, this_platform()) is not None, reason=f"the lock holds for {LOCK.holds_for}"),
]
CLEAN = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONDONTWRITEBYTECODE")}


def test_the_supervisor_is_installed_from_its_lock(tmp_path: Path) -> None:
    venv = tmp_path / "venv"
    words = [sys.executable, "-m", "supply_chain.install", "--lock", "supervisor", "--venv", str(venv)]
    done = subprocess.run(words, cwd=ROOT, env=CLEAN, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    listed = [venv / "bin" / "python", "-m", "pip", "list", "--format=freeze", "--disable-pip-version-check"]
    found = subprocess.run(listed, cwd=tmp_path, env=CLEAN, capture_output=True, text=True, timeout=60, check=True).stdout.lower()
    installed = {line.replace("_", "-") for line in found.splitlines() if not line.startswith("pip==")}
    assert installed == {f"{row.name}=={row.version}" for row in LOCK.rows} | {"training-sentinel==0.1.0"}
    check = [venv / "bin" / "sentinel", "policy", "check", "default"]
    assert subprocess.run(check, cwd=tmp_path, env=CLEAN, capture_output=True, text=True, timeout=60, check=True).stdout


def test_a_file_with_another_hash_is_not_installed(tmp_path: Path) -> None:
    row = next(row for row in LOCK.rows if row.name == "mdurl")
    (tmp_path / "lock.txt").write_text(f"{row.name}=={row.version} --hash=sha256:{'0' * 64}\n")
    words = [sys.executable, "-m", "pip", "install", "--require-hashes", "--no-deps", "--target", "there", "-r", "lock.txt"]
    done = subprocess.run(words, cwd=tmp_path, env=CLEAN, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode != 0
    assert "DO NOT MATCH THE HASHES" in done.stderr
