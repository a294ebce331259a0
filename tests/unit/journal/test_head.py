"""journal.head is written in place, one of its two lines at a time, so that one of them is always whole."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sentinel.client.run_layout import HEAD_NAME, attempt_folder
from sentinel.errors import LostHistory
from sentinel.journal.head import LINE_BYTES, Chain, read_head, read_second_head, write_head

CHAINS = [Chain(seq, f"{seq:064x}") for seq in (1, 2, 5, 6, 7)]


def test_each_write_takes_the_older_line_and_the_newer_counts(tmp_path: Path) -> None:
    path = tmp_path / HEAD_NAME
    write_head(tmp_path, Chain())
    assert read_head(tmp_path) == Chain()
    inode, before = path.stat().st_ino, path.read_bytes()
    for chain in CHAINS:
        write_head(tmp_path, chain)
        assert read_head(tmp_path) == chain
        now = path.read_bytes()
        assert (now[:LINE_BYTES] == before[:LINE_BYTES]) != (now[LINE_BYTES:] == before[LINE_BYTES:]), "one line is left alone"
        before = now
    assert path.stat().st_ino == inode
    assert sorted(os.listdir(tmp_path)) == [HEAD_NAME]


@pytest.mark.parametrize("cut", [0, 1, 10, 90, LINE_BYTES - 1])
@pytest.mark.parametrize("rest", [b"\0", b" ", None])
def test_a_line_that_is_half_written_leaves_the_one_before(tmp_path: Path, cut: int, rest: bytes | None) -> None:
    """Whatever of a write reached the disk: the other bytes are those of before, or were never there."""
    path = tmp_path / HEAD_NAME
    for chain in CHAINS[:3]:
        write_head(tmp_path, chain)
    before = path.read_bytes()
    write_head(tmp_path, CHAINS[3])
    after = path.read_bytes()
    at = next(at for at in (0, LINE_BYTES) if before[at : at + LINE_BYTES] != after[at : at + LINE_BYTES])
    old = before[at : at + LINE_BYTES] if rest is None else rest * LINE_BYTES
    path.write_bytes(after[: at + cut] + old[cut:] + after[at + LINE_BYTES :])
    whole = path.read_bytes().split() == after.split()
    assert read_head(tmp_path) == (CHAINS[3] if whole else CHAINS[2])
    write_head(tmp_path, CHAINS[4])
    assert read_head(tmp_path) == CHAINS[4]


def test_two_broken_lines_are_refused(tmp_path: Path) -> None:
    write_head(tmp_path, CHAINS[0])
    write_head(tmp_path, CHAINS[1])
    (tmp_path / HEAD_NAME).write_bytes((tmp_path / HEAD_NAME).read_bytes().replace(b"0", b"1"))
    with pytest.raises(LostHistory, match=r"journal\.head: cannot be read \(a line was written by half\)"):
        read_head(tmp_path)
    write_head(tmp_path, CHAINS[2])
    assert read_head(tmp_path) == CHAINS[2]


def test_the_head_of_an_older_version_is_read_and_replaced(tmp_path: Path) -> None:
    (tmp_path / HEAD_NAME).write_text(f'{{"seq": 1, "digest": "{CHAINS[0].digest}"}}\n')
    assert read_head(tmp_path) == CHAINS[0]
    write_head(tmp_path, CHAINS[1])
    assert read_head(tmp_path) == CHAINS[1]
    assert (tmp_path / HEAD_NAME).stat().st_size == 2 * LINE_BYTES


@pytest.mark.parametrize("make", [os.link, os.symlink], ids=["link", "symlink"])
def test_a_copy_by_another_name_keeps_what_it_has(tmp_path: Path, make) -> None:
    run_dir, kept = tmp_path / "run", tmp_path / "kept"
    run_dir.mkdir()
    write_head(run_dir, CHAINS[0])
    if make is os.symlink:
        (run_dir / HEAD_NAME).rename(kept)
        kept.rename(tmp_path / "moved")
        os.symlink(tmp_path / "moved", run_dir / HEAD_NAME)
        kept = tmp_path / "moved"
    else:
        os.link(run_dir / HEAD_NAME, kept)
    before = kept.read_bytes()
    write_head(run_dir, CHAINS[1])
    assert kept.read_bytes() == before
    assert read_head(run_dir) == CHAINS[1]


def test_an_earlier_entry_replaces_the_file(tmp_path: Path) -> None:
    """Both lines would say otherwise: the higher number counts."""
    for chain in (CHAINS[3], CHAINS[4], CHAINS[1]):
        write_head(tmp_path, chain)
    assert read_head(tmp_path) == CHAINS[1]


def test_the_newest_attempts_folder_holds_the_same(tmp_path: Path) -> None:
    attempt_folder(tmp_path, 2).mkdir(parents=True)
    for chain in CHAINS:
        write_head(tmp_path, chain)
        assert read_second_head(tmp_path) == chain
