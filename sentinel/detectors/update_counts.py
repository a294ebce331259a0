"""Iterations that went wrong, as a trainer counts them over the steps of a row: a sum that good iterations wear down again.

A row of Megatron stands for 10 or 100 iterations and says how many of them had a NaN loss, and how many updates were left out. To
ask for so many *in a row* misses a run in which every other row is clean: 4 of 20 iterations NaN, for as long as it lasts.
So each good iteration takes back only a share of a bad one, and the sum grows wherever bad ones are more frequent than that.

>>> nans = Worn(limit=5, worn_by_good=0.2)
>>> [nans.add(step, bad, 10) for step, bad in ((10, 4), (20, 0), (30, 4), (40, 0), (50, 4))]
[False, False, False, False, True]
>>> nans.since_step
1
"""

from __future__ import annotations


class Worn:
    """`limit`: so many more bad iterations than good ones wear down are too many. `worn_by_good`: bad ones a good one takes back.

    `left`: what good iterations have not worn down. `bad`: all bad ones since `since_step`, the first step of the row in which
    the sum began to grow; `since_s` its arrival."""

    def __init__(self, limit: int, worn_by_good: float) -> None:
        self._limit, self._worn = limit, worn_by_good
        self.left = 0.0
        self.bad = 0
        self.since_step, self.since_s = 0, 0.0

    def add(self, step: int, bad: int, covered: int, now_s: float = 0.0) -> bool:
        """A row at `step` that stands for `covered` steps, `bad` of them bad. Is it too many now?"""
        covered = max(covered, 1)
        left = max(0.0, self.left - self._worn * max(0, covered - bad))
        if left == 0.0:
            self.bad, self.since_step, self.since_s = 0, max(1, step - covered + 1), now_s
        self.left = left + bad
        self.bad += bad
        return bad > 0 and self.left >= self._limit
