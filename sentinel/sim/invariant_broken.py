"""A broken invariant: what ends a simulation."""

from __future__ import annotations


class InvariantBroken(BaseException):
    """`name` is the invariant, the message what was seen. No handler of errors in what is tested may swallow it."""

    def __init__(self, name: str, sentence: str) -> None:
        super().__init__(f"{name}: {sentence}")
        self.name = name
