"""Local disks may carry a write-ahead log; whatever else a run directory lies on may not."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from sentinel.filesystem import filesystem_of, is_local, may_pass

MOUNTS = r"""/dev/sda1 / ext4 rw 0 0
tmpfs /run tmpfs rw 0 0
filer:/home /home nfs4 rw,vers=4.2 0 0
/dev/nvme0n1 /home/fast xfs rw 0 0
lustre@tcp:/work /scratch lustre rw,flock 0 0
me@box: /mnt/my\040box fuse.sshfs rw 0 0
/dev/sdb1 /twice ext4 rw 0 0
filer:/twice /twice nfs rw 0 0
gpfs0 /gpfs gpfs rw 0 0
broken line
"""


@pytest.fixture
def mounts(tmp_path: Path) -> Path:
    (tmp_path / "mounts").write_text(MOUNTS)
    return tmp_path / "mounts"


@pytest.mark.parametrize(
    ("path", "filesystem", "local"),
    [
        ("/data/run", "ext4", True),
        ("/homework/run", "ext4", True),
        ("/home/me/run", "nfs4", False),
        ("/home/fast/run", "xfs", True),
        ("/scratch/run", "lustre", False),
        ("/mnt/my box/run", "fuse.sshfs", False),
        ("/twice/run", "nfs", False),
        ("/gpfs", "gpfs", False),
    ],
)
def test_the_innermost_and_newest_mount_decides(mounts: Path, path: str, filesystem: str, local: bool) -> None:
    assert filesystem_of(Path(path), mounts) == filesystem
    assert is_local(Path(path), mounts) is local


def test_without_a_mount_table_nothing_is_taken_for_local(tmp_path: Path) -> None:
    assert filesystem_of(Path("/data"), tmp_path / "none") == "unknown"
    assert not is_local(Path("/data"), tmp_path / "none")


def test_a_link_is_judged_by_where_it_leads(tmp_path: Path) -> None:
    (tmp_path / "remote").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "remote")
    (tmp_path / "mounts").write_text(f"/dev/sda1 / ext4 rw 0 0\nfiler:/x {tmp_path}/remote nfs rw 0 0\n")
    assert filesystem_of(tmp_path / "link" / "run", tmp_path / "mounts") == "nfs"


@pytest.mark.parametrize("name", ["EIO", "ESTALE", "ENOENT", "ENOSPC", "EMFILE", "EACCES", "ETIMEDOUT", "EAGAIN", "ENOMEM"])
def test_what_the_world_refuses_may_pass(name: str) -> None:
    assert may_pass(OSError(getattr(errno, name), "x"))


@pytest.mark.parametrize("name", ["ENAMETOOLONG", "ELOOP", "EINVAL", "ENOTDIR", "EISDIR"])
def test_what_is_wrong_with_the_path_itself_never_passes(name: str) -> None:
    assert not may_pass(OSError(getattr(errno, name), "x"))
