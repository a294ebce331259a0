"""What an attached run says of its settings: the receipt, and an answer to every change.

Nothing is echoed. The first step of an attempt uses the samples, clips and steps the optimizer; the receipt is written behind it,
from what each of them has had. A live change is answered behind the first step under it. What the loop has not used (no
`next_samples`, no `clip_`, no `settings`) is not in force, and is refused. So is what an optimizer has that steps outside of
`settings`, even where the loop enters them; where it does so in a later step, what was claimed is taken back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from sentinel.client.overrides import Overrides
from sentinel.client.spec import Resume
from sentinel.client.stream import Stream
from sentinel.client.torch.live import LiveSettings, refusals
from sentinel.client.torch.resuming import FoundResume
from sentinel.client.torch.sampling import Sampler
from sentinel.client.torch.tuning import OF_GROUPS, Tuning

REASONS = {
    "skip": "the loop does not take its samples from run.next_samples",
    "data_seed": "a new data order needs attach(dataset_size=…) and run.next_samples",
    "clip_norm": "the loop does not clip with run.clip_",
    "precision": "the program chooses its number format itself",
    "loss_scale": "the program keeps its loss scale itself",
} | dict.fromkeys(OF_GROUPS, "the loop does not step its optimizer inside run.settings, or the optimizer has no such setting")
REASONS["weight_decay"] += "; a weight decay of 0 stays 0"


class Answers:
    """Attributes:
    clipped: the norm at which the newest step clipped; None: it did not.
    tuned: the newest step entered `settings`. read: what was read back there.
    are_due: something is to be said behind this step. is_begun: the receipt was written.
    """

    def __init__(
        self,
        tell: Callable[..., None],
        write: Callable[[Callable[[Stream], None]], None],
        tuning: Tuning,
        live: LiveSettings,
        sampler: Sampler,
        save_every: int,
    ) -> None:
        self.clipped: float | None = None
        self.tuned = False
        self.read: dict[str, Any] = {}
        self.are_due = True
        self.is_begun = False
        self._tell, self._write = tell, write
        self._tuning, self._live, self._sampler, self._save_every = tuning, live, sampler, save_every
        self._step = 0
        self._known: dict[str, Any] = {}  # the newest that was said
        self._launch = Overrides()
        self._late: list[tuple[int, int]] = []
        self._resume: dict[str, Any] = {"resume_step": 0, "resume_digest": None}
        self._passed_over: list[dict[str, Any]] = []
        self._asked: Resume | None = None
        self._changes: list[tuple[Overrides, list[tuple[int, int]]]] = []
        self._newest = self._launch  # what the settings in force come from
        self._lapsed: list[str] = []

    # -- what happens --------------------------------------------------------------------------------------------------

    def resumed(self, found: FoundResume, asked: Resume | None) -> None:
        self._resume = {"resume_step": found.step, "resume_digest": found.digest, "adopted": found.is_adopted}
        self._passed_over, self._asked = found.passed_over, asked

    def launched(self, overrides: Overrides, late: list[tuple[int, int]]) -> None:
        self._launch, self._late = overrides, late
        self._newest = overrides

    def changed(self, overrides: Overrides, late: list[tuple[int, int]]) -> None:
        self._changes.append((overrides, late))
        self._newest = overrides
        self.are_due = True

    def lapsed(self, keys: Iterable[str]) -> None:
        self._lapsed += keys
        self.are_due = True

    def begin_step(self, step: int) -> None:
        self._step, self.clipped, self.tuned = step, None, False

    @property
    def rate(self) -> Any:
        """The learning rate with which this step was made, of the first group; None where no step entered `settings` yet."""
        tuning, steps = self._tuning, self._tuning.steps
        if tuning.lr is None or not steps.first_outside:
            return tuning.lr
        return steps.rate if steps.rate is not None else tuning.scheduled_lr

    # -- what is said --------------------------------------------------------------------------------------------------

    @property
    def is_tuned(self) -> bool:
        """The step was made with the settings: its optimizers stepped inside of `settings`, and nowhere else. Where the update
        was left out, it would have been."""
        return self.tuned and not self._tuning.steps.why_doubted

    @property
    def can(self) -> set[str]:
        """The settings that this loop has used, in this step."""
        found = {"checkpoint_interval", "reset_optimizer"} | (set(self._tuning.can) if self.is_tuned else set())
        found |= {"clip_norm"} if self.clipped is not None else set()
        if self._sampler.is_used:
            found |= {"skip", "data_seed"} if self._sampler.size is not None else {"skip"}
        return found

    def effective(self) -> dict[str, Any]:
        """What the step was trained with, as its parts have had it."""
        found: dict[str, Any] = dict(self.read) if self.is_tuned else {}
        if self.clipped is not None:
            found["clip_norm"] = self.clipped if self.clipped != float("inf") else None
        if self._sampler.is_used:
            found |= self._sampler.read_back()
        found["checkpoint_interval"] = self._live.values.get("checkpoint_interval", self._save_every)
        return found | {"until": dict(self._live.until)}

    def write(self, *, params: int, world: int, gpus: int, tokens: int | None, steps: int) -> None:
        """Everything that is due, from what was read back in the step that is now done."""
        self.are_due = False
        self._known = effective = self.effective()
        if not self.is_begun:
            self._write_receipt(effective, params=params, world_size=world, gpus=gpus, tokens_per_step=tokens, steps=steps)
        changes, self._changes = self._changes, []
        for overrides, late in changes:
            self._refuse(overrides)
            self._apply(overrides, late, effective, self._step)
        if lapsed := self._lapsed:
            self._lapsed = []
            self._tell("override_lapsed", self._step, keys=lapsed, effective=effective)

    def take_back(self) -> None:
        """On one of the ranks the optimizer does not step with what was put in force. All of them drop it, at the same step."""
        keys = sorted(self._live.values.keys() & set(OF_GROUPS))
        if keys:
            why = self._tuning.steps.why_doubted or "on one of the ranks the optimizer stepped outside of run.settings"
            reason = f"{', '.join(keys)}: {why}"
            self._tell("override_refused", self._step, id=self._newest.id, reason=reason, keys=keys)
            self._live.drop(keys)

    def _write_receipt(self, effective: dict[str, Any], **sizes: int | None) -> None:
        self.is_begun = True
        live = self.is_tuned or self.clipped is not None
        capabilities = [*(["skip"] if self._sampler.is_used else []), *(["live_overrides"] if live else [])]
        receipt = self._resume | sizes | {"effective": effective}
        receipt |= {"overrides": self._launch.in_force(), "capabilities": capabilities}
        receipt |= {"skip_clamped": self._late, "passed_over": self._passed_over}
        receipt |= {"cursor": self._sampler.cursor} if self._sampler.is_used else {}
        self._write(lambda stream: stream.start(**receipt))
        self._refuse(self._launch)
        if self._passed_over:
            asked = self._asked.step if self._asked is not None else None
            self._tell("resumed_older", self._resume["resume_step"], asked_step=asked, passed_over=self._passed_over)

    def at_once(self, step: int) -> None:
        """Answer before the settings are used: the run is to stop, and no step follows. What this change names otherwise than the
        newest step had it is not claimed."""
        changes, self._changes = self._changes, []
        for overrides, late in changes:
            known = {key: value for key, value in self._known.items() if key != "skip" and key not in overrides.given}
            self._apply(overrides, late, known, step)

    def _refuse(self, overrides: Overrides) -> None:
        doubt = self._tuning.steps.why_doubted if self.tuned else ""
        refused = refusals(overrides, self.can, REASONS | dict.fromkeys(OF_GROUPS, doubt) if doubt else REASONS)
        if refused:
            reason = "; ".join(f"{key}: {why}" for key, why in refused.items())
            self._tell("override_refused", self._step, id=overrides.id, reason=reason, keys=sorted(refused))
            self._live.drop(refused)

    def _apply(self, overrides: Overrides, late: list[tuple[int, int]], effective: dict[str, Any], step: int) -> None:
        answer = {"id": overrides.id, "effective": effective, "request": overrides.request, "skip_clamped": late}
        self._tell("override_applied", step, **answer)
