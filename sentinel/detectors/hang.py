"""hang: the run makes no progress while processes live. Judged from heartbeats and stream lines by the supervisor's own clock.

Sees, in this order: every rank silent for longer than its phase allows; some ranks silent for so long while the others
live, stand still, and wait where ranks meet; no step for `standstill` times that limit although heartbeats change (a livelock,
a thread that only keeps a file fresh). Any changed heartbeat and any line end a silence; a step in heartbeats or lines ends
a standstill: a stream that has gone quiet under ranks that go on is no hang (stream_gap). Does not see: one slow rank among
moving ones (straggler), a run that moves but slowly (slowdown).

The limit is `after_step_times` × the learned step time, at least the floor. Where that would kill a healthy run, a longer
one holds: a rank in init, compile, eval, checkpoint or idle has that phase's limit; until the first step of the attempt is
done, and while the pace is unknown, the compile limit (the first step compiles, allocates, and opens connections); without
any heartbeat, a step line is expected once per logging interval and an evaluation or a checkpoint may hide in it. The
longest of the ranks' limits holds, because the others wait for that rank. A standstill is judged by the longest limit of all
phases seen in it: an evaluation that has just ended was one.

A supervisor that stood still itself (stopped, starved, waiting for the disk of the run) has seen nothing meanwhile, and what
stopped it may have stopped the ranks: that time counts for no silence until the next step, unless a rank is stopped by a signal.

A rank that the kernel shows stopped by a signal is in no phase at all, whatever it reported last: then the limit of a step holds.

Blamed is whom the evidence names (hang_blame.py): what is seen of the ranks first, then who fell silent while the others wait.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from sentinel.detectors.collectives import WaitedFor, judge_collectives
from sentinel.detectors.contract import NOTHING, Detector, WatchedRun
from sentinel.detectors.hang_blame import HangBlame, RankEvidence, choose_among_silent, choose_blame
from sentinel.detectors.rank_places import RANKS_MAX, Beat, choose_silent
from sentinel.detectors.settings import setting
from sentinel.model.amounts import time_words
from sentinel.model.findings import Finding, Kind, Verdict
from sentinel.model.readings import FlightRecords, Heartbeat, Phase, RanksSeen, Receipt, SilentRank, StepReading, TrainerNote

PHASE_LIMITS_S: dict[Phase, float] = {"init": 600.0, "compile": 1200.0, "eval": 900.0, "checkpoint": 600.0, "idle": 600.0}
MUTE_STEPS = 2  # a rank may be one step behind: it passes a collective before its peer has seen the end of it
HIDDEN_PHASES: tuple[Phase, ...] = ("eval", "checkpoint")


@dataclass(frozen=True, slots=True)
class HangSettings:
    """No progress while processes live."""

    enabled: bool = setting(True, "flag", "Whether this detector runs.")
    after_step_times: float = setting(
        3.0, "step times", "Silence, in multiples of the run's own step time, that is a hang.", alias="after"
    )
    floor_s: float = setting(30.0, "seconds", "Never call a shorter silence a hang.", alias="floor")
    phases: Mapping[Phase, float] = setting(PHASE_LIMITS_S, "phases", "Longest silence in a phase that is not a step.")
    standstill: float = setting(
        10.0, "multiple", "Times such a limit that heartbeats may change without a step: a livelock is a hang, too."
    )


@dataclass(frozen=True, slots=True)
class Progress:
    """What the judge knows of an attempt, times by the supervisor's clock.

    last_s, stepped_s: anything at all was heard; a step was made. `phases_since`: seen since then.
    steps_per_line: the logging interval. first_step_done: of *this* attempt. evidence: what silent ranks are seen doing.
    """

    last_s: float
    stepped_s: float
    beats: Mapping[int, Beat]
    phases_since: frozenset[Phase]
    ranks_expected: int
    first_step_done: bool
    step_time_s: float | None
    steps_per_line: int
    evidence: RankEvidence = field(default_factory=RankEvidence)


@dataclass(frozen=True, slots=True)
class HangVerdict:
    """`since_s`: when what is wrong was first visible."""

    verdict: Verdict
    limit_s: float
    silent_s: float
    since_s: float
    blamed_rank: int | None
    reason: str


def choose_limit(progress: Progress, settings: HangSettings, phases: Iterable[Phase], lines: int) -> tuple[float, str]:
    """Longest silence that is no hang, in seconds, and why; `lines`: steps that one sign of life stands for."""
    own = settings.phases
    if not progress.beats and not progress.first_step_done:
        return max(own.get("init", PHASE_LIMITS_S["init"]), settings.floor_s), "no heartbeat since launch, phase init"
    step_time, compile_s = progress.step_time_s, own.get("compile", PHASE_LIMITS_S["compile"])
    if step_time is None:
        limit, why = max(settings.floor_s, compile_s), "step time unknown"
    else:
        limit = max(settings.after_step_times * step_time * lines, settings.floor_s)
        why = f"{settings.after_step_times:g} x step time {step_time:.3g} s, floor {time_words(settings.floor_s)}"
    if not progress.first_step_done and compile_s > limit:
        limit, why = compile_s, "first step of the attempt"
    for phase in phases:
        longest = own[phase] if phase in own else PHASE_LIMITS_S.get(phase, 0.0)
        if longest > limit:
            limit, why = longest, f"phase {phase}" if progress.beats else f"no heartbeats, phase {phase} possible"
    return limit, why


def judge_hang(now_s: float, progress: Progress, settings: HangSettings) -> HangVerdict:
    """Is the attempt hanging at `now_s`? Pure; all times by the supervisor's clock, without those in which it stood still."""
    beats = progress.beats
    mute = _mute(progress, settings)
    progress = replace(progress, evidence=replace(progress.evidence, mute=mute))
    phases = [beat.phase for rank, beat in beats.items() if rank not in mute] or list(HIDDEN_PHASES)
    if progress.evidence.is_stopped:
        phases = []
    limit_s, why = choose_limit(progress, settings, phases, 1 if beats else progress.steps_per_line)
    silent_s = max(0.0, now_s - progress.last_s)
    if silent_s > limit_s:
        return _all_silent(now_s, progress, limit_s, why)
    silent = choose_silent(beats, now_s, progress.stepped_s, limit_s)
    if silent and now_s - progress.stepped_s > limit_s:
        return _some_silent(now_s, progress, silent, limit_s, why)
    if beats and now_s - progress.stepped_s > settings.standstill * limit_s:  # the longest limit is no shorter than this one
        longest_s, _ = choose_limit(progress, settings, {*phases, *progress.phases_since}, progress.steps_per_line)
        if now_s - progress.stepped_s > settings.standstill * longest_s:
            return _standstill(now_s, progress, settings.standstill * longest_s)
    reason = f"progress {time_words(silent_s)} ago, limit {time_words(limit_s)} ({why})"
    return HangVerdict(Verdict.HEALTHY, limit_s, silent_s, progress.last_s, None, reason)


def _all_silent(now_s: float, progress: Progress, limit_s: float, why: str) -> HangVerdict:
    blame = _blame(now_s, progress)
    total = max(len(progress.beats), progress.ranks_expected)
    who = f"{total}/{total} ranks silent" if total else "silent"
    reason = f"{who} for over {time_words(limit_s)} ({why}){_because(blame)}"
    return HangVerdict(Verdict.BREACHED, limit_s, now_s - progress.last_s, progress.last_s, blame.rank, reason)


def _some_silent(now_s: float, progress: Progress, silent: tuple[int, ...], limit_s: float, why: str) -> HangVerdict:
    beats = progress.beats
    total = max(len(beats), progress.ranks_expected)
    since_s = max(beats[rank].seen_s for rank in silent)
    blame = choose_among_silent(beats, silent, progress.evidence, now_s)
    who = f"{len(silent)}/{total} ranks silent for over {time_words(limit_s)}"
    reason = f"{who} ({why}) while the others live and wait{_because(blame)}"
    return HangVerdict(Verdict.BREACHED, limit_s, now_s - since_s, since_s, blame.rank, reason)


def _standstill(now_s: float, progress: Progress, limit_s: float) -> HangVerdict:
    blame = _blame(now_s, progress)
    reason = f"no step for over {time_words(limit_s)} although heartbeats change{_because(blame)}"
    return HangVerdict(Verdict.BREACHED, limit_s, now_s - progress.stepped_s, progress.stepped_s, blame.rank, reason)


def _blame(now_s: float, progress: Progress) -> HangBlame:
    expected = 0 if progress.first_step_done else progress.ranks_expected  # else who never beat has no heartbeat that arrives
    return choose_blame(progress.beats, expected, progress.evidence, now_s)


def _mute(progress: Progress, settings: HangSettings) -> frozenset[int]:
    """Ranks whose heartbeat is two steps behind and was silent long before the newest step, which was not made without them: it
    no longer arrives, and says nothing of where they stand now."""
    newest = max((beat.step for beat in progress.beats.values()), default=0)
    limit_s, _ = choose_limit(progress, settings, (), 1)
    return frozenset(
        rank
        for rank, beat in progress.beats.items()
        if newest - beat.step >= MUTE_STEPS and progress.stepped_s - beat.seen_s > limit_s
    )


def _because(blame: HangBlame) -> str:
    return f"; {blame.words}" if blame.words else ""


class Hang(Detector):
    """Remembers beats and answers `tick`: one finding per episode."""

    kind = Kind.HANG

    def __init__(self, settings: HangSettings, run: WatchedRun) -> None:
        self._settings = settings
        self._hold_s = run.hold(Kind.HANG).seconds
        self._severity = run.severity(Kind.HANG)
        self._run = run
        self.launch(0, 0.0)

    def launch(self, attempt: int, now_s: float) -> None:
        self._attempt = attempt
        self._last_s = self._stepped_s = now_s
        self._beats: dict[int, Beat] = {}
        self._seen: dict[int, SilentRank] = {}
        self._collectives: WaitedFor | None = None
        self._phases: set[Phase] = set()
        self._fired = False
        self._first_step_done = False
        self._last: HangVerdict | None = None
        self._run.longest_silence_s = float("inf")  # before the first look
        self._furthest_step = 0  # of all heartbeats
        self._away_s = 0.0  # since the last step, in which nobody looked

    def resume(self, receipt: Receipt, history: tuple[StepReading, ...], now_s: float) -> None:
        end = receipt.rank_end
        if any(rank >= end for rank in self._beats):  # heard before anybody said how many there are
            self._beats = {rank: beat for rank, beat in self._beats.items() if rank < end}
            self._furthest_step = max((beat.step for beat in self._beats.values()), default=0)
        self._seen = {rank: silent for rank, silent in self._seen.items() if rank < end}
        self._progress(now_s)

    def end(self) -> None:
        """The attempt is over: silence is natural."""
        self._last = None
        self._run.longest_silence_s = float("inf")

    def step(self, reading: StepReading, covered: int, now_s: float) -> Sequence[Finding]:
        self._first_step_done = True
        if now_s > self._last_s:  # as `_progress`, without its calls: once for every row
            self._last_s = now_s
        if now_s > self._stepped_s:
            self._stepped_s = now_s
        self._away_s = 0.0
        self._collectives = None
        if self._phases:
            self._phases.clear()
        return NOTHING

    def note(self, note: TrainerNote, now_s: float) -> None:
        """An event line is progress, but for what somebody says about the trainer: a follower may say it of one that hangs."""
        if note.event != "remark":
            self._progress(now_s)

    def _progress(self, now_s: float) -> None:
        """A line of the stream."""
        if now_s > self._last_s:
            self._last_s = now_s
        self._stepped(now_s)

    def heartbeats(self, beats: Sequence[Heartbeat], now_s: float) -> None:
        known_beats, seen = self._beats, self._seen
        for beat in beats:
            rank, step, phase = beat.rank, beat.step, beat.phase
            known = known_beats.get(rank)
            if known is not None:
                stays = known.step == step and known.phase == phase
                known_beats[rank] = Beat(step, phase, now_s, known.moved_s if stays else now_s)
            elif len(known_beats) < RANKS_MAX:
                known_beats[rank] = Beat(step, phase, now_s, now_s)
            if seen:
                seen.pop(rank, None)
            if step > self._furthest_step:
                self._furthest_step = step
                self._stepped(now_s)
            self._phases.add(phase)
        if now_s > self._last_s:
            self._last_s = now_s

    def _stepped(self, now_s: float) -> None:
        if now_s > self._stepped_s:
            self._stepped_s = now_s
        self._away_s = 0.0
        self._collectives = None
        if self._phases:
            self._phases.clear()

    def ranks_seen(self, reading: RanksSeen) -> None:
        """Holds until the rank is heard from again, a dump until the next step."""
        if isinstance(reading, FlightRecords):
            self._collectives = judge_collectives(reading.dumps)
        elif reading.rank in self._beats:
            self._seen[reading.rank] = reading

    def away(self, seconds: float) -> None:
        self._away_s += seconds

    def tick(self, now_s: float) -> Sequence[Finding]:
        run = self._run
        if self._stepped_s >= now_s:
            self._away_s = 0.0  # a step was read in this look, so after it
        evidence = RankEvidence(self._seen, self._collectives)
        progress = Progress(
            last_s=self._last_s,
            stepped_s=self._stepped_s,
            beats=self._beats,
            phases_since=frozenset(self._phases),
            ranks_expected=run.ranks_expected,
            first_step_done=self._first_step_done,
            step_time_s=run.step_time_s,
            steps_per_line=run.series.interval_steps,
            evidence=evidence,
        )
        away_s = 0.0 if evidence.is_stopped else self._away_s
        judged = self._last = judge_hang(now_s - away_s, progress, self._settings)
        run.longest_silence_s = judged.limit_s
        if judged.verdict is not Verdict.BREACHED:
            self._fired = False
            return NOTHING
        if self._fired or judged.silent_s <= judged.limit_s + self._hold_s:
            return NOTHING
        self._fired = True
        found = Finding(
            Kind.HANG, self._severity, self._attempt, None, run.newest_step, judged.since_s, judged.reason,
            value=round(judged.silent_s, 3), baseline=judged.limit_s, blamed_rank=judged.blamed_rank,
        )  # fmt: skip
        return (found,)

    def verdict(self) -> tuple[Verdict, str]:
        if self._last is None:
            return Verdict.UNKNOWN, "not judged yet"
        return self._last.verdict, self._last.reason
