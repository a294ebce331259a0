"""What a line of the kernel log says of sick hardware: a table of patterns, each with the part of the kernel that prints it.

Lines are matched from the start of their message, after whatever `dmesg`, `journalctl -k` or a syslog daemon put before it, so
that a program that merely prints such words into a syslog is believed only where it can write as the kernel.
The driver's word that a GPU is gone may take three lines, of which only the first names the GPU: `KernelLines` remembers it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from sentinel.client.late_regex import late_regex
from sentinel.model.readings import HardwareWhat
from sentinel.telemetry.gpu_sample import normalise_pci

LINE_CHARS = 1000  # of a line that are looked at
TEXT_CHARS = 300
_PREFIX = late_regex(
    r"^(?:<\d{1,3}>)?"  # a raw priority
    r"(?:[^\[\]]{0,100}\bkernel: ?)?"  # syslog: "Nov 20 10:00:00 node7 kernel: "
    r"(?:\[ *\d+\.\d+\] ?)?"  # dmesg and journalctl -o short-monotonic: "[12345.678901] "
    r"(?:[\w.-]{1,64} kernel: ?)?"  # … the latter with the host's name
    r"(?:\{\d+\})?"  # GHES numbers the lines of one record
)
_PCI = r"(?:PCI:)?([0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}(?:\.[0-9a-fA-F])?)"
# The NVIDIA driver: "NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, name=python, GPU has fallen off the bus."
_XID = late_regex(rf"NVRM: Xid \({_PCI}\): (\d{{1,4}})(?:, (.*))?")
# … without the address, as some drivers and virtual machines print it: "NVRM: Xid 79: GPU has fallen off the bus."
_BARE_XID = late_regex(r"NVRM: Xid:? (\d{1,4})(?:[:,] ?(.*))?$")
# "NVRM: The NVIDIA GPU 0000:3b:00.0", "NVRM: (PCI ID: 10de:20b0) installed in this system has", "NVRM: fallen off the bus and …"
_NAMES_GPU = late_regex(rf"NVRM: (?:The )?NVIDIA GPU (?:at )?{_PCI}")
LINES_BETWEEN = 3
_PID = late_regex(r"\bpid='?(\d{1,9})\b")
# … and from driver R565 on, as Xid 154: "GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)"
_RECOVERY = late_regex(r"GPU recovery action changed from 0x[0-9a-fA-F]+ \([^)]*\) to 0x([0-9a-fA-F]{1,4}) \(([^)]{0,80})\)")
RECOVERY_XID = 154


@dataclass(frozen=True, slots=True)
class KernelWord:
    """`pid`: the process the line blames, where it names one."""

    what: HardwareWhat
    text: str
    device: str | None = None
    value: float | None = None
    pid: int | None = None


# The first that fits decides. A named group `device` is the part the line speaks of.
_PATTERNS: tuple[tuple[HardwareWhat, re.Pattern[str]], ...] = (
    ("gpu_lost", late_regex(rf"NVRM: (?:The )?(?:NVIDIA )?GPU (?:at )?(?P<device>{_PCI}).{{0,160}}(?:fallen|fell) off the bus")),
    ("gpu_lost", late_regex(r"NVRM: .{0,80}(?:fallen|fell) off the bus")),
    # arch/x86/kernel/cpu/mce: a corrected error says so, or was found by polling ("events logged"); drivers/acpi/apei/ghes.c
    ("machine_check_corrected", late_regex(r"(?:mce: )?\[Hardware Error\]: .*(?:Corrected error|Machine check events logged)")),
    ("machine_check_corrected", late_regex(r"\[Hardware Error\]: event severity: (?:corrected|info)")),
    ("machine_check", late_regex(r"\[Hardware Error\]: event severity: (?:fatal|recoverable)")),
    ("machine_check", late_regex(r"(?:mce: )?\[Hardware Error\]: .*(?:Machine Check|Uncorrected|Deferred error|Fatal)")),
    ("machine_check", late_regex(r"mce: Uncorrected hardware memory error|Memory failure: 0x[0-9a-f]+: |.*Fatal machine check")),
    # drivers/edac: "EDAC MC0: 1 UE memory read error on CPU_SrcID#0 …"
    ("memory_error", late_regex(r"EDAC (?P<device>\w{1,32}): \d+ UE ")),
    # drivers/pci/pcie/aer.c
    ("pcie_error", late_regex(rf"(?:\w+ )?(?P<device>{_PCI}): (?:AER: )?PCIe Bus Error: severity=Uncorrect\w+ \(Fatal\)")),
    ("pcie_error", late_regex(rf"pcieport .{{0,40}}AER: .{{0,40}}Uncorrect\w+ \(Fatal\) error.{{0,40}}?(?P<device>{_PCI})")),
    # block/blk-core.c, fs/buffer.c, drivers/nvme, and the file systems
    ("io_error", late_regex(r"(?:blk_update_request: )?(?:critical \w{1,20} error|I/O error), dev (?P<device>[\w-]{1,32})")),
    ("io_error", late_regex(r"Buffer I/O error on dev(?:ice)? (?P<device>[\w-]{1,32})")),
    ("io_error", late_regex(r"nvme (?P<device>nvme\d+): (?:I/O .*timeout|controller is down|Device not ready|Removing after)")),
    ("io_error", late_regex(r"EXT4-fs error \(device (?P<device>[\w-]{1,32})\)")),
    ("io_error", late_regex(r"XFS \((?P<device>[\w-]{1,32})\): .{0,40}I/O error")),
    # mm/oom_kill.c
    ("oom_kill", late_regex(r"(?:Memory cgroup out|Out) of memory: Kill(?:ed)? process \d+")),
)  # fmt: skip
_OOM_PID = late_regex(r"Kill(?:ed)? process (\d{1,9})")


def read_kernel_line(line: str) -> KernelWord | None:
    """What the line says of the hardware; None for the thousands that say nothing. Never raises."""
    prefix = _PREFIX.match(line[:LINE_CHARS])
    message = line[prefix.end() if prefix else 0 : LINE_CHARS]
    if (xid := _XID.match(message)) is not None:
        return _read_xid(normalise_pci(xid[1]), int(xid[2]), xid[3] or "")
    if (xid := _BARE_XID.match(message)) is not None:
        return _read_xid(None, int(xid[1]), xid[2] or "")
    for what, pattern in _PATTERNS:
        found = pattern.match(message)
        if found is not None:
            device = found.groupdict().get("device")
            pid = _OOM_PID.search(message) if what == "oom_kill" else None
            return KernelWord(what, _clean(message), normalise_pci(device) if device else None, 1.0, int(pid[1]) if pid else None)
    return None


class KernelLines:
    """The lines of one kernel log in their order, for what takes more than one of them."""

    def __init__(self) -> None:
        self._gpu: str | None = None
        self._left = 0

    def read(self, line: str) -> KernelWord | None:
        """As `read_kernel_line`; a GPU that is gone has the address that a line shortly before named."""
        word = read_kernel_line(line)
        if word is not None:
            if word.what == "gpu_lost" and word.device is None and self._left > 0:
                word = replace(word, device=self._gpu)
            self._left = 0
            return word
        prefix = _PREFIX.match(line[:LINE_CHARS])
        named = _NAMES_GPU.match(line[prefix.end() if prefix else 0 : LINE_CHARS])
        if named is not None:
            self._gpu, self._left = normalise_pci(named[1]), LINES_BETWEEN
        elif self._left:
            self._left -= 1
        return None


def _read_xid(device: str | None, number: int, rest: str) -> KernelWord:
    action = _RECOVERY.search(rest)
    if number == RECOVERY_XID and action is not None:
        return KernelWord("recovery_action", f"the driver asks for: {_clean(action[2])}", device, float(int(action[1], 16)))
    pid = _PID.search(rest)
    text = f"Xid {number}" + (f" ({_clean(rest)})" if rest.strip() else "")
    return KernelWord("xid", text, device, float(number), int(pid[1]) if pid else None)


def _clean(text: str) -> str:
    """One line of printable text, bounded."""
    return "".join(char if char.isprintable() else " " for char in text).strip()[:TEXT_CHARS]
