"""One rank of a run whose nodes are names: `tests/cluster/ranked_loop.py`, whose rank 1 stands still in the first attempt.

    RANK=1 WORLD_SIZE=2 SENTINEL_NODE=n2 python ranks_of_nodes.py STEPS STEP_S
"""

from __future__ import annotations

import sys
import threading

from tests.cluster import ranked_loop

STANDS_AT = 60


def stands_in_its_loader() -> None:
    threading.Event().wait()


class Standing(ranked_loop.Meeting):
    def has_met(self, step: int, is_over: threading.Event) -> bool:
        if (self._folder.name, self._own.name, step) == ("0001", "1", STANDS_AT):
            stands_in_its_loader()
        return super().has_met(step, is_over)


if __name__ == "__main__":
    ranked_loop.PATIENCE_S = 600.0
    ranked_loop.Meeting = Standing  # type: ignore[misc]
    sys.exit(ranked_loop.main())
