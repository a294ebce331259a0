"""Which samples a step trains on: the data order of `sentinel.client.data_order`, shared among the ranks."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from sentinel.client.data_order import Order, Position, Span, permuted, ranges_of
from sentinel.client.logged import whole_number
from sentinel.client.torch.tuning import AttachError


class Sampler:
    """Attributes:
    position: where the run stands in its data; a checkpoint brings it back.
    shares: among how many ranks a batch is divided.
    is_used: the program has asked for samples.
    """

    def __init__(self, size: int | None, data_seed: int, share: tuple[int, int], grain: int = 1) -> None:
        """`size`: sequences in the data set; None: the program orders its data by itself. `share`: this rank's number among the
        ranks that divide a batch, and how many they are. `grain`: samples that are left out together."""
        self.size, self._grain = size, grain
        self._rank, self.shares = share
        self.position = self._begun = Position.first(data_seed)
        self.is_used = False
        self._taken: list[int] = []

    def begin_step(self) -> None:
        self._begun = self.position
        self._taken = []

    def take(self, count: int) -> list[int]:
        """This rank's share of the next `count` samples over all ranks."""
        count = whole_number(count)
        if not isinstance(count, int) or count < 1 or count % self.shares:
            raise AttachError(
                f"run.next_samples({count!r}): give the number of samples over all ranks, a multiple of the {self.shares} that "
                "share it"
            )
        if count % self._grain:
            raise AttachError(f"run.next_samples({count}): samples come {self._grain} together (skip_grain); ask for a multiple")
        self.is_used = True
        indices, after = self.position.take(count)
        each = count // self.shares
        own = indices[self._rank * each : (self._rank + 1) * each]
        self._taken.extend(indices)
        here, self.position = self.position, after
        if self.size is None:
            return list(own)
        size = self.size
        if len(here.orders) == 1:
            seed = here.data_seed
            return [permuted(index % size, size, seed, index // size) for index in own]
        return [here.sequence_of(index, size) for index in own]

    def ahead(self, count: int) -> Iterator[list[int]]:
        """What `take(count)` will give, again and again, as things stand now."""
        future = copy.copy(self)

        def draw() -> Iterator[list[int]]:
            while True:
                future.begin_step()
                yield future.take(count)

        return draw()

    def taken(self) -> Sequence[int]:
        """In this step, over all ranks."""
        return self._taken

    @staticmethod
    def as_ranges(taken: Sequence[int]) -> list[list[int]] | None:
        return ranges_of(taken) if taken else None

    # -- what is asked of it, and what it has --------------------------------------------------------------------------

    def skip(self, entries: Iterable[Sequence[int]]) -> list[Span]:
        """Leave out more, from the cursor on; the parts that come too late."""
        grain = self._grain
        whole = [(entry[0] // grain * grain, -(-entry[1] // grain) * grain, *entry[2:]) for entry in entries]
        self.position, late = self.position.skipping(whole)
        return late

    def reorder(self, data_seed: int) -> None:
        if self.size is not None:
            self.position = self.position.reordered(data_seed)

    def read_back(self) -> dict[str, Any]:
        """What is in force for the step, from where the step began."""
        found: dict[str, Any] = {"skip": [list(span) for span in self._begun.skipped_ahead()]}
        return found | ({"data_seed": self._begun.data_seed} if self.size is not None else {})

    @property
    def cursor(self) -> int:
        """The first sample that the step may take."""
        return self._begun.cursor

    # -- in a manifest -------------------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        orders = [[order.start, order.data_seed] for order in self.position.orders]
        return {"cursor": self.position.cursor, "orders": orders, "skip": [list(entry) for entry in self.position.skip]}

    def restore(self, manifest: Mapping[str, Any]) -> None:
        """Raises KeyError, TypeError, ValueError for a manifest of another trainer. One without `orders` has the order that is
        configured."""
        seed = self.position.data_seed
        orders = tuple(Order(int(start), int(seed)) for start, seed in manifest.get("orders", [(0, seed)]))
        position, _ = Position(orders).skipping(manifest.get("skip", []))
        self.position = self._begun = Position(orders, int(manifest["cursor"]), position.skip)
