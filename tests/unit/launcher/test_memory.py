"""The share of memory that is left: of the machine and of every group above us. What cannot be read is unknown."""

from __future__ import annotations

from pathlib import Path

import pytest

from sentinel.launcher.memory import free_ratio


def place(folder: Path, limit: str, used: int, cache: int = 0) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "memory.max").write_text(f"{limit}\n")
    (folder / "memory.current").write_text(f"{used}\n")
    (folder / "memory.stat").write_text(f"anon 1\ninactive_file {cache}\n")


def test_the_smallest_share_counts(tmp_path: Path) -> None:
    (tmp_path / "meminfo").write_text("MemTotal:  1000 kB\nMemFree: 1 kB\nMemAvailable:  800 kB\n")
    (tmp_path / "own").write_text("0::/a/b\n")
    where = tmp_path / "meminfo", tmp_path / "cgroup", tmp_path / "own"
    assert free_ratio(*where) == 0.8
    place(tmp_path / "cgroup/a/b", "max", 5)
    assert free_ratio(*where) == 0.8
    place(tmp_path / "cgroup/a", "100", 90, cache=20)
    assert free_ratio(*where) == pytest.approx(0.3)


def test_what_cannot_be_read_is_unknown(tmp_path: Path) -> None:
    assert free_ratio(tmp_path / "a", tmp_path / "b", tmp_path / "c") is None
