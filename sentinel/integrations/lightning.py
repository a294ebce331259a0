"""Supervise a Lightning run: a callback, its loader in the place of yours, and the checkpoint to go on from.

    guard = SentinelCallback(DataLoader(data, batch_size=16))
    trainer = L.Trainer(max_steps=10_000, callbacks=[guard])
    trainer.fit(module, guard.loader, ckpt_path=guard.ckpt_path)

Without a supervisor the loader is the one that was given, and the callback does nothing.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from lightning.pytorch import Callback

from sentinel.client.torch import AttachError, Run, attach
from sentinel.integrations.feed import Feed, known_size, size_of
from sentinel.integrations.stepping import Stepping

SAVED = "lightning.ckpt"  # in a checkpoint of the run
SAVE_EVERY = 500


class SentinelCallback(Callback):
    """Attributes:
    run: the attached run (sentinel.client.torch.Run).
    loader: what `fit` trains on. ckpt_path: what `fit` goes on from, None for the beginning.
    """

    def __init__(
        self,
        loader: torch.utils.data.DataLoader[Any],
        *,
        save_every: int = SAVE_EVERY,
        data_seed: int = 0,
        resume_newest: bool = False,
    ) -> None:
        """`resume_newest`: the first launch goes on from the newest whole checkpoint in the run directory.

        Raises AttachError for a loader over a stream of data, or with a batch sampler of its own.
        """
        size = known_size(lambda: size_of(loader))
        if loader.batch_size is None:
            raise AttachError(
                "SentinelCallback(loader): it has a batch_sampler of its own; Sentinel chooses the order, give batch_size"
            )
        self.run: Run = attach(
            None,
            [],
            total_steps=0,  # known when training begins
            save_every=save_every,
            dataset_size=size,
            data_seed=data_seed,
            resume="newest_existing" if resume_newest else None,
        )
        self._feed = Feed(self.run, loader, loader.batch_size)
        self._stepping: Stepping | None = None
        self._losses: list[Any] = []
        self._norm: Any = None
        self._clips = True  # by norm: else the trainer clips as it is told to
        place = self.run.checkpoint_to_load()
        self.ckpt_path = None if place is None else str(Path(place) / SAVED)
        self.loader: Any = self._feed if self.run.is_supervised else loader

    # -- the beginning -------------------------------------------------------------------------------------------------

    def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:
        if stage != "fit" or not self.run.is_supervised:
            return
        refuse_what_does_not_work(trainer, pl_module)
        self._clips = str(trainer.gradient_clip_algorithm or "norm").rsplit(".", 1)[-1].lower() == "norm"
        self._feed.accumulate = trainer.accumulate_grad_batches

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        run = self.run
        if not run.is_supervised:
            return
        if trainer.train_dataloader is not self._feed:
            raise AttachError(
                "fit(module, …): it does not train on the callback's loader; give trainer.fit(module, guard.loader, …)"
            )
        clip = trainer.gradient_clip_val or None
        run.bind(pl_module, trainer.optimizers, total_steps=int(trainer.estimated_stepping_batches), clip=clip)
        if trainer.global_step != run.step:
            raise AttachError(
                f"fit(…): it goes on from step {trainer.global_step} and Sentinel named step {run.step}; "
                "give fit(…, ckpt_path=guard.ckpt_path)"
            )
        if self._clips:
            trainer.gradient_clip_val = None  # the callback clips, at the norm in force
        self._stepping = Stepping(run, trainer.optimizers)
        self._feed.begin(run.restored())

    # -- in a step -----------------------------------------------------------------------------------------------------

    def on_before_optimizer_step(self, _trainer: Any, pl_module: Any, _optimizer: Any) -> None:
        """Behind the backward pass, and before the trainer would clip."""
        if self.run.is_supervised and self._clips:
            self._norm = self.run.clip_(pl_module.parameters())

    def on_train_batch_end(self, trainer: Any, _pl_module: Any, outputs: Any, *_: Any) -> None:
        run = self.run
        if not run.is_supervised:
            return
        loss = outputs.get("loss") if isinstance(outputs, dict) else outputs
        if loss is not None:
            self._losses.append(loss.detach())
        if trainer.global_step != run.step:
            return  # in the middle of a step
        losses, self._losses = self._losses, []
        norm, self._norm = self._norm, None
        metrics = {"loss": torch.stack(losses).sum()} if losses else {}
        run.log(**metrics | ({} if norm is None else {"grad_norm": norm}))
        if run.is_stopping:
            trainer.should_stop = True
            trainer.fit_loop.min_epochs, trainer.fit_loop.epoch_loop.min_steps = 0, None
        run.save(run.step, lambda place: trainer.save_checkpoint(Path(place) / SAVED))

    # -- beside the steps ----------------------------------------------------------------------------------------------

    def on_validation_batch_start(self, *_: Any, **__: Any) -> None:
        self.run.phase("eval")

    def on_validation_end(self, *_: Any, **__: Any) -> None:
        self.run.phase("optimizer")

    def on_train_end(self, *_: Any, **__: Any) -> None:
        if self.run.is_supervised:
            self.run.finish()

    def teardown(self, _trainer: Any, _pl_module: Any, stage: str) -> None:
        if stage == "fit" and self._stepping is not None:
            self._stepping.remove()


def refuse_what_does_not_work(trainer: Any, module: Any) -> None:
    """Raises AttachError, before anything is changed."""
    found = {
        "several processes: not yet; use the profile, sentinel run --trainer lightning": trainer.world_size > 1,
        "manual optimization: attach a loop of your own (docs/own-loop.md)": not module.automatic_optimization,
        "overfit_batches: leave it out": bool(trainer.overfit_batches),
        "limit_train_batches: leave it out": trainer.limit_train_batches not in (1.0, None),
    }
    wrong = [words for words, is_so in found.items() if is_so]
    if wrong:
        raise AttachError("SentinelCallback cannot do this: " + "; ".join(wrong))
