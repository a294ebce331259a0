"""The settings of a run around the steps of an optimizer that a library steps: by the hooks that every torch optimizer has."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import torch

from sentinel.client.torch import AttachError, Run


class Stepping:
    """The settings are put in force by the first of several optimizers to step, and put back behind its step."""

    def __init__(self, run: Run, optimizers: Sequence[Any]) -> None:
        self._run = run
        self._open: contextlib.ExitStack | None = None
        self._hooks: list[Any] = []
        for optimizer in optimizers:
            if not isinstance(optimizer, torch.optim.Optimizer):
                raise AttachError(
                    f"{type(optimizer).__name__} is no torch.optim.Optimizer: nobody could set and read back its settings"
                )
            self._hooks += [optimizer.register_step_pre_hook(self._before), optimizer.register_step_post_hook(self._behind)]

    def _before(self, *_: Any) -> None:
        self._close()  # a step that raised left it open
        self._open = contextlib.ExitStack()
        self._open.enter_context(self._run.settings())

    def _behind(self, *_: Any) -> None:
        self._close()

    def _close(self) -> None:
        open_, self._open = self._open, None
        if open_ is not None:
            open_.close()

    def remove(self) -> None:
        self._close()
        for hook in self._hooks:
            hook.remove()
