"""A run that is attached to its supervisor: `attach`, and what it gives the training loop (docs/own-loop.md)."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from numbers import Real
from pathlib import Path
from typing import Any, Literal

import torch

from sentinel.client.file_digest import ALGORITHMS, best_of
from sentinel.client.logged import TAKEN, whole_number
from sentinel.client.overrides import Overrides
from sentinel.client.run_layout import OVERRIDES_NAME, STREAM_NAME
from sentinel.client.session import PHASES, Session
from sentinel.client.stream import Stream
from sentinel.client.torch import resuming
from sentinel.client.torch.answering import Answers
from sentinel.client.torch.leaving import CRASHED, FINISHED, STOPPED, Leaving
from sentinel.client.torch.live import LiveSettings
from sentinel.client.torch.ranks import Alone, meet_ranks
from sentinel.client.torch.reporting import Reporter, whole
from sentinel.client.torch.sampling import Sampler
from sentinel.client.torch.saving import Committer, RankCheckpoints
from sentinel.client.torch.tuning import AttachError, NoCheckpoint, Tuning
from sentinel.client.torch.whole_state import WholeState, check_extra_state

UNSUPERVISED = 0  # its attempt
FIRST_ATTEMPT = 1  # of a supervised run; later ones begin where they are told to
CLOSE_S = 1.0  # for what is under way when an error ends the program
SAVE_EVERY = 500
Stop = Literal["", "stop_after_checkpoint", "stop_now", "superseded"]
RESERVED = frozenset(("kind", "step", "samples", "time_s"))
NOT_SAVED = ("stop_now", "superseded")


def attach(
    model: Any,
    optimizer: Any,
    *,
    total_steps: int,
    clip: float | None = None,
    save_every: int = SAVE_EVERY,
    dataset_size: int | None = None,
    data_seed: int = 0,
    tokens_per_step: int | None = None,
    share: tuple[int, int] | None = None,
    skip_grain: int = 1,
    out_dir: str | os.PathLike[str] | None = None,
    resume: Literal["newest_existing"] | None = None,
    extra_state: Mapping[str, Any] | None = None,
) -> Run:
    """Attach a training loop to its supervisor, where there is one. On every rank, after the model and the optimizer are made and
    torch.distributed is initialised, before a checkpoint is loaded.

    Args:
        optimizer: one, or a list of several.
        total_steps: optimizer steps of the whole run.
        clip: the configured norm at which `clip_` clips; None: it only measures.
        save_every: steps between checkpoints, where nobody asks for another interval.
        dataset_size: sequences in the data set. `next_samples` then gives places in it, in an order drawn from `data_seed`, anew
            in each epoch. None: it gives sample indices 0, 1, 2, …, and the program maps them to its data; a new data order
            cannot be asked for then.
        tokens_per_step: where all steps hold the same number.
        share: (number, count) among the ranks that divide a batch; by default those of torch.distributed. Give the data-parallel
            rank where ranks hold parts of one model.
        skip_grain: samples that can only be left out together, such as a batch of a stream over all ranks. A skip is widened to
            whole multiples of it, and `next_samples` is asked for whole multiples.
        out_dir: for a run that nobody supervises: checkpoints and stream go there. None: nothing is saved then.
        resume: "newest_existing": go on from the newest checkpoint that is there, in a directory of one's own, or at the first
            launch of a supervised run. Later launches begin where they are told to.
        extra_state: names and objects (a schedule, a GradScaler, averaged weights) whose state `save` holds beside the model's
            and the optimizer's, and `restore` brings back, where they are given no function.

    Raises AttachError for what cannot be, SpecError for a broken environment.
    """
    _check_counts(total_steps, save_every, clip)
    _check_share(dataset_size, share, skip_grain)
    _check_resume(resume)
    extra = check_extra_state(extra_state)
    ranks = meet_ranks()
    session = _find_session(ranks)
    return Run(
        model=model,
        optimizers=list(optimizer) if isinstance(optimizer, (list, tuple)) else [optimizer],
        total_steps=total_steps,
        clip=clip,
        save_every=save_every,
        sampler=Sampler(dataset_size, data_seed, share or (ranks.rank, ranks.size), skip_grain),
        tokens_per_step=tokens_per_step,
        out_dir=Path(out_dir) if out_dir is not None else None,
        adopts=resume == "newest_existing",
        session=session,
        ranks=ranks,
        extra_state=extra,
    )


def _find_session(ranks: Alone) -> Session | None:
    session = Session.from_environment(rank=ranks.rank if ranks.size > 1 else None)
    if session is not None and session.spec.inspect is not None:
        raise AttachError(
            "spec.json: inspect: an attached loop looks at no single samples; supervise it with --without attribution"
        )
    return session


def _check_counts(total_steps: int, save_every: int, clip: float | None) -> None:
    are_numbers = _is_whole(total_steps) and _is_whole(save_every) and (clip is None or isinstance(clip, Real))
    if not are_numbers or total_steps < 0 or save_every < 1 or not (clip is None or clip > 0):
        raise AttachError(
            f"attach(total_steps={total_steps!r}, save_every={save_every!r}, clip={clip!r}): total_steps is 0 or more, "
            "save_every 1 or more, both whole numbers, clip above 0 or None"
        )


def _check_resume(resume: object) -> None:
    if resume not in (None, "newest_existing"):
        raise AttachError(f"attach(resume={resume!r}): write 'newest_existing', or None")


def _place(call: str, value: Any) -> int:
    """A step or a cursor as it stands in a manifest, by which a relaunch goes on: numpy's and torch's whole numbers, too."""
    number = whole_number(value)
    if isinstance(value, bool) or not isinstance(number, int) or number < 0:
        raise AttachError(f"{call}: is no whole number from 0 on, and no relaunch could go on by it; give an int")
    return number


def _is_whole(value: object) -> bool:
    """numpy's numbers, and 1000.0, too."""
    return isinstance(value, Real) and float(value).is_integer()


def _check_share(dataset_size: int | None, share: tuple[int, int] | None, skip_grain: int) -> None:
    if not _is_whole(skip_grain) or skip_grain < 1:
        raise AttachError(f"attach(skip_grain={skip_grain!r}): give the number of samples, 1 or more")
    if dataset_size is not None and not (_is_whole(dataset_size) and dataset_size > 0):
        raise AttachError(f"attach(dataset_size={dataset_size!r}): give the number of samples, or None")
    if share is None:
        return
    is_pair = isinstance(share, (tuple, list)) and len(share) == 2 and all(map(_is_whole, share))
    if not is_pair or not 0 <= share[0] < share[1]:
        raise AttachError(f"attach(share={share!r}): give (number, count), where the number counts from 0 and is below the count")


class Run:
    """Made by `attach`. One thread trains; `log` and `event` may be called from others. In a forked process nothing is done.

    Attributes:
    step: the step being worked on, or the newest that is done.
    is_supervised: whether there is a supervisor.
    """

    def __init__(
        self,
        *,
        model: Any,
        optimizers: list[Any],
        total_steps: int,
        clip: float | None,
        save_every: int,
        sampler: Sampler,
        tokens_per_step: int | None,
        out_dir: Path | None,
        adopts: bool,
        session: Session | None,
        ranks: Alone,
        extra_state: Mapping[str, Any],
    ) -> None:
        self.step = 0
        self.is_supervised = session is not None
        self.total_steps = total_steps
        self._model, self._optimizers, self._clip = model, optimizers, clip
        self._save_every, self._tokens_per_step, self._adopts = save_every, tokens_per_step, adopts
        self._session, self._ranks, self._sampler = session, ranks, sampler
        self._root = session.run_dir if session is not None else out_dir
        self._is_idle = self._root is None
        self._tuning, self._live = Tuning(optimizers, watches=not self._is_idle), LiveSettings()
        self._pid = os.getpid()
        self._lock = threading.RLock()
        self._stop: Stop = ""
        self._is_restored = self._is_finished = False
        self._save_fn: Callable[[str], Any] | None = None
        self._extra_state = extra_state
        self._whole: WholeState | None = None  # where the program gives `restore` no function
        self._loads_by: Literal["", "its own", "ours"] = ""
        self._logged_s: float | None = None
        self._logged_step = 0
        self._reporter: Reporter | None = None
        committer = None
        if self._root is not None and ranks.rank == 0:
            stream = session.stream if session is not None else Stream(self._root / STREAM_NAME, UNSUPERVISED)
            self._reporter = Reporter(stream, session)
            may_commit = session.may_commit if session is not None else lambda: True
            committer = Committer(self._root, may_commit, self._tell)
        attempt = session.attempt if session is not None else UNSUPERVISED
        algorithm = best_of(session.spec.reads_digests if session is not None else ALGORITHMS)
        self._checkpoints = RankCheckpoints(committer, ranks, model, optimizers, attempt, algorithm)
        self._answers = Answers(self._tell, self._write, self._tuning, self._live, sampler, save_every)
        self._leaving = Leaving(session, self._on_way_out) if not self._is_idle else None
        self.phase("init")

    # -- the beginning -------------------------------------------------------------------------------------------------

    def restore(self, load_fn: Callable[[str], Any] | None = None) -> int:
        """Go on from the checkpoint that the supervisor names; the first step to train, 1 where there is none.

        `load_fn(directory)` loads what `save`'s function wrote, on every rank; what it raises goes on. None: what `save` writes
        without a function. Then the settings of the launch are put in force.
        """
        self._loads_by = "ours" if load_fn is None else "its own"
        if load_fn is None and not self._is_idle:
            size = self._ranks.size
            self._whole = WholeState(
                self._model, self._optimizers, self._extra_state, self._ranks.rank, size, self._sampler.shares
            )
            self._whole.check()
            load_fn = self._whole.load
        place = self.checkpoint_to_load()
        if place is not None and load_fn is not None:
            load_fn(place)
        return self.restored()

    def checkpoint_to_load(self) -> str | None:
        """The first half of `restore`, for a loop that loads by itself: the directory to load from, None for the beginning."""
        if self._is_idle or self._root is None:
            return None
        requested = self._session.spec.resume if self._session is not None else None
        found: Any = None
        if self._ranks.rank == 0:
            adopts = self._adopts and (self._session is None or self._session.attempt == FIRST_ATTEMPT)
            found = resuming.choose(self._root, requested, adopts=adopts, is_supervised=self.is_supervised)
        found = self._ranks.from_first(found)
        if found.error:
            raise NoCheckpoint(found.error)
        if found.path is not None:
            self._sampler.restore(found.manifest)
            self.step = found.step
            self._checkpoints.continue_from(found.step, found.path, found.digest)
        self._answers.resumed(found, requested)
        return str(found.path) if found.path is not None else None

    def restored(self) -> int:
        """The second half, when everything is loaded: the settings of the launch are put in force; the first step to train."""
        self._is_restored = True
        self._tuning.steps.begin()
        if self._session is not None:
            launch = self._session.spec.overrides
            self._answers.launched(launch, self._put(launch))
            self._request(launch.request)
        return self.step + 1

    def _put(self, overrides: Overrides) -> list[tuple[int, int]]:
        """Put overrides in force, as far as this trainer can; the samples whose skip comes too late."""
        self._live.take(overrides)
        if overrides.data_seed is not None:
            self._sampler.reorder(overrides.data_seed)
        if overrides.reset_optimizer:
            self._tuning.reset()
        return self._sampler.skip(overrides.skip)

    def bind(self, model: Any, optimizers: list[Any], *, total_steps: int, clip: float | None) -> None:
        """What is trained, where that is known only after `attach`; before `restored`."""
        self._model, self._optimizers, self.total_steps, self._clip = model, optimizers, total_steps, clip
        self._tuning.bind(optimizers)
        self._checkpoints.bind(model, optimizers)

    # -- the loop ------------------------------------------------------------------------------------------------------

    def steps(self, first: int) -> Iterator[int]:
        """The steps from `first` on, until the last one is done or somebody asks to stop. Then everything is written."""
        if not self._is_idle and (not self._is_restored or first != self.step + 1):
            raise AttachError(f"run.steps({first!r}): call run.restore(load_fn) first, and begin with the step that it returns")
        for step in range(first, self.total_steps + 1):
            if self._stop:
                break
            self._begin(step)
            yield step
            self._end_step(step)
        self.finish()

    def _begin(self, step: int) -> None:
        self.step = step
        self._sampler.begin_step()
        if self._is_idle:
            return
        self._answers.begin_step(step)
        self.phase("forward")
        if lapsed := self._live.lapse(step):
            self._answers.lapsed(lapsed)

    def _end_step(self, step: int) -> None:
        """What the program's own `save` had not heard of yet."""
        if self._stop == "stop_after_checkpoint" and self._save_fn is not None and self._checkpoints.saved_step != step:
            self._save(step, self._save_fn)

    def phase(self, phase: str) -> None:
        """Say what this rank does from here on: "eval" before an evaluation, "data" before loading. Words: PROTOCOL.md."""
        if phase not in PHASES:
            raise AttachError(f"run.phase({phase!r}): is no phase; use one of {', '.join(PHASES)}")
        if self._session is not None and os.getpid() == self._pid:
            self._session.heartbeat(self.step, phase)

    def next_samples(self, global_batch: int) -> list[int]:
        """This rank's share of the next `global_batch` samples that are not skipped. Any number of times in a step."""
        return self._sampler.take(global_batch)

    @property
    def cursor(self) -> int:
        """The sample index behind the newest that was taken; in a loop that goes on, behind the checkpoint's."""
        return self._sampler.position.cursor

    def samples_ahead(self, global_batch: int) -> Iterator[list[int]]:
        """What `next_samples(global_batch)` will give from here on while nobody asks for anything else: for loading ahead."""
        return self._sampler.ahead(global_batch)

    def clip_(self, parameters: Any, norm_type: float = 2.0) -> Any:
        """Clip the gradients at the norm in force; their norm before that, a tensor. As torch.nn.utils.clip_grad_norm_."""
        limit = self.clip_norm
        if limit is None:  # clipping at infinity would spread one infinite gradient over all as NaN
            whole = [parameters] if isinstance(parameters, torch.Tensor) else parameters
            norm = torch.nn.utils.get_total_norm([one.grad for one in whole if one.grad is not None], norm_type)
        else:
            norm = torch.nn.utils.clip_grad_norm_(parameters, limit, norm_type=norm_type)
        self._answers.clipped = float("inf") if limit is None else limit
        return norm.full_tensor() if hasattr(norm, "full_tensor") else norm

    @property
    def clip_norm(self) -> float | None:
        """At which `clip_` clips; None: it only measures."""
        limit: float | None = self._live.values.get("clip_norm", self._clip)
        return limit

    def clip_by(self, clip_fn: Callable[[float], Any]) -> Any:
        """Clip with a function of the program's own: `clip_fn(norm)` clips there, at infinity where nothing is to be clipped, and
        returns the norm before that."""
        limit = float("inf") if self.clip_norm is None else self.clip_norm
        norm = clip_fn(limit)
        self._answers.clipped = limit
        return norm

    @contextlib.contextmanager
    def settings(self) -> Iterator[None]:
        """Around `optimizer.step()`: learning rate, betas, weight decay and eps are those in force, and afterwards what they
        were. Call a scheduler's step behind the block."""
        if self._is_idle:
            yield
            return
        self._tuning.put(self._live.values)
        try:
            yield
            if self._answers.are_due:
                self._answers.read = self._tuning.read_back()
        finally:
            self._tuning.put_back()
        self._answers.tuned = True

    def log(self, /, **metrics: Any) -> None:
        """The step is done. Rank 0's numbers are written; tensors on a device are not waited for. Every rank calls it, once a
        step: here it learns of live changes and requests. What is no number is left out, which is said once for each name."""
        if self._is_idle or os.getpid() != self._pid:
            return
        taken_names = RESERVED & metrics.keys()
        if taken_names:
            metrics = {name: one for name, one in metrics.items() if name not in taken_names}
        if self._ranks.size > 1:  # to put a sharded number together takes all ranks, and rank 0 alone writes
            metrics = {name: whole(one) for name, one in metrics.items()}
        with self._lock:
            if self._answers.are_due:
                self._answer()
            now_s = time.perf_counter()
            if self._reporter is not None:
                for name in taken_names:
                    self._reporter.leave_out(self.step, name, TAKEN)
                if self._logged_s is not None and self._logged_step == self.step - 1:
                    metrics.setdefault("step_time_s", now_s - self._logged_s)
                if (rate := self._answers.rate) is not None:
                    metrics.setdefault("lr", rate)
                taken, sampler = self._sampler.taken(), self._sampler
                self._reporter.step(self.step, lambda: sampler.as_ranges(taken), metrics)
            self._logged_s, self._logged_step = now_s, self.step
            if self._session is not None:
                self._hear()
            self._tuning.steps.forget()

    def event(self, /, event: str, **fields: Any) -> None:
        """A line of the program's own in the stream, from rank 0. It is of the step being worked on: a field of that name is left
        out, as one that JSON cannot hold is; both are said once."""
        step = self.step
        self._write(lambda stream: stream.event_of(event, step, fields))

    # -- what is asked -------------------------------------------------------------------------------------------------

    def _hear(self) -> None:
        """Learn what all ranks learn now, and act on it."""
        change = self._reporter.take_change() if self._reporter is not None else None
        asked = self._leaving is not None and self._leaving.asked
        is_doubted = bool(self._tuning.steps.why_doubted)
        agreed = self._ranks.meet(change, asked, self._checkpoints.is_lost, is_doubted)
        if agreed.doubted:
            self._answers.take_back()
        if agreed.change is not None:
            self._take(agreed.change)
        if agreed.stop and not self._stop:
            self._stop = "stop_after_checkpoint"
        if agreed.lost:
            self._stop = "superseded"

    def _take(self, change: Mapping[str, Any]) -> None:
        if "complaint" in change:
            self._tell("override_refused", self.step + 1, id=None, reason=change["complaint"])
            return
        overrides = Overrides.from_json(change["overrides"], OVERRIDES_NAME)
        self._answers.changed(overrides, self._put(overrides))
        self._request(overrides.request)
        if self._stop:
            self._answers.at_once(self.step + 1)

    def _request(self, request: str | None) -> None:
        if request == "checkpoint_now":
            self._checkpoints.asked_now = True
        elif request == "stop_after_checkpoint" and not self._stop:
            self._stop = "stop_after_checkpoint"
        elif request == "stop_now":
            self._stop = "stop_now"

    def _answer(self) -> None:
        """The receipt, and what was asked since: behind the step in which all of it was used and read back. Where an update was
        left out, as fp16 does, or a row is a part of a batch, what it would have been made with is read back."""
        if not self._answers.tuned and self._tuning.steps.is_left_out:
            with self.settings():
                pass
        weights = [] if self._answers.is_begun else list(self._model.parameters())
        params, places = sum(each.numel() for each in weights), {each.device for each in weights if each.device.type == "cuda"}
        gpus, tokens = len(places) * self._ranks.size, self._tokens_per_step
        self._answers.write(params=params, world=self._ranks.size, gpus=gpus, tokens=tokens, steps=self.total_steps)

    # -- checkpoints ---------------------------------------------------------------------------------------------------

    def save(self, step: int, save_fn: Callable[[str], Any] | None = None, *, now: bool = False) -> bool:
        """Save if it is time: every `save_every` steps or as asked, at the last step, or `now`. Behind `log`, on every rank.

        `save_fn(directory)` writes the state of this rank there; returns whether anything was saved. Training waits for that and
        no longer. None: model, optimizer, `extra_state` and random numbers, as `restore` without a function loads them.
        """
        if self._loads_by and (save_fn is None) != (self._loads_by == "ours"):
            raise AttachError(
                "run.save and run.restore: give both a function, or neither: the one must load what the other writes"
            )
        if save_fn is None:
            if self._is_idle:
                return False
            if self._whole is None:
                raise AttachError(f"run.save({step}): call run.restore() first, or give save the function that writes")
            save_fn = self._whole.save
        self._save_fn = save_fn
        if not self.is_due(step, now=now):
            return False
        self._save(whole_number(step), save_fn)
        return True

    def is_due(self, step: int, *, now: bool = False) -> bool:
        """Whether `save` would save here."""
        if self._is_idle or os.getpid() != self._pid or self._stop in NOT_SAVED:
            return False
        if (step := _place(f"run.save({step!r})", step)) == self._checkpoints.saved_step:
            return False
        every = self._live.values.get("checkpoint_interval", self._save_every)
        is_asked = now or self._checkpoints.asked_now or self._stop == "stop_after_checkpoint"
        return bool(is_asked or step % every == 0 or step == self.total_steps)

    @property
    def is_stopping(self) -> bool:
        """Somebody has asked for the end, or a later attempt holds the run: no further step is begun."""
        return bool(self._stop)

    def _save(self, step: int, save_fn: Callable[[str], Any]) -> None:
        self.phase("checkpoint")
        self._checkpoints.save(step, save_fn, self._sampler.state())
        self.phase("optimizer")

    def commit_checkpoint(self, directory: str | os.PathLike[str], step: int, cursor: int | None = None) -> None:
        """Make a checkpoint of a directory that the program has written whole, on the filesystem of the run directory. On rank 0,
        when all ranks have written theirs. `cursor`: the next sample index, where the program does not use `next_samples`.
        Raises AttachError for a step or a cursor that is no whole number from 0 on."""
        if self._is_idle or os.getpid() != self._pid:
            return
        step = _place(f"run.commit_checkpoint(step={step!r})", step)
        cursor = None if cursor is None else _place(f"run.commit_checkpoint(cursor={cursor!r})", cursor)
        self.phase("checkpoint")
        self._checkpoints.take(Path(directory), step, self._sampler.state() if cursor is None else {"cursor": cursor})
        self.phase("optimizer")

    # -- the end -------------------------------------------------------------------------------------------------------

    def finish(self) -> None:
        """Write what is still under way, and the end line. `steps` does it by itself; done twice, it does nothing more."""
        if self._is_finished or self._is_idle or os.getpid() != self._pid:
            return
        self._is_finished = True
        self.phase("checkpoint")
        self._checkpoints.wait()
        if not self._answers.is_begun:  # no step was trained
            self._answer()
        if self._session is not None:
            self._refuse_late(self._ranks.last().change)
        is_lost = self._stop == "superseded" or self._checkpoints.is_lost
        is_done = not self._stop or (self.step >= self.total_steps and not is_lost)
        reason = "failed" if is_lost else "finished" if is_done else "stopped_on_request"
        if self._leaving is not None:
            self._leaving.code = CRASHED if is_lost else FINISHED if is_done else STOPPED
        step = self.step
        if self._reporter is not None:
            self._reporter.post(lambda stream: stream.end(step, reason))
            self._reporter.drain(60.0)
        self.phase("idle")

    def _refuse_late(self, change: Mapping[str, Any] | None) -> None:
        if change is not None:
            own = change.get("overrides", {}).get("id")
            self._tell("override_refused", self.step, id=own, reason="the last step is done; nothing is left to change")

    def __enter__(self) -> Run:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if self._leaving is not None:
            if error is not None:
                self._leaving.failed(error)
            self._leaving.leave()

    def _on_way_out(self, is_failure: bool) -> None:
        self._checkpoints.wait(CLOSE_S)
        if self._reporter is not None:
            step = self.step
            if is_failure and self._answers.is_begun and not self._is_finished:
                self._reporter.post(lambda stream: stream.end(step, "failed"))
            self._reporter.close(CLOSE_S)

    def _write(self, write: Callable[[Stream], None]) -> None:
        if self._reporter is not None:
            self._reporter.post(write)

    def _tell(self, event: str, step: int, **fields: Any) -> None:
        self._write(lambda stream: stream.event(event, step=step, **fields))
