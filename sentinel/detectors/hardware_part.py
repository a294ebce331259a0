"""What gpu_fault remembers of one part of the machine: a GPU, a disk, a memory controller, or the machine itself."""

from __future__ import annotations

from dataclasses import dataclass, field

from sentinel.detectors.xids import Need
from sentinel.model.readings import HardwareReading

TEXT_CHARS = 300
TEXTS_MAX = 4


@dataclass(slots=True)
class HardwarePart:
    """`values`: states and counters as last read. `action_s`: when the driver last named a recovery action. `unmet`: what was to
    be done after an earlier fault and is not known to be done. `saw_no_rank`: as the agent of its machine last reported.
    `was_apart`: when its newest fault was judged, no rank was on its machine. From `since_s` on, of the fault that is settling:
    since when, the gravest Xid, what was said, what has to be done."""

    host: str = ""
    device: str = ""
    by_agent: bool = False
    rank: int | None = None
    place: tuple[int, int] | None = None
    used: bool = True
    saw_no_rank: bool = False
    was_apart: bool = False
    is_gpu: bool = False
    values: dict[str, float] = field(default_factory=dict)
    action_s: float = float("-inf")
    throttled_s: float | None = None
    throttled_by: str = ""
    unmet: Need = Need.NOTHING
    unmet_for: str = ""
    since_s: float | None = None
    xid: int | None = None
    xid_need: Need = Need.NOTHING
    texts: list[str] = field(default_factory=list)
    need: Need = Need.NOTHING

    def locate(self, reading: HardwareReading) -> None:
        """Who and where it is; the kernel log knows no more than the host and, at times, a process."""
        self.host, self.device, self.by_agent = reading.host[:TEXT_CHARS], reading.device or "", reading.by_agent
        self.saw_no_rank = reading.saw_no_rank
        if reading.source == "nvml":
            self.is_gpu, self.rank, self.place, self.used = True, reading.rank, reading.place, reading.used
        elif reading.rank is not None:
            self.rank = reading.rank

    def rank_in(self, world_size: int | None) -> int | None:
        """The rank whose process was seen on it, else its place, where every rank of the run has a visible GPU here."""
        if self.rank is not None or self.place is None or world_size is None:
            return self.rank
        index, count = self.place
        return index if index < world_size <= count else None

    def add_sign(self, text: str, need: Need, now_s: float, xid: int | None = None) -> None:
        """One more sign of a fault; the first begins it."""
        if self.since_s is None:
            self.since_s = now_s
        self.need = max(self.need, need)
        if xid is not None and (self.xid is None or need > self.xid_need):
            self.xid, self.xid_need = xid, need
        text = text[:TEXT_CHARS]
        if text not in self.texts and len(self.texts) < TEXTS_MAX:
            self.texts.append(text)

    def settled(self, need: Need) -> None:
        """The fault was reported with what has to be done; the next sign begins another."""
        if need > Need.RESTART_APP:
            self.unmet, self.unmet_for = need, self.texts[0] if self.unmet is Need.NOTHING else self.unmet_for
        self.since_s = self.xid = None
        self.xid_need = self.need = Need.NOTHING
        self.texts = []
