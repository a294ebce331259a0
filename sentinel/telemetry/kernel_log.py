"""The kernel's log from now on: Xids, machine checks, failing disks and memory, and whom the kernel killed for memory.

`/dev/kmsg` gives one record a read, `prio,seq,time,flags;message`, and says EPIPE when records were overwritten before they were
read; only the kernel's own records (facility 0) are believed. Any other path is a text file that grows, as `journalctl -k -f` or
a syslog daemon writes it. What was there before the first look belongs to another time and is passed over.
"""

from __future__ import annotations

import errno
import os
import socket
from pathlib import Path

from sentinel.model.readings import HardwareReading, Reading
from sentinel.telemetry.gpu_ranks import rank_of_process
from sentinel.telemetry.kernel_lines import KernelLines, KernelWord
from sentinel.telemetry.source import SourceHealth, describe_os_error
from sentinel.telemetry.tailed_file import TailedFile

KMSG = "/dev/kmsg"
RECORD_BYTES = 1 << 14  # the kernel's longest record is half of it
RECORDS_PER_POLL = 2000
READINGS_PER_POLL = 200  # different ones; a storm of the same line is one
REMEDY = "run as root or with CAP_SYSLOG, set sysctl kernel.dmesg_restrict=0, or name a file in detectors.gpu_fault.kernel_log"


class KernelLog:
    """A `Source`. `overruns` counts how often records were lost unread."""

    def __init__(self, path: str = KMSG, run_dir: Path | None = None, *, kmsg: bool | None = None) -> None:
        self.path = path
        self.overruns = 0
        self.why_not = "not looked at yet"  # why nothing is seen; empty while it is read
        self._health = SourceHealth("kernel_log")
        self._host = socket.gethostname()
        self._run_dir = None if run_dir is None else os.path.realpath(run_dir)
        self._is_kmsg = path == KMSG if kmsg is None else kmsg
        self._file = None if self._is_kmsg else TailedFile(Path(path), self._health, from_end=True)
        self._handle: int | None = None
        self._is_absent = self._has_more = False
        self._lines = KernelLines()

    @property
    def has_more(self) -> bool:
        return self._has_more

    def poll(self, now_s: float) -> list[Reading]:
        """What the kernel logged since the last poll; the first poll only finds the end."""
        self._has_more = False
        if self._is_absent:
            return []
        out: list[Reading] = []
        if self._file is not None:
            lines = self._read_file(self._file, now_s, out)
        else:
            lines = self._read_kmsg(out)
        words = (word for word in map(self._lines.read, lines) if word is not None)
        found = list({(word.what, word.device, word.value): word for word in words}.values())
        return [*out, *map(self._reading, found[:READINGS_PER_POLL])]

    def close(self) -> None:
        """Give back the open file."""
        handle, self._handle = self._handle, None
        if handle is not None:
            os.close(handle)
        if self._file is not None:
            self._file.close()

    def _read_file(self, file: TailedFile, now_s: float, out: list[Reading]) -> list[str]:
        lines = file.read_lines(now_s, RECORDS_PER_POLL)
        self._has_more = file.has_more
        if file.trouble is not None:
            self.why_not = f"{describe_os_error(file.trouble, file.path)}: the kernel log cannot be read"
            out += self._health.lost(self.why_not)
            return []
        if file.is_open:
            self.why_not = ""
            out += [*self._health.regained(), *file.remarks]
        else:
            self.why_not = f"{self.path}: there is no such file; name another in detectors.gpu_fault.kernel_log, or off"
            out += self._health.lost(self.why_not)
        return [line.decode("utf-8", "replace") for line in lines]

    def _read_kmsg(self, out: list[Reading]) -> list[str]:
        try:
            if self._handle is None:
                self._handle = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
                os.lseek(self._handle, 0, os.SEEK_END)
            records = self._records(self._handle)
            self.why_not = ""
            out += self._health.regained()
            return records
        except OSError as error:
            seen_before = self.why_not == ""
            self.close()
            self.why_not = f"{describe_os_error(error, Path(self.path))}: the kernel log cannot be read ({REMEDY})"
            if seen_before:
                out += self._health.lost(self.why_not)
            else:  # as on most machines of people who are not root: no blindness, there was nothing to see with
                self._is_absent = True
                out.append(HardwareReading("kernel_log", "absent", self.why_not, self._host))
            return []

    def _records(self, handle: int) -> list[str]:
        messages: list[str] = []
        for _ in range(RECORDS_PER_POLL):
            try:
                record = os.read(handle, RECORD_BYTES)
            except BlockingIOError:
                return messages
            except OSError as error:
                if error.errno != errno.EPIPE:
                    raise
                self.overruns += 1
                continue
            if not record:
                return messages
            message = read_record(record)
            if message is not None:
                messages.append(message)
        self._has_more = True
        return messages

    def _reading(self, word: KernelWord) -> HardwareReading:
        rank = None if word.pid is None or self._run_dir is None else rank_of_process(word.pid, self._run_dir)
        return HardwareReading("kernel_log", word.what, word.text, self._host, word.device, word.value, rank)


def read_record(record: bytes) -> str | None:
    """The message of one /dev/kmsg record; None when it is damaged or not the kernel's own.

    >>> read_record(b"3,1234,5678,-;NVRM: Xid (PCI:0000:3b:00): 79, pid=1\\n SUBSYSTEM=pci\\n")
    'NVRM: Xid (PCI:0000:3b:00): 79, pid=1'
    """
    head, found, rest = record.partition(b";")
    priority = head.partition(b",")[0]
    if not found or not priority.isdigit() or int(priority[:6]) >> 3 != 0:
        return None
    return rest.partition(b"\n")[0].decode("utf-8", "replace")
