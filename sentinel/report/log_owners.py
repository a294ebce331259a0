"""Whose log a file of a folder is, by its name: a rank's, or nobody's that is known.

A number in a name may count something else: nodes (`worker-1.log` with eight ranks in it), jobs (`log-8812.err`), places on a
node (`node1/attempt_0/2/stderr.log` beside `node0/…/2/…`). So a way of naming is believed for all of its files or for none: where
the labels of the lines in them name another rank, where two places have a file of one rank, or where the numbers leave holes as
no ranks do, the names say nothing. Then the labels of the lines alone tell who wrote them.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

from sentinel.detectors.crash_class import Owner
from sentinel.detectors.crash_labels import OF_A_NODE, RANK_NAME, read_labels

LABELS_CHARS = 120
_STREAM = re.compile(r"std(?:out|err)|\.(?:out|err)\b")
_ATTEMPT_NAME = re.compile(r"(?:^|/)(\d{1,7})/std(?:out|err)\.log$")  # torchrun --log-dir: RUN/attempt_0/3/stderr.log
_NUMBERED_NAME = re.compile(
    r"(?:^|/)(?:std(?:out|err)|log|output|err|out|worker|task|proc(?:ess)?)[-_.](\d{1,7})\.(?:log|txt|out|err)(?:\.\w+)?$"
)
_NAMES = (RANK_NAME, _ATTEMPT_NAME, _NUMBERED_NAME)
# What a rank's launcher prints of another rank
_OF_ANOTHER = re.compile(r"Child process with PID")


def owners_of(folder: Path, logs: Mapping[Path, Sequence[str]]) -> dict[Path, Owner]:
    """For each log its rank, else its name within the folder."""
    owners: dict[Path, Owner] = {path: path.relative_to(folder).as_posix() for path in logs}
    ways: dict[re.Pattern[str], dict[Path, tuple[int, str]]] = defaultdict(dict)
    for path, name in owners.items():
        assert isinstance(name, str)
        way, found = next(((way, found) for way in _NAMES if (found := way.search(name)) is not None), (None, None))
        if way is not None and found is not None and OF_A_NODE.search(name) is None:
            ways[way][path] = int(found[1]), _STREAM.sub("", name[: found.start(1)].rpartition("/")[0])
    for way, named in ways.items():
        if _are_ranks(named, logs) and (way is not _NUMBERED_NAME or _are_dense({rank for rank, _ in named.values()})):
            owners |= {path: rank for path, (rank, _) in named.items()}
    return owners


def _are_ranks(named: Mapping[Path, tuple[int, str]], logs: Mapping[Path, Sequence[str]]) -> bool:
    places: dict[int, set[str]] = defaultdict(set)
    for rank, place in named.values():
        places[rank].add(place)
    own_labels = [_agrees(rank, logs[path]) for path, (rank, _) in named.items()]
    is_one_place = all(len(of) == 1 for of in places.values())
    return False not in own_labels and (is_one_place or None not in own_labels)


def _are_dense(ranks: set[int]) -> bool:
    return len(ranks) > 1 and max(ranks) < 2 * len(ranks)


def _agrees(rank: int, lines: Sequence[str]) -> bool | None:
    """Whether the labels of its lines are those of this rank; None where none of them names one."""
    named: set[int] = set()
    roles: set[int] = set()
    for line in lines:
        head = line[:LABELS_CHARS]
        if head[:1].isspace() or _OF_ANOTHER.search(line) is not None:
            continue
        read = read_labels(head)
        named |= {read.rank} if read.rank is not None else set()
        roles |= {read.role} if read.role is not None else set()
    if len(roles) > 1 or not named <= {rank}:
        return False
    return True if named else None
