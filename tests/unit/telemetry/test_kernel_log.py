"""The kernel log: what its lines mean, a file that grows, and /dev/kmsg where it may be read."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from sentinel.model.readings import HardwareReading, SourceReading
from sentinel.telemetry import kernel_log
from sentinel.telemetry.gpu_sample import normalise_pci
from sentinel.telemetry.kernel_lines import KernelLines, read_kernel_line
from sentinel.telemetry.kernel_log import KMSG, KernelLog, read_record

XID_79 = "NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, name=python, GPU has fallen off the bus."
GPU = "0000:3b:00"

LINES = [
    (XID_79, "xid", GPU, 79.0),
    ("NVRM: Xid (PCI:0000:10:1c): 63, pid=1896, Row Remapper: New row marked for remapping", "xid", "0000:10:1c", 63.0),
    ("NVRM: Xid (PCI:0000:3B:00): 13, pid='<unknown>', name=<unknown>, Graphics Exception", "xid", GPU, 13.0),
    ("NVRM: Xid (0000:3b:00): 48, DBE error", "xid", GPU, 48.0),
    ("NVRM: Xid (PCI:0000:3b:00): 119", "xid", GPU, 119.0),
    (
        "NVRM: Xid (PCI:0000:3b:00): 154, GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)",
        "recovery_action", GPU, 2.0,
    ),
    ("NVRM: GPU at PCI:0000:3b:00: GPU-1: GPU has fallen off the bus.", "gpu_lost", GPU, 1.0),
    ("NVRM: GPU 0000:3b:00.0: GPU has fallen off the bus.", "gpu_lost", GPU, 1.0),
    ("NVRM: Xid 79: GPU has fallen off the bus", "xid", None, 79.0),
    ("NVRM: Xid 79:", "xid", None, 79.0),
    ("NVRM: Xid: 94, Contained memory error", "xid", None, 94.0),
    (
        "NVRM: The NVIDIA GPU 0000:3b:00.0\\x0aNVRM: (PCI ID: 10de:20b0) in this system has\\x0aNVRM: fallen off the bus",
        "gpu_lost", GPU, 1.0,
    ),
    ("mce: [Hardware Error]: Machine check events logged", "machine_check_corrected", None, 1.0),
    ("mce: [Hardware Error]: CPU 3: Machine Check: 0 Bank 5: be00000000800400", "machine_check", None, 1.0),
    ("mce: [Hardware Error]: CPU 14: Machine Check Exception: 5 Bank 7: be00000000800400", "machine_check", None, 1.0),
    ("[Hardware Error]: Corrected error, no action required.", "machine_check_corrected", None, 1.0),
    ("{1}[Hardware Error]: event severity: corrected", "machine_check_corrected", None, 1.0),
    ("{2}[Hardware Error]: event severity: fatal", "machine_check", None, 1.0),
    ("[Hardware Error]: Uncorrected, software containable error.", "machine_check", None, 1.0),
    ("mce: Uncorrected hardware memory error in user-access at 1d1c04e40", "machine_check", None, 1.0),
    ("EDAC MC0: 1 UE memory read error on CPU_SrcID#0_MC#0_Chan#0_DIMM#0", "memory_error", "mc0", 1.0),
    (
        "pcieport 0000:00:01.0: AER: Uncorrected (Fatal) error received: 0000:3b:00.0",
        "pcie_error", GPU, 1.0,
    ),
    (
        "nvidia 0000:3b:00.0: PCIe Bus Error: severity=Uncorrected (Fatal), type=Transaction Layer, (Receiver ID)",
        "pcie_error", GPU, 1.0,
    ),
    ("blk_update_request: I/O error, dev sdb, sector 1234 op 0x0:(READ)", "io_error", "sdb", 1.0),
    ("critical medium error, dev nvme0n1, sector 1234", "io_error", "nvme0n1", 1.0),
    ("Buffer I/O error on dev dm-0, logical block 7, lost async page write", "io_error", "dm-0", 1.0),
    ("nvme nvme0: I/O 12 QID 3 timeout, aborting", "io_error", "nvme0", 1.0),
    ("EXT4-fs error (device sda1): ext4_find_entry:1436: inode #2: comm ls: reading directory", "io_error", "sda1", 1.0),
    ("XFS (dm-0): metadata I/O error in \"xfs_trans_read_buf\"", "io_error", "dm-0", 1.0),
    ("Out of memory: Killed process 4711 (python) total-vm:1kB, anon-rss:1kB", "oom_kill", None, 1.0),
    ("Memory cgroup out of memory: Killed process 4711 (python) total-vm:1kB", "oom_kill", None, 1.0),
]  # fmt: skip
QUIET = [
    "", "eth0: link up", "NVRM: loading NVIDIA UNIX x86_64 Kernel Module  580.00", "EDAC MC0: 1 CE memory read error on DIMM_A1",
    "pcieport 0000:00:01.0: AER: Corrected error received: 0000:3b:00.0", "XFS (dm-0): Mounting V5 Filesystem",
    "audit: type=1400 " + XID_79, "nvme nvme0: 8/0/0 default/read/poll queues", "NVRM: Xid (PCI:nonsense): 79",
    "nvidia 0000:3b:00.0: PCIe Bus Error: severity=Corrected, type=Physical Layer",
]  # fmt: skip
PREFIXES = [
    "", "[12345.678901] ", "[    1.000000] ", "<3>[12345.678901] ", "Nov 20 10:00:00 node7 kernel: ",
    "Nov 20 10:00:00 node7 kernel: [12345.678901] ", "[12345.678901] node7 kernel: ", "2026-11-20T10:00:00+00:00 node7 kernel: ",
]  # fmt: skip


@pytest.mark.parametrize(("line", "what", "device", "value"), LINES, ids=[f"{line[1]}-{n}" for n, line in enumerate(LINES)])
def test_what_a_line_says(line, what, device, value) -> None:
    for prefix in PREFIXES:
        word = read_kernel_line(prefix + line)
        assert word is not None, prefix + line
        assert (word.what, word.device, word.value) == (what, device, value)


@pytest.mark.parametrize("line", QUIET)
def test_other_lines_say_nothing(line) -> None:
    for prefix in PREFIXES:
        assert read_kernel_line(prefix + line) is None


THREE = (
    "NVRM: The NVIDIA GPU 0000:3b:00.0", "NVRM: (PCI ID: 10de:20b0) installed in this system has",
    "NVRM: fallen off the bus and is not responding to commands.",
)  # fmt: skip


@pytest.mark.parametrize("prefix", PREFIXES)
def test_a_gpu_that_is_gone_in_three_lines_has_the_address_of_the_first(prefix: str) -> None:
    lines = KernelLines()
    words = [lines.read(prefix + line) for line in THREE]
    assert words[:2] == [None, None]
    assert words[2] is not None
    assert (words[2].what, words[2].device) == ("gpu_lost", GPU)
    between = [lines.read(prefix + line) for line in (THREE[0], *["eth0: link up"] * 5, THREE[2])]
    assert between[-1] is not None
    assert (between[-1].what, between[-1].device) == ("gpu_lost", None)  # too far apart to be one


def test_words_of_another_program_in_a_syslog_are_not_the_kernels() -> None:
    assert read_kernel_line(f"Nov 20 10:00:00 node7 python[4711]: {XID_79}") is None
    assert read_kernel_line(f"Nov 20 10:00:00 node7 python[4711]: kernel: {XID_79}") is None


def test_the_text_is_bounded_and_printable() -> None:
    word = read_kernel_line("NVRM: Xid (PCI:0000:3b:00): 13, \x1b[31m" + "x" * 9000)
    assert word is not None
    assert len(word.text) < 400
    assert word.text.isprintable()


@pytest.mark.parametrize(
    ("text", "device"), [("00000000:3B:00.0", GPU), ("0000:3b:00", GPU), ("3B:00.0", GPU), ("00010000:3b:00.0", "10000:3b:00")]
)
def test_a_gpu_has_one_name_in_both_sources(text, device) -> None:
    assert normalise_pci(text) == device


def append(path: Path, *lines: str) -> None:
    with path.open("a") as file:
        file.write("".join(f"{line}\n" for line in lines))


def told(log: KernelLog, now_s: float = 0.0) -> list[tuple[str, float | None]]:
    return [(reading.what, reading.value) for reading in log.poll(now_s) if isinstance(reading, HardwareReading)]


def test_a_growing_file_is_read_from_its_end(tmp_path) -> None:
    path = tmp_path / "kern.log"
    append(path, f"[1.0] {XID_79}")
    log = KernelLog(str(path))
    assert log.poll(0.0) == [SourceReading("kernel_log", True, "it can be read")]
    append(path, "[2.0] eth0: link up", "[2.1] NVRM: Xid (PCI:0000:3b:00): 94, pid=7, contained")
    with path.open("a") as file:
        file.write("[2.2] NVRM: Xid (PCI:0000:3b:00): 4")
    assert told(log) == [("xid", 94.0)]
    append(path, "8")
    assert told(log) == [("xid", 48.0)]
    log.close()


def test_a_file_that_is_rotated_or_cut_is_followed(tmp_path) -> None:
    path = tmp_path / "kern.log"
    append(path, "[1.0] old")
    log = KernelLog(str(path))
    log.poll(0.0)
    path.rename(tmp_path / "kern.log.1")
    append(path, f"[2.0] {XID_79}")
    assert told(log) == [("xid", 79.0)]
    path.write_text("")
    log.poll(1.0)
    append(path, "[3.0] NVRM: Xid (PCI:0000:3b:00): 48, x")
    assert told(log, 2.0) == [("xid", 48.0)]
    log.close()


def test_a_file_that_is_not_there_is_blindness_with_its_remedy_said_once_and_what_comes_is_new(tmp_path) -> None:
    path = tmp_path / "kern.log"
    log = KernelLog(str(path))
    (word,) = log.poll(0.0)
    assert not word.ok  # type: ignore[union-attr]
    assert "name another in detectors.gpu_fault.kernel_log" in log.why_not
    assert log.poll(1.0) == []
    append(path, f"[2.0] {XID_79}")
    assert told(log, 2.0) == [("xid", 79.0)]
    assert log.why_not == ""
    path.unlink()
    path.mkdir()
    log.close()
    log.poll(3.0)
    assert "the kernel log cannot be read" in log.why_not


def test_a_storm_is_bounded(tmp_path) -> None:
    path = tmp_path / "kern.log"
    path.touch()
    log = KernelLog(str(path))
    log.poll(0.0)
    append(path, *[XID_79] * 10_000)
    assert told(log) == [("xid", 79.0)]
    assert log.has_more
    while log.has_more:
        log.poll(0.0)
    append(path, *[f"NVRM: Xid (PCI:0000:3b:00): {number}, x" for number in range(1000)])
    assert len(told(log)) == kernel_log.READINGS_PER_POLL
    log.close()


def test_records_of_dev_kmsg() -> None:
    assert read_record(f"3,1234,567890,-;{XID_79}\n SUBSYSTEM=pci\n".encode()) == XID_79
    assert read_record(b"6,1,2,-,caller=T1;text; with; more\n") == "text; with; more"
    assert read_record(f"12,1234,567890,-;{XID_79}\n".encode()) is None  # written by a program, facility user
    for junk in (b"", b"\n", b";", b"x,1;y", b"3,1,2,-", b"\xff\xfe;", b"99999999999999999,1;x"):
        assert read_record(junk) is None


class Kmsg:
    """os.read and friends as /dev/kmsg answers them."""

    def __init__(self, *records: bytes | OSError) -> None:
        self.records = list(records)

    def read(self, handle: int, size: int) -> bytes:
        if not self.records:
            raise BlockingIOError
        record = self.records.pop(0)
        if isinstance(record, OSError):
            raise record
        return record


@pytest.fixture
def kmsg(tmp_path, monkeypatch):
    (tmp_path / "kmsg").touch()
    device = Kmsg()
    monkeypatch.setattr(kernel_log.os, "read", device.read)
    log = KernelLog(str(tmp_path / "kmsg"), kmsg=True)
    yield log, device
    log.close()


def test_overwritten_records_are_counted_and_reading_goes_on(kmsg) -> None:
    log, device = kmsg
    assert log.poll(0.0) == [SourceReading("kernel_log", True, "it can be read")]
    device.records = [OSError(errno.EPIPE, "Broken pipe"), f"3,9,9,-;{XID_79}\n".encode(), b"6,10,9,-;other\n"]
    assert told(log) == [("xid", 79.0)]
    assert log.overruns == 1


def test_a_kernel_log_that_breaks_is_blindness_and_comes_back(kmsg) -> None:
    log, device = kmsg
    log.poll(0.0)
    device.records = [OSError(errno.EIO, "Input/output error")]
    (word,) = log.poll(1.0)
    assert (word.ok, "Input/output error" in word.reason) == (False, True)
    assert log.poll(2.0) == [SourceReading("kernel_log", True, "it can be read")]


def test_a_kernel_log_that_opens_but_cannot_be_read_is_absent_and_does_not_flap(kmsg) -> None:
    log, device = kmsg
    device.records = [PermissionError(errno.EPERM, "Operation not permitted")]
    (word,) = log.poll(0.0)
    assert (word.what, "Operation not permitted" in word.text) == ("absent", True)
    assert log.poll(1.0) == []


def test_a_kernel_log_that_may_not_be_read_is_said_once_with_its_remedy(tmp_path) -> None:
    log = KernelLog(str(tmp_path / "kmsg"), kmsg=True)
    (word,) = log.poll(0.0)
    assert isinstance(word, HardwareReading)
    assert word.what == "absent"
    assert "kernel.dmesg_restrict=0" in word.text
    assert log.poll(1.0) == []


@pytest.mark.skipif(not os.access(KMSG, os.R_OK), reason=f"{KMSG} may not be read here")
def test_the_real_kernel_log_is_opened_at_its_end() -> None:
    log = KernelLog()
    try:
        readings = log.poll(0.0)
    finally:
        log.close()
    assert isinstance(readings[0], SourceReading | HardwareReading)  # in a container the open may be refused all the same
    if log.why_not == "":
        assert readings == [SourceReading("kernel_log", True, "it can be read")]
