"""stale_checkpoint: training goes on, and what it has learned is not being saved.

Sees: no checkpoint committed for `intervals` times the run's own rhythm, counted in steps *and* in training seconds (a run
that saves by the clock and gets faster, or by steps and gets slower, is not late), and for `late_s` at least; three saves
begun, and gone past, with none of them committed (a trainer may have two in flight behind its steps); an age above the policy's
`max_age_s`, if it gives one.
The rhythm is what the trainer says (`checkpoint_interval` in what is in effect), else the median of the last gaps between
commits. Does not see: whether a checkpoint can be read (reading finds that, and `engine/unusable_saves.py` opens an incident of
this kind where the newest two that were read are damaged), a run that stands still (hang), a
rhythm it has never heard.

Commits are event lines and directories with a manifest, whichever comes first. A checkpoint of a trainer under a profile that is
whole and waits for its seal is saved; that none was sealed for `UNSEALED_S` is a finding of its own. Age is counted over the
stream's own times, of which one interval counts for an hour at most, so that a clock that jumps makes nothing old; a restarted
supervisor reads the same. A checkpoint older than where the attempt resumed is none of its own: the age begins at the resume.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sentinel.detectors.contract import NOTHING, Detector, Start, WatchedRun
from sentinel.detectors.settings import setting
from sentinel.model.amounts import time_words
from sentinel.model.findings import Finding, Kind, Verdict
from sentinel.model.readings import CheckpointReading, Heartbeat, Receipt, StepReading, TrainerNote

GAPS_KEPT = 9
GAPS_MIN = 3
INTERVAL_S_MAX = 3600.0
LOST_SAVES = 3
BEGUN_KEPT = 8
SETTING = "checkpoint_interval"
DAMAGED = "damaged_checkpoints"  # metric of an incident about checkpoints that come, and cannot be used
UNSEALED_S = 600.0  # a seal reads every byte, on a disk that training uses
SEEN_LATE_S = 10.0  # of a trainer under a profile a commit may be seen so late: its checkpoint is found, and then sealed


@dataclass(frozen=True, slots=True)
class StaleCheckpointSettings:
    """Training goes on and is not being saved."""

    enabled: bool = setting(True, "flag", "Whether this detector runs.")
    intervals: float = setting(
        2.5, "multiple", "Times the run's own interval between checkpoints, in steps and in seconds.", alias="after"
    )
    # By a rhythm of milliseconds a save that waits for a busy disk would be late, and nobody loses more than these seconds.
    late_s: float = setting(5.0, "seconds", "… and at least so long, however short that interval is.", alias="at_least")
    max_age_s: float | None = setting(
        None, "seconds", "And never older than this, whatever the rhythm; left out: no such limit.", alias="max_age"
    )


class StaleCheckpoint(Detector):
    kind = Kind.STALE_CHECKPOINT

    def __init__(self, settings: StaleCheckpointSettings, run: WatchedRun) -> None:
        self._settings = settings
        self._severity = run.severity(Kind.STALE_CHECKPOINT)
        self._run = run
        self._gaps: deque[tuple[int, float]] = deque(maxlen=GAPS_KEPT)
        self._learned: tuple[int, float] | None = None
        self._seen_late_s = 0.0
        self._attempt, self._base = -1, 0
        self.begin(Start(0))

    def begin(self, start: Start) -> None:
        """The rhythm is the run's and stays; the age begins again. Not where the same attempt begins again, because its stream
        was cut and is read from its start: what it has saved is saved, and nobody reports it a second time."""
        if start.attempt == self._attempt and start.resume_step <= self._base:
            return
        self._attempt = start.attempt
        self._base = self._step = start.resume_step
        self._age_s = 0.0
        self._last_time_s: float | None = None
        self._unsealed_step, self._unsealed_s = -1, 0.0  # newest that waits for its seal, and for how long one does
        self._began_s = 0.0  # supervisor time at which the newest commit was heard, or the first step of the attempt
        self._begun: list[int] = []
        self._saving: set[int] = set()
        self._declared: int | None = None
        self._fired = False
        self._why = ""

    def resume(self, receipt: Receipt, history: tuple[StepReading, ...], now_s: float) -> None:
        self._declare(receipt.effective)
        self._saving = {rank for rank in self._saving if rank < receipt.rank_end}
        self._seen_late_s = SEEN_LATE_S if receipt.profile is not None else 0.0

    def _declare(self, effective: Mapping[str, Any]) -> None:
        """What the trainer says is in effect, in its receipt or after a live change."""
        value = effective.get(SETTING)
        self._declared = value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None

    def note(self, note: TrainerNote, now_s: float) -> None:
        if note.event == "checkpoint_committed":
            self._commit(note.step, now_s)
        elif note.event == "checkpoint_found" and note.step > self._base:
            self._saved(note.step, now_s)
            self._unsealed_step = note.step
        elif note.event in ("override_applied", "override_lapsed"):
            effective = note.data.get("effective")
            before = self._declared
            if isinstance(effective, Mapping) and SETTING in effective:
                self._declare(effective)
            if self._declared != before:
                self._gaps.clear()
                self._learned = None

    def checkpoint(self, reading: CheckpointReading, now_s: float) -> None:
        self._commit(reading.step, now_s)

    def _commit(self, step: int, now_s: float) -> None:
        """A checkpoint of this step counts from now on. Where others wait for their seal behind it, sealing goes on."""
        self._unsealed_s = 0.0
        if step >= self._unsealed_step:
            self._unsealed_step = -1
        if step > self._base:
            self._saved(step, now_s)

    def _saved(self, step: int, now_s: float) -> None:
        gap = step - self._base
        if 2 * abs(self._step - step) <= gap:  # seen in time: else its seconds would say when somebody looked
            self._gaps.append((gap, self._age_s))
            self._learned = self._learn()
        self._base, self._age_s, self._began_s = step, 0.0, now_s
        self._begun = [begun for begun in self._begun if begun > step + 1]  # some trainers beat for the step to come
        if self._unsealed_s <= UNSEALED_S:
            self._fired, self._why = False, ""

    def heartbeats(self, beats: Sequence[Heartbeat], now_s: float) -> None:
        """A rank that enters the checkpoint phase begins a save."""
        saving = self._saving
        for beat in beats:
            if beat.phase == "checkpoint":
                self._begin_save(beat.rank, beat.step)
            elif saving:
                saving.discard(beat.rank)

    def _begin_save(self, rank: int, step: int) -> None:
        if rank not in self._saving and step > self._base + 1 and not {step, step - 1} & {*self._begun}:
            self._begun = [*self._begun, step][-BEGUN_KEPT:]
        self._saving.add(rank)

    def step(self, reading: StepReading, covered: int, now_s: float) -> Sequence[Finding]:
        step, time_s, last_s = reading.step, reading.time_s, self._last_time_s
        self._last_time_s = time_s
        if last_s is None:
            self._began_s = max(self._began_s, now_s)
        elif time_s > last_s and step > self._base:
            passed_s = time_s - last_s
            if passed_s > INTERVAL_S_MAX:
                passed_s = INTERVAL_S_MAX
            self._age_s += passed_s
            self._unsealed_s = self._unsealed_s + passed_s if self._unsealed_step >= 0 else 0.0
        if step > self._step:
            self._step = step
        return NOTHING

    def tick(self, now_s: float) -> Sequence[Finding]:
        """While the checkpoints cannot be listed nothing is found: what is not seen is not missing."""
        if not self._run.sees_checkpoints or self._step <= self._base:
            return NOTHING
        self._why = self._judge()
        if not self._why or self._fired:
            return NOTHING
        self._fired = True
        rhythm = self.rhythm
        found = Finding(
            Kind.STALE_CHECKPOINT, self._severity, self._attempt, self._base, self._step, self._began_s, self._why,
            metric="steps_since_checkpoint", value=float(self._step - self._base),
            baseline=float(rhythm[0]) if rhythm is not None else None,
        )  # fmt: skip
        return (found,)

    @property
    def rhythm(self) -> tuple[int, float | None] | None:
        """Steps, and seconds where known, between two checkpoints; None while neither declared nor learned."""
        learned = self._learned
        if self._declared is not None:
            return self._declared, learned[1] if learned is not None else None
        return learned

    def _learn(self) -> tuple[int, float] | None:
        """The medians of the gaps that are kept; None while they are too few."""
        if len(self._gaps) < GAPS_MIN:
            return None
        gaps, seconds = sorted(gap for gap, _ in self._gaps), sorted(age for _, age in self._gaps)
        return gaps[len(gaps) // 2], seconds[len(seconds) // 2]

    def _judge(self) -> str:
        """Why it is stale; empty when it is not, or not known to be."""
        since, rhythm, limit = self._step - self._base, self.rhythm, self._settings.intervals
        lost = self._begun
        if len(lost) >= LOST_SAVES and 2 * (self._step - lost[-1]) > lost[-1] - lost[-2]:
            steps = ", ".join(map(str, lost))
            return f"saves were begun at steps {steps} and never committed; the newest checkpoint is from step {self._base}"
        if self._unsealed_s > UNSEALED_S:
            waits = f"the checkpoint of step {self._unsealed_step} lies there whole"
            return f"{waits}, and none was sealed for {time_words(self._unsealed_s)} of training; a rollback cannot use it"
        seconds = rhythm[1] if rhythm is not None and rhythm[1] is not None else 0.0
        late_s = self._age_s > max(limit * seconds, self._seen_late_s, self._settings.late_s)
        if rhythm is not None and since > limit * rhythm[0] and late_s:
            return f"no checkpoint committed {self._since}; one every {rhythm[0]} steps is this run's rhythm"
        max_age_s = self._settings.max_age_s
        if max_age_s is not None and self._age_s > max_age_s:
            return f"no checkpoint committed {self._since}; the policy allows {time_words(max_age_s)}"
        return ""

    @property
    def _since(self) -> str:
        return f"since step {self._base}, {self._step - self._base} steps and {time_words(self._age_s)} of training ago"

    def verdict(self) -> tuple[Verdict, str]:
        if self._why:
            return Verdict.BREACHED, self._why
        if self.rhythm is None and self._settings.max_age_s is None:
            commits = f"{len(self._gaps)} of {GAPS_MIN} commits"
            return Verdict.UNKNOWN, f"the rhythm is not known yet ({commits}), and the policy has no max_age"
        return Verdict.HEALTHY, f"newest checkpoint: step {self._base}, {self._step - self._base} steps ago"
