"""The settings a simulated trainer runs under: configured ones, overrides laid over them, and what its receipt says of both."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sentinel.client.settings import SETTINGS
from sentinel.sim.data_order import Orders, Span, union
from sentinel.sim.world import World

CONFIGURED: dict[str, Any] = {key: row.usual for key, row in SETTINGS.items() if row.changes == "live" and not row.once}
CONFIGURED_SEED = 1337


class SimSettings:
    """`skip` and `orders` are part of a checkpoint; everything else is given anew at each launch."""

    def __init__(self, checkpoint_every: int) -> None:
        self.skip: tuple[Span, ...] = ()
        self.orders: Orders = ()
        self._configured = CONFIGURED | {"checkpoint_interval": checkpoint_every}
        self._values = dict(self._configured)
        self._until: dict[str, int] = {}

    @property
    def lr_scale(self) -> float:
        return float(self._values["lr_scale"])

    @property
    def clip_norm(self) -> float:
        return float(self._values["clip_norm"])

    @property
    def interval(self) -> int:
        return int(self._values["checkpoint_interval"])

    @property
    def data_seed(self) -> int:
        return self.orders[-1][1] if self.orders else CONFIGURED_SEED

    def apply(self, given: Mapping[str, Any], cursor: int) -> None:
        """A missing key leaves its setting as it is, null means as configured; a skip list only grows, within its order."""
        for key, configured in self._configured.items():
            if key in given:
                self._values[key] = configured if given[key] is None else given[key]
                self._until.pop(key, None)
        self._until |= dict(given.get("until") or {})
        seed = given.get("data_seed")
        if seed is not None and seed != self.data_seed:
            self.orders = (*(order for order in self.orders if order[0] < cursor), (cursor, seed))
            self.skip = ()  # what was to be left out of the order before
        named = (entry for entry in given.get("skip") or () if len(entry) == 2 or entry[2] == self.data_seed)
        self.skip = union((*self.skip, *((entry[0], entry[1]) for entry in named)))

    def lapse(self, step: int) -> list[str]:
        """Names of the settings that no longer hold at this step."""
        lapsed = [key for key, end in self._until.items() if step >= end]
        for key in lapsed:
            del self._until[key]
            self._values[key] = self._configured[key]
        return lapsed

    def effective(self, cursor: int) -> dict[str, Any]:
        ahead = [[max(start, cursor), end] for start, end in self.skip if end > cursor]
        place = {"skip": ahead, "until": dict(self._until), "deterministic": True, "data_seed": self.data_seed}
        return self._values | place


def in_force(given: Mapping[str, Any]) -> dict[str, Any]:
    """What a receipt repeats of its spec's overrides: every key that asks for something."""
    return {key: value for key, value in given.items() if value is not None and value is not False and value != {}}


class Mailbox:
    """overrides.json as one attempt reads it: each change once, nothing that names another attempt or was obeyed before."""

    def __init__(self, world: World, attempt: int, seen_id: str | None) -> None:
        self._world = world
        self._attempt = attempt
        self._seen_id = seen_id
        self._seen_version = world.overrides_version

    def read(self) -> Mapping[str, Any] | None:
        if self._world.overrides_version == self._seen_version:
            return None
        self._seen_version = self._world.overrides_version
        given = self._world.overrides_file or {}
        if given.get("attempt") != self._attempt or given.get("id") == self._seen_id:
            return None
        self._seen_id = given.get("id")
        return given
