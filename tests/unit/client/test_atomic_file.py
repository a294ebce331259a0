import os

import pytest

from sentinel.client import atomic_file, ensure_directory, write_atomically
from sentinel.client.atomic_file import ensure_directories


@pytest.mark.parametrize("durable", [True, False])
def test_a_write_replaces_the_whole_file_and_leaves_nothing_beside_it(tmp_path, durable):
    path = tmp_path / "new" / "folder" / "state.json"
    write_atomically(path, b"a long first version", durable=durable)
    write_atomically(path, b"second", durable=durable)
    assert path.read_bytes() == b"second"
    assert [entry.name for entry in path.parent.iterdir()] == ["state.json"]


def test_a_write_that_fails_leaves_the_old_content_and_no_debris(tmp_path, monkeypatch):
    path = tmp_path / "state.json"
    write_atomically(path, b"old")

    def full(handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["state.json"]


def test_every_directory_that_is_made_is_synced_into_its_parent(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr(atomic_file, "fsync_directory", synced.append)
    ensure_directory(tmp_path / "attempts" / "0001")
    assert synced == [tmp_path, tmp_path / "attempts"]
    ensure_directory(tmp_path / "attempts" / "0001")
    write_atomically(tmp_path / "faults" / "kill.json", b"{}")
    assert synced[2:] == [tmp_path, tmp_path / "faults"]


def test_of_several_each_parent_is_synced_once_the_upper_ones_first(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr(atomic_file, "fsync_directory", synced.append)
    ensure_directories([tmp_path / "0001" / name for name in ("logs", "exits", "logs")])
    assert synced == [tmp_path, tmp_path / "0001"]
    assert sorted(entry.name for entry in (tmp_path / "0001").iterdir()) == ["exits", "logs"]


def test_the_content_is_synced_before_it_gets_its_name_and_the_name_after(tmp_path, monkeypatch):
    calls = []
    sync, rename = os.fsync, os.rename
    monkeypatch.setattr(os, "fsync", lambda handle: (calls.append("fsync"), sync(handle)))
    monkeypatch.setattr(os, "rename", lambda *names: (calls.append("rename"), rename(*names)))
    write_atomically(tmp_path / "a", b"x")
    assert calls == ["fsync", "rename", "fsync"]
