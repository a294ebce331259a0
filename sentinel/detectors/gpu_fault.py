"""gpu_fault and hardware_warning: what the GPUs and the kernel say of sick hardware, judged by what has to be done about it.

Sees: Xids from NVML and the kernel log (one fault where both report the same), the driver's recovery action, GPUs that are gone,
rising uncorrected memory errors, row remapping, clocks held down by heat or a power brake, NVLink errors, machine checks, PCIe,
memory and disk errors. Does not see: a GPU that computes wrong values in silence, and what happened before it looked: the first
value of a counter or a state is where it starts from, recorded as info where it is not well.

A fault is judged SETTLE_S after its first sign, when its whole story is there: the Xid, then the driver's own word (Xid 154,
NVML's recovery action), which outranks the table of Xids. Critical is what lost work or soon will (gpu_fault): retryable where a
restart of the application is enough, not where the GPU or the node has to be reset first. What only wears out is a warning to a
person (hardware_warning), and so is an Xid for which no action is known. An application's own Xids are info. Each is reported
once an attempt and device, so a storm is one finding. GPUs that this run does not use give info only. A fault of another node on
which no rank of the run is, by the heartbeats of all ranks and by what its agent sees, is a warning: what nobody computes on
loses no work. While some rank has not told where it is, the fault counts in full.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace

from sentinel.detectors.contract import Detector, WatchedRun
from sentinel.detectors.hardware_part import TEXT_CHARS, HardwarePart
from sentinel.detectors.settings import setting
from sentinel.detectors.xids import NEED_WORDS, UNKNOWN_XID, XIDS, Need, need_of_recovery
from sentinel.model.amounts import time_words
from sentinel.model.findings import Finding, Kind, Severity, Verdict
from sentinel.model.host_names import short_name
from sentinel.model.readings import HardwareReading, Receipt, SourceReading, StepReading

SETTLE_S = 2.0
RECENT_S = 120.0  # how long before a crash or a hang a fault may be its cause
RECENT_KEPT = 8
PARTS_MAX, PARTS_BY_AGENT_MAX = 256, 4096
REPORTED_MAX = 512
SOURCES_MAX = 8
SOURCES = ("nvml", "kernel_log", "agents")

_RISING: dict[str, Severity] = {
    "ecc_uncorrected": "warning", "row_remap_pending": "warning", "row_remap_failure": "warning", "nvlink_errors": "info",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class GpuFaultSettings:
    """What the GPUs and the kernel say of sick hardware: gpu_fault, and hardware_warning for what only needs a person."""

    enabled: bool = setting(True, "flag", "Whether this detector runs.")
    nvml: bool = setting(True, "on or off", "Ask the NVIDIA driver, in a process of its own.")
    kernel_log: str = setting(
        "/dev/kmsg", "kernel log", "Where the kernel log is read: /dev/kmsg, a text file that grows, or off."
    )
    throttle_s: float = setting(
        300.0, "seconds", "Clocks held down by heat or a power brake for so long are a warning.", alias="throttle"
    )


class GpuFault(Detector):
    """What the hardware's sources say, judged at each `hardware_tick`. Memory is bounded whatever they say."""

    kind = Kind.GPU_FAULT

    def __init__(self, settings: GpuFaultSettings, run: WatchedRun) -> None:
        self._settings = settings
        self._severity = run.severity
        self._run = run
        self._attempt = 0
        self._parts: dict[str, HardwarePart] = {}
        self._blind: dict[str, str] = {}
        self._reported: set[tuple[str, str]] = set()
        self._due: deque[Finding] = deque(maxlen=REPORTED_MAX)
        self._recent: dict[str, tuple[float, HardwarePart]] = {}
        self._worst = ""
        self._world_size: int | None = None

    def launch(self, attempt: int, now_s: float) -> None:
        """Another attempt: what happens again is reported again. What is known of the parts stays, and a fault that only a reset
        or a reboot ends is a fault of this attempt, too."""
        self._attempt = attempt
        self._reported.clear()
        self._worst = ""
        for part in self._parts.values():
            if part.unmet is not Need.NOTHING:
                part.add_sign(f"not mended since: {part.unmet_for}", part.unmet, now_s)

    def resume(self, receipt: Receipt, history: tuple[StepReading, ...], now_s: float) -> None:
        """A local rank is the rank only where every rank has a visible GPU here."""
        self._world_size = receipt.world_size

    def source(self, reading: SourceReading) -> None:
        if reading.source in SOURCES:
            self._see(reading.source, reading.ok, reading.reason)

    def _see(self, name: str, ok: bool, reason: str) -> None:
        """A source of this detector went blind or sees again."""
        if ok:
            self._blind.pop(name, None)
        elif name in self._blind or len(self._blind) < SOURCES_MAX:
            self._blind[name] = reason[:TEXT_CHARS]

    def hardware(self, reading: HardwareReading, now_s: float) -> None:
        """One reading; what it leads to comes with the next tick."""
        if reading.what == "absent":
            self._see(reading.source, False, reading.text)
            return
        name = reading.device or reading.host or "machine"
        if reading.by_agent and reading.device:
            name = f"{reading.host}/{reading.device}"  # every node has a GPU of that address
        part = self._parts.get(name)
        if part is None:
            if len(self._parts) >= (PARTS_BY_AGENT_MAX if reading.by_agent else PARTS_MAX):
                return
            part = self._parts[name] = HardwarePart()
        part.locate(reading)
        match reading.what:
            case "seen":
                pass
            case "xid":
                self._xid(name, part, reading, now_s)
            case "recovery_action":
                self._recovery(name, part, reading, now_s)
            case "gpu_lost":
                self._gone(name, part, reading, now_s)
            case "throttle":
                part.throttled_by = reading.text[:TEXT_CHARS]
                part.throttled_s = (now_s if part.throttled_s is None else part.throttled_s) if reading.value else None
            case "ecc_uncorrected" | "row_remap_pending" | "row_remap_failure" | "nvlink_errors":
                self._rising(name, part, reading, now_s)
            case "machine_check_corrected":
                self._report(Kind.HARDWARE_WARNING, "info", name, part, reading.what, reading.text, reading.value, now_s)
            case "machine_check" | "memory_error" | "pcie_error" | "io_error" | "oom_kill":
                severity: Severity = "info" if reading.what == "oom_kill" else "warning"  # the crash that follows is the alarm
                self._note(reading.text, part, now_s)
                self._report(Kind.HARDWARE_WARNING, severity, name, part, reading.what, reading.text, reading.value, now_s)

    def hardware_tick(self, now_s: float) -> tuple[Finding, ...]:
        """What has settled or lasted long enough by now."""
        if not self._attempt:
            return ()
        limit_s = self._settings.throttle_s
        for name, part in self._parts.items():
            if part.since_s is not None and now_s - part.since_s >= SETTLE_S and not self._awaits_places(part):
                self._settle(name, part)
            if part.throttled_s is not None and now_s - part.throttled_s >= limit_s:
                text, since_s = f"{part.throttled_by}, for over {time_words(limit_s)}", part.throttled_s
                self._report(Kind.HARDWARE_WARNING, "warning", name, part, "throttle", text, 1.0, since_s)
        if not self._due:
            return ()
        found = tuple(replace(finding, attempt=self._attempt, detected_step=self._run.newest_step) for finding in self._due)
        self._due.clear()
        return found

    def explain(self, now_s: float) -> tuple[str, int | None]:
        """What the hardware said in the two minutes before now, newest last, and the one rank it points at; '' for nothing."""
        parts = {text: part for text, (seen_s, part) in self._recent.items() if now_s - seen_s <= RECENT_S}
        recent = {text: self._rank_on(part) for text, part in parts.items() if not self._is_apart(part)}
        ranks = {rank for rank in recent.values() if rank is not None}
        return "; ".join([*recent][-3:]), ranks.pop() if len(ranks) == 1 else None

    def verdict(self) -> tuple[Verdict, str]:
        if self._worst:
            return Verdict.BREACHED, self._worst
        gpus = sum(part.is_gpu and not part.by_agent for part in self._parts.values())
        if self._blind or not gpus:
            return Verdict.UNKNOWN, "; ".join(self._blind.values()) or "no GPU was seen yet"
        return Verdict.HEALTHY, f"{gpus} GPUs are seen, and none has failed in this attempt"

    @property
    def gpus_in_use(self) -> int | None:
        """GPUs of this machine on which a process of this run was seen; None while none was: it may run where nobody looks."""
        own = (part for part in self._parts.values() if not part.by_agent)  # an agent tells of those alone that are news
        return sum(part.is_gpu and part.used and part.rank is not None for part in own) or None

    # What one reading means.

    def _xid(self, name: str, part: HardwarePart, reading: HardwareReading, now_s: float) -> None:
        number = _code(reading)
        xid = XIDS.get(number, UNKNOWN_XID)
        self._note(f"GPU {name}: Xid {number}, {xid.words}", part, now_s)
        if xid.critical:
            part.add_sign(f"Xid {number}: {xid.words}", xid.need, now_s, number)
        elif xid.need is Need.ASK:
            text = f"{reading.text}: {xid.words}; {NEED_WORDS[Need.ASK]}"
            self._report(Kind.HARDWARE_WARNING, "warning", name, part, f"xid{number}", text, number, now_s)
        else:
            self._report(Kind.GPU_FAULT, "info", name, part, f"xid{number}", f"{reading.text}: {xid.words}", number, now_s)

    def _recovery(self, name: str, part: HardwarePart, reading: HardwareReading, now_s: float) -> None:
        code, before = _code(reading), part.values.get(reading.what)
        part.values[reading.what], part.action_s = code, now_s
        if code == 0 and not part.values.get("gpu_lost"):
            part.unmet = Need.NOTHING
        if need_of_recovery(code) is Need.NOTHING or before == code:
            return
        if before is None and reading.source == "nvml" and part.since_s is None:
            self._before(name, part, reading, now_s)
            return
        self._note(f"GPU {name}: {reading.text}", part, now_s)
        part.add_sign(reading.text, need_of_recovery(code), now_s)

    def _gone(self, name: str, part: HardwarePart, reading: HardwareReading, now_s: float) -> None:
        before, value = part.values.get(reading.what), reading.value or 0.0
        part.values[reading.what] = value
        if not value or before:
            return
        if before is None and reading.source == "nvml" and part.since_s is None:
            self._before(name, part, reading, now_s)
            return
        self._note(f"GPU {name}: {reading.text}", part, now_s)
        part.add_sign(reading.text, Need.REBOOT_NODE, now_s)

    def _rising(self, name: str, part: HardwarePart, reading: HardwareReading, now_s: float) -> None:
        before, value = part.values.get(reading.what), reading.value or 0.0
        part.values[reading.what] = value
        if before is None and value and reading.what != "nvlink_errors":  # a few of those are in every machine's past
            self._before(name, part, reading, now_s)
        elif before is not None and value > before:
            severity = _RISING[reading.what]
            self._report(Kind.HARDWARE_WARNING, severity, name, part, reading.what, reading.text, value, now_s)

    # What it leads to.

    def _before(self, name: str, part: HardwarePart, reading: HardwareReading, now_s: float) -> None:
        text = f"since before the watch began: {reading.text}"
        self._report(Kind.HARDWARE_WARNING, "info", name, part, f"{reading.what}_before", text, reading.value, now_s)

    def _settle(self, name: str, part: HardwarePart) -> None:
        """The whole story of one fault. The driver's own word, when it came with or after the fault, outranks the table."""
        assert part.since_s is not None, "only a fault that began can settle"
        need, by = part.need, ""
        if part.action_s >= part.since_s:
            need, by = max(need_of_recovery(int(part.values["recovery_action"])), Need.RESTART_APP), " (the driver's word)"
        if part.values.get("gpu_lost"):
            need = max(need, Need.REBOOT_NODE)
        what = f"xid{part.xid}" if part.xid is not None else "recovery_action" if by else "gpu_lost"
        text = f"{'; '.join(part.texts)}; {NEED_WORDS[need]}{by}"
        retryable = need <= Need.RESTART_APP
        kind, part.was_apart = Kind.GPU_FAULT, self._is_apart(part)
        if part.was_apart:
            kind, retryable = Kind.HARDWARE_WARNING, True
            text = f"{text}; training goes on, and a later launch may still use this node: it is not left out for it"
        self._report(kind, "critical", name, part, what, text, part.xid, part.since_s, retryable=retryable)
        part.settled(need)

    def _report(
        self, kind: Kind, severity: Severity, name: str, part: HardwarePart, what: str, text: str, value: float | None,
        seen_s: float, *, retryable: bool = True,
    ) -> None:  # fmt: skip
        """A finding, unless it was reported in this attempt. Above info, the severity is that of the policy's rule."""
        if (what, name) in self._reported or len(self._reported) >= REPORTED_MAX:
            return
        self._reported.add((what, name))
        rank = self._rank_on(part)
        device = part.device or name
        who = f"GPU {device}" if part.is_gpu or severity == "critical" or kind is Kind.GPU_FAULT else device
        where = f" on {part.host}" if part.host and part.host != device else ""
        idle = "" if part.used else " (this run does not use it)"
        if part.used and self._is_apart(part):
            idle = ", where no rank of this run is"
        reason = f"{who}{where}{idle}: {text[:TEXT_CHARS]}"
        severity = "info" if severity == "info" or not part.used else self._severity(kind)
        if severity != "info":
            self._worst = reason
        number = None if value is None else float(value)
        finding = Finding(
            kind, severity, self._attempt, None, 0, seen_s, reason, metric=f"{what}@{name}", value=number,
            blamed_rank=rank if part.used else None, retryable=retryable or severity == "info",
            blamed_node=part.host if part.used else "",
        )  # fmt: skip
        self._due.append(finding)

    def _rank_on(self, part: HardwarePart) -> int | None:
        rank = part.rank_in(self._world_size)
        return rank if rank is not None and rank < self._run.rank_end else None

    @property
    def _are_places_known(self) -> bool:
        """Every rank of the attempt has told on which machine it is; never where nobody said how many there are."""
        return len(self._run.hosts) >= self._run.rank_end

    def _is_apart(self, part: HardwarePart) -> bool:
        """Its machine has no rank of the run: its agent saw none, and all ranks tell that they are elsewhere. Of its own machine
        the supervisor cannot say so: ranks in a container give another name."""
        if not part.by_agent or not part.saw_no_rank or part.rank is not None or not self._are_places_known:
            return False
        return short_name(part.host) not in {short_name(host) for host in self._run.hosts.values()}

    def _awaits_places(self, part: HardwarePart) -> bool:
        """No rank was there before, and whether one is there in a young attempt will be known in seconds."""
        return part.was_apart and not self._are_places_known

    def _note(self, text: str, part: HardwarePart, now_s: float) -> None:
        """Remember what may explain a crash or a hang soon; the same again only renews it."""
        if part.used:
            self._recent.pop((text := text[:TEXT_CHARS]), None)
            self._recent[text] = (now_s, part)
            if len(self._recent) > RECENT_KEPT:
                del self._recent[next(iter(self._recent))]


def _code(reading: HardwareReading) -> int:
    """An Xid or a recovery action as a number; -1 for one that is none."""
    value = reading.value
    return int(value) if value is not None and 0 <= value < 1e6 else -1
