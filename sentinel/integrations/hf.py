"""Supervise a `transformers.Trainer`: `supervise(trainer).train()` in the place of `trainer.train()`.

The trainer keeps its loop, its schedule, its callbacks and its checkpoints. Around them, the data loader is replaced by one in
Sentinel's order, hooks of the optimizer put settings in force for each step, clipping asks for the norm in force, and a callback
writes the step's line and makes each checkpoint of the trainer one of the run. Without a supervisor nothing is changed.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import torch
from transformers import Trainer, TrainerCallback

from sentinel.client.torch import AttachError, Run, attach
from sentinel.integrations.feed import Feed, known_size, size_of
from sentinel.integrations.linking import let_go, link_tree
from sentinel.integrations.stepping import Stepping

SAVE_EVERY = 500
SAVED = "checkpoint-{step}"  # what the trainer calls its checkpoints


def supervise(trainer: Trainer, *, resume_newest: bool = False) -> Supervised:
    """The trainer under its supervisor, where there is one. On every rank, when the trainer is made.

    `resume_newest`: the first launch goes on from the newest whole checkpoint in the run directory.
    Raises AttachError for a trainer that cannot be supervised this way; the message says why, and what else there is.
    """
    return Supervised(trainer, resume_newest)


class Supervised:
    """Attributes: run: the attached run (sentinel.client.torch.Run)."""

    def __init__(self, trainer: Trainer, resume_newest: bool = False) -> None:
        args = trainer.args
        self.trainer = trainer
        self.run: Run = attach(
            trainer.model,
            [],
            total_steps=0,  # known below
            save_every=_interval(args),
            dataset_size=known_size(lambda: size_of_data(trainer)),
            data_seed=args.seed if args.data_seed is None else args.data_seed,
            share=(args.process_index, args.world_size),
            resume="newest_existing" if resume_newest else None,
        )

    def train(self, **arguments: Any) -> Any:
        """`trainer.train`, from the checkpoint that Sentinel names. Returns what that returns."""
        trainer, run = self.trainer, self.run
        if not run.is_supervised:
            return trainer.train(**arguments)
        if arguments.get("resume_from_checkpoint") not in (None, False):
            raise AttachError(
                f"train(resume_from_checkpoint={arguments['resume_from_checkpoint']!r}): under a supervisor, Sentinel names the "
                "checkpoint; leave it out"
            )
        refuse_what_does_not_work(trainer)
        args = trainer.args
        feed = Feed(
            run,
            trainer.get_train_dataloader(),
            trainer._train_batch_size,
            ranks=args.world_size,
            accumulate=args.gradient_accumulation_steps,
        )
        total = args.max_steps if args.max_steps > 0 else math.ceil(args.num_train_epochs * feed.steps_of_epoch)
        place = run.checkpoint_to_load()
        args.ignore_data_skip = True  # the feed goes on where the checkpoint's step did
        callback = Reporting(trainer, run, feed, total)
        trainer.add_callback(callback)
        own = trainer.get_train_dataloader
        trainer.get_train_dataloader = lambda: feed
        try:
            return trainer.train(**arguments | {"resume_from_checkpoint": place})
        finally:
            callback.let_go()
            trainer.get_train_dataloader = own
            trainer.remove_callback(callback)


class Reporting(TrainerCallback):
    """What Sentinel's client is told, and asked, in the course of `trainer.train`."""

    def __init__(self, trainer: Trainer, run: Run, feed: Feed, total: int) -> None:
        self._trainer, self._run, self._feed, self._total = trainer, run, feed, total
        self._losses: list[Any] = []
        self._norm: Any = None
        self._stepping: Stepping | None = None
        self._step_fn, self._clip_fn = trainer.training_step, trainer.accelerator.clip_grad_norm_
        trainer.training_step = self._train_micro_batch
        trainer.accelerator.clip_grad_norm_ = self._clip

    def let_go(self) -> None:
        """The trainer as it was."""
        self._trainer.training_step, self._trainer.accelerator.clip_grad_norm_ = self._step_fn, self._clip_fn
        if self._stepping is not None:
            self._stepping.remove()

    # -- in a step -----------------------------------------------------------------------------------------------------

    def _train_micro_batch(self, *arguments: Any, **named: Any) -> Any:
        loss = self._step_fn(*arguments, **named)
        self._losses.append(loss.detach())  # the trainer's own sum leaves a NaN out (logging_nan_inf_filter)
        return loss

    def _clip(self, parameters: Any, _max_norm: Any, norm_type: float = 2) -> Any:
        """The norm that is given is the configured one, or infinity where the trainer only measures: what is in force takes its
        place."""
        self._norm = self._run.clip_by(lambda limit: self._clip_fn(parameters, limit, norm_type=norm_type))
        return self._norm

    # -- the trainer's events ------------------------------------------------------------------------------------------

    def on_train_begin(self, _args: Any, state: Any, _control: Any, **_: Any) -> None:
        optimizer = self._trainer.optimizer
        optimizer = getattr(optimizer, "optimizer", optimizer)  # accelerate wraps it
        clip = self._trainer.args.max_grad_norm or None
        self._run.bind(self._trainer.model, [optimizer], total_steps=self._total, clip=clip)
        self._stepping = Stepping(self._run, [optimizer])
        if state.max_steps != self._total:
            raise AttachError(f"the trainer will train {state.max_steps} steps and {self._total} were expected: give --max_steps")
        self._feed.begin(self._run.restored())

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        state.epoch = state.global_step / self._feed.steps_of_epoch  # the trainer counts a resumed epoch from its beginning
        losses, self._losses = self._losses, []
        norm, self._norm = self._norm, None
        metrics = {"loss": torch.stack(losses).sum()} | ({} if norm is None else {"grad_norm": norm})
        self._run.log(**metrics)
        self._decide(args, state, control)

    def _decide(self, args: Any, state: Any, control: Any) -> None:
        """What the trainer does behind this step: save, stop."""
        if self._run.is_stopping:
            control.should_training_stop = True
        is_due = self._run.is_due(state.global_step)
        own = args.save_strategy in ("epoch", "best")  # the trainer decides, and Sentinel may ask for more
        control.should_save = is_due or (own and control.should_save)
        self._make_room(args, state, control)

    def on_epoch_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._make_room(args, state, control)  # it may save the newest step once more

    def _make_room(self, args: Any, state: Any, control: Any) -> None:
        """The trainer is about to save, perhaps over files that are linked from a checkpoint of the run."""
        if control.should_save:
            self._run.phase("checkpoint")
            if args.should_save:
                let_go(self._saved(args, state))

    def on_prediction_step(self, *_: Any, **__: Any) -> None:
        self._run.phase("eval")

    def on_evaluate(self, *_: Any, **__: Any) -> None:
        self._run.phase("optimizer")

    def on_save(self, args: Any, state: Any, _control: Any, **_: Any) -> None:
        """The trainer has saved, on every rank: what lies there becomes a checkpoint of the run."""
        source = self._saved(args, state)
        if args.world_size > 1:
            torch.distributed.barrier()  # each rank writes its random numbers, and does not wait for the others

        def write(directory: str) -> None:
            if args.should_save:
                link_tree(source, Path(directory))

        self._run.save(state.global_step, write, now=True)

    def on_train_end(self, *_: Any, **__: Any) -> None:
        self._run.finish()

    def _saved(self, args: Any, state: Any) -> Path:
        return Path(args.output_dir) / SAVED.format(step=state.global_step)


def size_of_data(trainer: Trainer) -> int:
    """Samples of the trainer's data. Raises AttachError where it has none, or a stream."""
    if trainer.train_dataset is None:
        raise AttachError("supervise(trainer): it has no train_dataset; give Trainer(train_dataset=…)")
    return size_of(trainer.get_train_dataloader())


def refuse_what_does_not_work(trainer: Trainer) -> None:
    """Raises AttachError, before anything is changed."""
    args = trainer.args
    order = getattr(args, "train_sampling_strategy", "group_by_length" if getattr(args, "group_by_length", False) else "random")
    found = {
        "model_init: give the model itself": trainer.model_init is not None,
        "auto_find_batch_size: give the batch size that fits": args.auto_find_batch_size,
        "DeepSpeed: use the profile, sentinel run --trainer hf-trainer": bool(args.deepspeed),
        "FSDP: use the profile, sentinel run --trainer hf-trainer": trainer.is_fsdp_enabled,
        f"train_sampling_strategy {order!r}: Sentinel chooses the order, give 'random'": str(order) != "random",
        "several GPUs in one process: start it with torchrun, or show it one (CUDA_VISIBLE_DEVICES)": args.n_gpu > 1,
        "save_only_model: a checkpoint without the optimizer is none to go back to": args.save_only_model,
    }
    wrong = [words for words, is_so in found.items() if is_so]
    if wrong:
        raise AttachError("supervise(trainer) cannot do this: " + "; ".join(wrong))


def _interval(args: Any) -> int:
    """Steps between checkpoints, as the arguments have them; a share of the run (below 1) is of max_steps."""
    value = args.save_steps
    if value < 1:
        value = math.ceil(value * args.max_steps) if args.max_steps > 0 else SAVE_EVERY
    return max(1, int(value))
