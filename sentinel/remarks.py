"""What a thread beside the loop has to say, and the loop writes down: remarks, which blind nobody.

remarks.say("tensorboard", "the charts cannot be kept up: the disk is full")    # in the thread
remarks.poll(now_s)                                                           # on the loop: what was said since
"""

from __future__ import annotations

import queue

from sentinel.model.readings import Reading, SourceReading


class Remarks:
    """A `Source` for the loop. Who says something says it once, so this holds little."""

    has_more = False

    def __init__(self) -> None:
        self._pending: queue.SimpleQueue[SourceReading] = queue.SimpleQueue()

    def say(self, source: str, words: str) -> None:
        self._pending.put(SourceReading(source, ok=True, reason=words, remark=True))

    def poll(self, now_s: float) -> list[Reading]:
        del now_s
        out: list[Reading] = []
        while not self._pending.empty():
            out.append(self._pending.get())
        return out
