"""Supervise torchtitan by its configuration alone: `--experimental.custom_import sentinel.integrations.torchtitan`.

torchtitan imports this module before it builds anything. Every trainer of torchtitan loads its checkpoint by
`CheckpointManager.load` before its first step; there it is attached, and what `train` calls from then on goes through
`Supervised`.
Without a supervisor, importing this changes nothing.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import torch
from torch.distributed.checkpoint.api import CheckpointException
from torchtitan.components.checkpoint import AsyncMode, CheckpointManager
from torchtitan.components.dataloader import DataloaderExhaustedError
from torchtitan.distributed import utils as dist_utils

from sentinel.client.torch import AttachError, Run, attach
from sentinel.client.torch.saving import is_of_the_disk
from sentinel.integrations.feed import WholeBatches
from sentinel.integrations.stepping import Stepping

OWN_LOAD = CheckpointManager.load
NOWHERE = os.path.join(os.devnull, "none")  # a folder that cannot exist


class SupervisedTrainer:
    """One trainer under its supervisor, from before it loads a checkpoint. Attributes: run: sentinel.client.torch.Run."""

    def __init__(self, trainer: Any, manager: Any) -> None:
        """Raises AttachError for what cannot be supervised this way, before anything is changed."""
        config, dims = trainer.job_config, trainer.parallel_dims
        batch = dims.get_mesh("batch") if dims.dp_enabled else None
        share = (0, 1) if batch is None else (batch.get_local_rank(), batch.size())
        self._micro_batch = config.training.local_batch_size * share[1]  # samples, over all ranks
        tokens = self._micro_batch * trainer.gradient_accumulation_steps * config.training.seq_len
        self.run: Run = attach(
            trainer.model_parts[0],
            list(trainer.optimizers),
            total_steps=config.training.steps,
            clip=config.training.max_norm,
            save_every=config.checkpoint.interval,
            tokens_per_step=tokens if trainer.tokenizer is not None else None,
            share=share,
            skip_grain=self._micro_batch,
        )
        refuse_what_does_not_work(trainer, manager)  # attached: so the exit record says that no relaunch can help
        self._trainer, self._manager, self._dims = trainer, manager, dims
        self._own_clip, self._own_save = dist_utils.clip_grad_norm_, manager.save
        self._own_step, self._own_forward = trainer.train_step, trainer.forward_backward_step
        self._is_compiling = config.compile.enable
        self._losses: list[torch.Tensor] = []
        self._norm: Any = None
        self._steps: Iterator[int] = iter(())

    # -- the beginning -------------------------------------------------------------------------------------------------

    def load(self) -> bool:
        """What Sentinel names, or the beginning; then everything goes through here. Returns whether anything was loaded."""
        run, trainer = self.run, self._trainer
        place = run.checkpoint_to_load()
        if place is None:
            is_loaded = self._load_initial()
        else:
            is_loaded = True
            with torch.no_grad():
                states = self._manager._flattened_model_states_sd()  # all of them: exclude_from_loading is of a beginning
                self._manager.dcp_load(states, checkpoint_id=place, from_hf=False, from_quantized=False)
        if trainer.step != run.step:
            raise AttachError(f"torchtitan goes on from step {trainer.step} and Sentinel named step {run.step}")
        self._take_over()
        self._steps = run.steps(run.restored())
        return is_loaded

    def _load_initial(self) -> bool:
        """The weights that the configuration names to begin with, if any."""
        manager = self._manager
        if not manager.enable:
            return False
        own, manager.folder = manager.folder, NOWHERE  # what lies there is no checkpoint of this run
        try:
            return bool(OWN_LOAD(manager))
        finally:
            manager.folder = own

    def _take_over(self) -> None:
        """Everything that is replaced, and nothing elsewhere."""
        trainer, run = self._trainer, self.run
        Stepping(run, list(trainer.optimizers))
        trainer.dataloader = WholeBatches(run, trainer.dataloader, self._micro_batch)
        trainer.should_continue_training = self._begin_step
        trainer.train_step = self._train_step
        trainer.forward_backward_step = self._forward_backward
        dist_utils.clip_grad_norm_ = self._clip
        self._manager.save = self._save
        if trainer.job_config.validation.enable:
            validate = trainer.validator.validate

            def validate_in_phase(*arguments: Any, **named: Any) -> Any:
                run.phase("eval")
                found = validate(*arguments, **named)
                run.phase("optimizer")
                return found

            trainer.validator.validate = validate_in_phase

    # -- in a step -----------------------------------------------------------------------------------------------------

    def _begin_step(self) -> bool:
        """In the place of `should_continue_training`: a step is begun, or everything was written and the run ends."""
        return next(self._steps, None) is not None

    def _train_step(self, batches: Any) -> None:
        run = self.run
        try:
            self._own_step(batches)
        except DataloaderExhaustedError:
            run.step -= 1  # it is not trained
            run.finish()
            raise
        self._is_compiling = False
        norm, self._norm = self._norm, None
        run.log(loss=self._loss(), **({} if norm is None else {"grad_norm": norm}))

    def _forward_backward(self, *arguments: Any, **named: Any) -> Any:
        if self._is_compiling:
            self.run.phase("compile")
        loss = self._own_forward(*arguments, **named)
        self._losses.append(loss.detach())
        return loss

    def _loss(self) -> Any:
        """The mean over all tokens of the step, of all ranks: torchtitan's global_avg_loss. The host waits for no device."""
        losses, self._losses = self._losses, []
        total: Any = torch.stack(losses).sum()
        if hasattr(total, "full_tensor"):
            total = total.full_tensor()
        if self._dims.dp_cp_enabled:
            torch.distributed.all_reduce(total, group=self._dims.get_mesh("loss").get_group())
        return total

    def _clip(self, parameters: Any, _max_norm: float, *arguments: Any, **named: Any) -> Any:
        """The norm that is given is the configured one; what is in force takes its place."""
        self._norm = self.run.clip_by(lambda limit: self._own_clip(parameters, limit, *arguments, **named))
        return self._norm

    # -- checkpoints ---------------------------------------------------------------------------------------------------

    def _save(self, curr_step: int, last_step: bool = False) -> None:
        """A checkpoint of the run, where it is time. What torchtitan makes of its last step, it makes as well."""
        is_first = curr_step == 1 and self._trainer.job_config.checkpoint.enable_first_step_checkpoint
        self.run.save(curr_step, self._write, now=is_first)
        if last_step:
            self.run.phase("checkpoint")
            self._own_save(curr_step, last_step=True)

    def _write(self, directory: str) -> None:
        manager = self._manager
        try:
            states = manager._flattened_model_states_sd()
            manager.dcp_save(states, directory, async_mode=AsyncMode.DISABLED, enable_garbage_collection=True)
        except CheckpointException as error:  # no Exception: it would end training for a full disk
            failures = [failure for failure, _ in error.failures.values()]
            if all(map(is_of_the_disk, failures)):
                raise OSError(f"torch.distributed.checkpoint: {failures[0]!r}") from error
            raise


def refuse_what_does_not_work(trainer: Any, manager: Any) -> None:
    """Raises AttachError, before anything is changed."""
    config = trainer.job_config
    checkpoint = config.checkpoint
    begins_late = bool(checkpoint.initial_load_path) and not checkpoint.initial_load_model_only
    left = manager._find_load_step() if manager.enable and os.environ.get("SENTINEL_ATTEMPT") == "1" else -1
    found = {
        "pipeline parallelism: the rank that writes may hold no loss; use the profile, sentinel run --trainer torchtitan": (
            trainer.parallel_dims.pp_enabled
        ),
        "TorchFT (fault_tolerance.enable): its replicas come and go by themselves; leave it out": config.fault_tolerance.enable,
        "optimizer.early_step_in_backward: it steps before anything could clip; leave it out": (
            config.optimizer.early_step_in_backward
        ),
        f"comm.mode {config.comm.mode!r}: its ranks are not real; leave it out": config.comm.mode != "default",
        f"checkpoint.load_step {checkpoint.load_step}: Sentinel names the checkpoint; leave it out": checkpoint.load_step != -1,
        f"{getattr(manager, 'folder', '')} has checkpoints up to step {left}, from before this run: torchtitan would go on from "
        "there, and Sentinel from the beginning; give another job.dump_folder or checkpoint.folder, and these weights by "
        "checkpoint.initial_load_path": left != -1,
        "checkpoint.initial_load_path with a step of its own: give checkpoint.initial_load_model_only": begins_late,
    }
    wrong = [words for words, is_so in found.items() if is_so]
    if wrong:
        raise AttachError("sentinel.integrations.torchtitan cannot do this: " + "; ".join(wrong))


def load_supervised(manager: Any, step: int = -1) -> bool:
    """In the place of `CheckpointManager.load`."""
    trainer = manager.states["train_state"]
    if not hasattr(trainer, "train_step"):  # somebody's own use of the manager
        return bool(OWN_LOAD(manager, step))
    return SupervisedTrainer(trainer, manager).load()


if "SENTINEL_RUN_DIR" in os.environ or "SENTINEL_ATTEMPT" in os.environ:
    CheckpointManager.load = load_supervised
