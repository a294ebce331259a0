"""Micro-batches in Sentinel's data order, for libraries that have a loop of their own.

A library asks for micro-batches, and workers may load ahead. Which samples a micro-batch holds is decided when it is handed out.
What was loaded ahead is compared with that, and loaded anew where somebody has asked for other data meanwhile. So a step's line
names the samples that the step was given.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import torch

from sentinel.client.torch import AttachError, Run, attach


class Feed:
    """In the place of the program's DataLoader, and built from it: data set, collation and workers are its own, the order is not.

    The first micro-batch of a step begins the step. An epoch is a whole number of steps.
    """

    def __init__(self, run: Run, loader: Any, batch_size: int, *, ranks: int = 1, accumulate: int = 1) -> None:
        """`batch_size`: samples of a micro-batch on one rank. `accumulate`: micro-batches of a step."""
        self.dataset, self.batch_size = loader.dataset, batch_size
        self._run, self._loader, self._size = run, loader, size_of(loader)
        self._count = batch_size * ranks
        self.accumulate = accumulate  # may be set until training begins
        self._steps: Iterator[int] = iter(())
        self._expected: deque[list[int]] = deque()
        self._ahead: Iterator[Any] | None = None
        self._done = 0  # micro-batches of the step under way
        self._left = 0  # of the epoch in which the run goes on

    @property
    def steps_of_epoch(self) -> int:
        return max(1, self._size // (self._count * self.accumulate))

    def begin(self, first: int) -> None:
        """Training begins with the step `first`, in whichever epoch that is."""
        self._steps = self._run.steps(first)
        self._done = 0
        self._left = (self.steps_of_epoch - (first - 1) % self.steps_of_epoch) * self.accumulate

    def __len__(self) -> int:
        return self.steps_of_epoch * self.accumulate

    def __iter__(self) -> Iterator[Any]:
        left, self._left = self._left or len(self), 0
        for _ in range(left):
            if self._done % self.accumulate == 0 and next(self._steps, None) is None:
                return
            self._run.phase("data")
            batch = self._next()
            self._run.phase("forward")
            self._done += 1
            yield batch

    def _next(self) -> Any:
        rows = self._run.next_samples(self._count)
        if self._ahead is not None:
            batch = next(self._ahead)
            if self._expected.popleft() == rows:
                return batch
        self._expected = deque()
        coming = itertools.chain([rows], self._run.samples_ahead(self._count))
        self._ahead = iter(self._load(coming))
        batch = next(self._ahead)
        assert self._expected.popleft() == rows
        return batch

    def _load(self, coming: Iterator[list[int]]) -> Any:
        own = self._loader
        workers = own.num_workers
        options = {"prefetch_factor": own.prefetch_factor, "timeout": own.timeout} if workers else {}
        if workers and own.multiprocessing_context is not None:
            options["multiprocessing_context"] = own.multiprocessing_context
        return torch.utils.data.DataLoader(
            own.dataset,
            batch_sampler=_Noted(coming, self._expected),
            collate_fn=own.collate_fn,
            num_workers=workers,
            pin_memory=own.pin_memory,
            worker_init_fn=own.worker_init_fn,
            generator=torch.Generator(),  # else each new one would draw from the program's
            **options,
        )


class _Noted:
    """The batches that a DataLoader asks for, each noted when it is given out. DataLoader keeps their order."""

    def __init__(self, coming: Iterator[list[int]], noted: deque[list[int]]) -> None:
        self._coming, self._noted = coming, noted

    def __iter__(self) -> Iterator[list[int]]:
        for rows in self._coming:
            self._noted.append(rows)
            yield rows


class WholeBatches:
    """Around a loader whose data is a stream, and which saves by itself where it stands. Micro-batches of skipped samples are
    drawn and thrown away. Needs attach(skip_grain=size).

    Sample i of the run is in micro-batch i // size of all ranks together; the loader of each rank gives its part of each.
    """

    def __init__(self, run: Run, loader: Any, size: int) -> None:
        """Where the run and the loader stand at the checkpoint's. `size`: samples of a micro-batch over all ranks."""
        self._run, self._loader, self._size = run, loader, size
        self._first = run.cursor // size  # the number of the micro-batch that the loader gives first

    def __iter__(self) -> Iterator[Any]:
        wanted: int | None = None
        self._run.phase("data")
        for number, batch in enumerate(self._loader, self._first):
            if wanted is None:
                wanted = self._run.next_samples(self._size)[0] // self._size
            if number == wanted:
                wanted = None
                self._run.phase("forward")
                yield batch
            self._run.phase("data")


def known_size(find: Callable[[], int]) -> int:
    """`find()`. Where it refuses, the program is attached first: its exit record then says that no relaunch can help."""
    try:
        return find()
    except AttachError:
        attach(None, [], total_steps=0)
        raise


def size_of(loader: Any) -> int:
    """Samples of a loader's data set. Raises AttachError for a stream of data, whose order nobody can choose."""
    data = getattr(loader, "dataset", None)
    if data is None or isinstance(data, torch.utils.data.IterableDataset) or not hasattr(data, "__len__"):
        raise AttachError(
            f"{type(loader).__name__} over {type(data).__name__}: samples are left out by their place, so the data set needs "
            "__len__ and __getitem__; attach a loop of your own for data that comes as a stream (docs/own-loop.md)"
        )
    if not len(data):
        raise AttachError(f"{type(loader).__name__} over {type(data).__name__}: the data set is empty")
    return len(data)
