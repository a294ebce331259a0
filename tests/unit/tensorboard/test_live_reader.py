"""A TensorBoard that is open all the while, by the rules of its usual loader (tensorboard's data server: run.rs, reservoir.rs):
files in the order of their names, each read on from where it stood; a name that went away is never opened again; of a chart,
a value at step s takes away what is known at s and above."""

from __future__ import annotations

from pathlib import Path

import pytest

from sentinel.telemetry.event_records import HEADER, read_scalars
from sentinel.tensorboard.board import Board
from sentinel.tensorboard.survivors import Begun
from tests.unit.tensorboard.board_kit import CREATED_S, effective, loss_of, rows, write
from tests.unit.told_run import state_of, told


class Viewer:
    def __init__(self, folder: Path) -> None:
        self.charts: dict[str, dict[int, float]] = {}
        self._folder = folder
        self._handles: dict[str, object] = {}
        self._stood: dict[str, int] = {}

    def look(self) -> None:
        names = sorted(path.name for path in self._folder.iterdir() if "tfevents" in path.name)
        for name in set(self._handles) - set(names):
            self._handles[name] = None
        for name in names:
            if name not in self._handles:
                self._handles[name], self._stood[name] = (self._folder / name).open("rb"), 0
        for name, handle in sorted(self._handles.items()):
            if handle is not None:
                self._read_on(name, handle)

    def _read_on(self, name: str, handle) -> None:
        handle.seek(self._stood[name])
        data, place = handle.read(), 0
        while place + 12 <= len(data) and place + 16 + HEADER.unpack_from(data, place)[0] <= len(data):
            size = HEADER.unpack_from(data, place)[0]
            for step, _, tag, value in read_scalars(data[place + 12 : place + 12 + size]):
                known = self.charts.get(tag, {})
                self.charts[tag] = {at: v for at, v in known.items() if at < step} | {step: value}
            place += size + 16
        self._stood[name] += place

    def close(self) -> None:
        for handle in self._handles.values():
            if handle is not None:
                handle.close()


@pytest.mark.parametrize("looks_at", [range(9), (0, 8), (3, 4, 8), (2, 5, 6, 7, 8)])
def test_an_open_tensorboard_shows_no_zigzag_after_rollbacks(tmp_path: Path, looks_at) -> None:
    looks = set(looks_at)
    board, place = Board(tmp_path), effective(tmp_path)
    place.mkdir(parents=True)
    viewer = Viewer(place)
    one, two, three = Begun(1, 0), Begun(2, 100), Begun(3, 40)
    told_until = {4: 31.0, 6: 91.0}
    incidents = ()
    stages = [
        ((1, 1, 60), [one]),
        ((1, 61, 130), [one]),
        (None, [one, two]),
        ((2, 101, 110), [one, two]),
        ((2, 111, 120), [one, two]),
        (None, [one, two, three]),
        ((3, 41, 50), [one, two, three]),
        ((3, 51, 70), [one, two, three]),
        ((3, 71, 125), [one, two, three]),
    ]
    for number, (steps, attempts) in enumerate(stages):
        if steps is not None:
            write(tmp_path, steps[0], rows(*steps))
        incidents = state_of(told(told_until[number])).incidents if number in told_until else incidents
        while board.advance(attempts, incidents, CREATED_S):
            pass
        if number in looks:
            viewer.look()
    assert viewer.charts["lm loss"] == {n: loss_of(1 if n <= 40 else 3, n) for n in range(1, 126)}
    assert viewer.charts["sentinel/incident"] == {132: 1.0, 379: 2.0}
    viewer.close()
