"""disk_full and disk_filling: there is no room for the next checkpoint, or there will be none within `hours_ahead`.

Sees: free bytes and inodes of the filesystems that hold the checkpoints and the run directory; what a checkpoint takes and how
often one comes, measured on the complete ones that lie there; how many stay; what others take, as a steady trend over hours.
disk_full (critical): the next save does not fit. disk_filling (warning): a save within `hours_ahead` will not. A filesystem that
gets no checkpoints is judged by the trend alone, and full below RESERVE_BYTES. Both only tell, and are over when the room was
measured again. Does not see: quotas that statvfs does not show, and a save that is larger than all recent ones. Fewer than two
checkpoints: no rate is known, and only what does not fit now is told.

The room is the best of the last SETTLED_S, for a save under way takes its room before it counts, and what retention deletes
gives it back late. Where the filesystem counts no inodes, or does not answer, nothing is known: neither that there is room nor
that there is none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sentinel.detectors.contract import Detector, WatchedRun
from sentinel.detectors.disk_forecast import (
    Growth,
    Stock,
    fits,
    full_in_s,
    measure_growth,
    measure_loss,
    measure_rhythm,
)
from sentinel.detectors.disk_memory import (
    AT_LAUNCH,
    Disk,
    DiskSample,
    Level,
    Outlook,
    Quantity,
    bytes_words,
    evidence,
    lacks_room,
    metric_of,
    taken,
)
from sentinel.detectors.settings import setting
from sentinel.model.disks import DiskReading
from sentinel.model.findings import Finding, Kind, Severity, Verdict
from sentinel.model.readings import SourceReading

KIND = Kind("disk_full")
FILLING = Kind("disk_filling")
SOURCE = "disks"
DISKS_MAX = 8
FRESH_S = 240.0  # an older look says nothing of now
SETTLED_S = 300.0
CALM_S = 120.0
CALM_FACTOR = 1.25  # so much later than `hours_ahead` before a forecast is called over
BUCKETS_AHEAD = 72  # that `hours_ahead` is cut into
RESERVE_BYTES, RESERVE_FILES = 64 << 20, 1000  # of a filesystem without checkpoints: what a journal and logs may need


@dataclass(frozen=True, slots=True)
class DiskFullSettings:
    """The disk that holds the checkpoints fills up."""

    enabled: bool = setting(True, "flag", "Whether this detector runs.")
    ahead_s: float = setting(12 * 3600.0, "seconds", "How long before it is full a person is told.", alias="hours_ahead")


class DiskFull(Detector):
    kind = KIND

    def __init__(self, settings: DiskFullSettings, run: WatchedRun) -> None:
        self._ahead_s = settings.ahead_s
        self._run = run
        self._attempt = 0
        self._disks: dict[str, Disk] = {}
        self._blind = ""

    def launch(self, attempt: int, now_s: float) -> None:
        """A disk that is still full is told again, of this attempt."""
        self._attempt = attempt
        for disk in self._disks.values():
            for quantity in disk.quantities.values():
                quantity.announced_level = ""

    def source(self, reading: SourceReading) -> None:
        if reading.source == SOURCE:
            self._blind = "" if reading.ok else reading.reason

    def disk(self, reading: DiskReading, now_s: float) -> None:
        """One look. Memory is bounded whatever is mounted."""
        disk = self._disks.get(reading.mount)
        if disk is None:
            if len(self._disks) >= DISKS_MAX:
                return
            disk = self._disks[reading.mount] = Disk(reading, now_s)
        disk.reading, disk.read_s = reading, now_s
        newest = reading.saves[-1].step if reading.saves else -1
        if reading.count is not None and newest != disk.newest:
            disk.newest = newest
            disk.counts.append(reading.count)
        for quantity in disk.quantities.values():
            self._look(disk, quantity, now_s)

    def _look(self, disk: Disk, quantity: Quantity, now_s: float) -> None:
        free = disk.reading.free_bytes if quantity.what == "bytes" else disk.reading.free_inodes
        if free is None:
            quantity.looks.clear()
            quantity.hours.clear()
            quantity.outlook = quantity.calm_since_s = quantity.roomy_since_s = None
            return
        usual, count = taken(disk, quantity.what)[1], disk.reading.count or 0
        look = DiskSample(now_s, float(free), free + count * usual, count)
        quantity.looks.append(look)
        while now_s - quantity.looks[0].at_s > SETTLED_S:
            quantity.looks.popleft()
        bucket_s, hours = self._ahead_s / BUCKETS_AHEAD, quantity.hours
        if not hours or now_s // bucket_s > hours[-1].at_s // bucket_s:
            hours.append(look)
        elif look.least_free > hours[-1].least_free:
            hours[-1] = look
        self._judge(disk, quantity, now_s)

    def _judge(self, disk: Disk, quantity: Quantity, now_s: float) -> None:
        found = quantity.outlook = self._outlook(disk, quantity, now_s)
        quantity.calm_since_s = _since(quantity.calm_since_s, found is not None and found.is_easy, now_s)
        quantity.roomy_since_s = _since(quantity.roomy_since_s, found is not None and found.is_roomy, now_s)
        if found is None:
            return
        if quantity.announced_level == "full" and _has_lasted(quantity.calm_since_s, now_s):
            quantity.announced_level = "" if found.level == "filling" else "filling"
        if _has_lasted(quantity.roomy_since_s, now_s):
            quantity.announced_level = ""

    def _outlook(self, disk: Disk, quantity: Quantity, now_s: float) -> Outlook | None:
        """None where nothing can be said: no checkpoint has shown what one takes."""
        if disk.reading.count is None:
            return self._without_saves(disk, quantity, now_s)
        if not disk.reading.saves:
            return None
        best = max(quantity.looks, key=lambda look: look.least_free)
        largest, usual = taken(disk, quantity.what)
        stock = Stock(best.least_free - disk.reading.count * usual, largest, usual, _loss(quantity))
        rhythm = measure_rhythm(disk.reading.saves, now_s - disk.read_s, self._run.step_time_s)
        least = min(look.count for look in quantity.looks)
        growth = measure_growth(self._run.kept, disk.counts, disk.reading.count, least, rhythm)
        is_bounded = disk.is_bounded = growth.room is not None
        next_fits = fits(stock, 1) or (growth.room is not None and growth.room < 0 and fits(stock, 1 + growth.room, growth))
        in_s = None if rhythm is None else full_in_s(stock, rhythm, growth, CALM_FACTOR * self._ahead_s)
        in_s = in_s if next_fits else 0.0 if rhythm is None else rhythm.due_s
        level: Level = "full" if not next_fits else "filling" if in_s is not None and in_s <= self._ahead_s else ""
        is_easy = next_fits and (is_bounded or fits(stock, 2))
        reason = evidence(disk, quantity.what, stock, rhythm, growth, level, in_s, now_s)
        return Outlook(level, stock, is_easy and in_s is None, is_easy, reason)

    def _without_saves(self, disk: Disk, quantity: Quantity, now_s: float) -> Outlook:
        reserve = RESERVE_BYTES if quantity.what == "bytes" else RESERVE_FILES
        free = max(look.free for look in quantity.looks)
        stock = Stock(free, reserve, 0.0, _loss(quantity))
        has_room = free >= reserve
        in_s = 0.0 if not has_room else (free - reserve) / stock.lost_per_s if stock.lost_per_s else None
        level: Level = "full" if not has_room else "filling" if in_s is not None and in_s <= self._ahead_s else ""
        is_roomy = has_room and (in_s is None or in_s > CALM_FACTOR * self._ahead_s)
        reason = evidence(disk, quantity.what, stock, None, Growth(), level, in_s, now_s)
        return Outlook(level, stock, is_roomy, free >= 2 * reserve, reason)

    def hardware_tick(self, now_s: float) -> Sequence[Finding]:
        """What is new since the last look, while an attempt trains: only that saves."""
        if not self._run.is_alive or not self._attempt or self._blind:
            return ()
        found = []
        for disk in self._disks.values():
            for quantity in disk.quantities.values():
                outlook = quantity.outlook
                if outlook is None or now_s - disk.read_s > FRESH_S or outlook.level in ("", quantity.announced_level):
                    continue
                if quantity.announced_level == "full":
                    continue  # it has eased, and is not over yet
                quantity.announced_level = outlook.level
                found.append(self._finding(disk, quantity, outlook, now_s))
        return found

    def _finding(self, disk: Disk, quantity: Quantity, outlook: Outlook, now_s: float) -> Finding:
        kind = KIND if outlook.level == "full" else FILLING
        severity: Severity = self._run.severity(kind)
        metric = metric_of(quantity.what, disk.reading.mount)
        return Finding(
            kind, severity, self._attempt, None, self._run.newest_step, now_s, outlook.reason, metric=metric,
            value=float(round(outlook.stock.free)), baseline=float(outlook.stock.largest), outside=True,
        )  # fmt: skip

    def over(self, kind: Kind, metric: str, now_s: float) -> str:
        for disk in self._disks.values():
            for quantity in disk.quantities.values():
                if metric_of(quantity.what, disk.reading.mount) != metric or quantity.outlook is None:
                    continue
                if self._blind or now_s - disk.read_s > FRESH_S:
                    continue
                since_s = quantity.calm_since_s if kind is KIND else quantity.roomy_since_s
                if _has_lasted(since_s, now_s):
                    return f"there is room again: {quantity.outlook.reason}"
        return ""

    def lacks_room(self, now_s: float) -> str:
        """Why an attempt that is launched now could not save AT_LAUNCH checkpoints; empty where it could, or nothing is known."""
        if self._blind:
            return ""
        for disk in self._disks.values():
            if now_s - disk.read_s > FRESH_S or disk.reading.count is None:
                continue
            if reason := lacks_room(disk.reading, 1 if disk.is_bounded else AT_LAUNCH):
                return reason
        return ""

    def seen(self, now_s: float) -> tuple[DiskReading, ...]:
        """The disks as they stand now; none whose last look is old, and none while nobody can look."""
        return () if self._blind else tuple(disk.reading for disk in self._disks.values() if now_s - disk.read_s <= FRESH_S)

    def room_of(self, steps: Sequence[int]) -> str:
        """What these checkpoints take, in words: at least as much as of those that were looked at."""
        saves = {save.step: save.bytes for disk in self._disks.values() for save in disk.reading.saves}
        seen = [saves[step] for step in steps if step in saves]
        more = "" if len(seen) == len(steps) else "at least "
        return f"{more}{bytes_words(sum(seen))}"

    def verdict(self) -> tuple[Verdict, str]:
        if self._blind:
            return Verdict.UNKNOWN, self._blind
        if not self._disks:
            return Verdict.UNKNOWN, "the disks have not been looked at yet"
        outlooks = [q.outlook for disk in self._disks.values() for q in disk.quantities.values() if q.outlook is not None]
        for level in ("full", "filling"):
            for outlook in outlooks:
                if outlook.level == level:
                    return Verdict.BREACHED, outlook.reason
        if unsaved := [disk for disk in self._disks.values() if disk.reading.count is not None and not disk.reading.saves]:
            free = f"{bytes_words(unsaved[0].reading.free_bytes)} are free on {unsaved[0].reading.mount}"
            return Verdict.UNKNOWN, f"{free}; no checkpoint has shown yet what one takes"
        return Verdict.HEALTHY, outlooks[0].reason if outlooks else "there is room"


def _loss(quantity: Quantity) -> float:
    return measure_loss([look.at_s for look in quantity.hours], [look.least_free for look in quantity.hours])


def _since(since_s: float | None, holds: bool, now_s: float) -> float | None:
    return None if not holds else now_s if since_s is None else since_s


def _has_lasted(since_s: float | None, now_s: float) -> bool:
    return since_s is not None and now_s - since_s >= CALM_S
