"""Who waits for whom in collectives that do not end, from the flight recorders of the ranks.

A rank waits for a member of a process group when it has a collective open that the member has not put in line, or has in line
behind another one that does not end. Whoever is waited for and waits for nobody holds up the rest. The first of these rules that
names somebody decides:

0. what every other member has completed and this one reports as open, with all behind it: its device failed;
1. collectives, by the oldest one that a rank has open; then by the newest, for ranks whose processor ran ahead of its device;
2. different collectives under one number: the few who called another one than most (a desynchronised program);
3. point-to-point calls (pipelines without other groups): a receiver waits for its sender;
4. started on some devices and only in line on others: something before it holds those others up (needs the recorder's timing);
5. members that left no dump while all others of their group wait, if some rank of their own left one.

Where dumps are missing, "waits for nobody" is not known of a rank that has something open: by 1 nobody is named who waits for a
rank without a dump, and by 3 nobody who has anything open while a dump is missing.

Source of the rule: PyTorch's analyzer for these dumps compares sequence numbers within a group alike
(pytorch.org/tutorials/unstable/flight_recorder_tutorial.html); the second half, "and waits for nobody", separates a cause
from ranks that are late because of it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field

from sentinel.model.collectives import Collective, Dumps

RANKS_NAMED_MAX = 8
RANKS_OF_NODE = 8
UNSEEN = -1  # in place of a rank without a dump
Edges = Mapping[int, set[int]]


@dataclass(frozen=True, slots=True)
class WaitedFor:
    """Ranks that others wait for and that wait for nobody; `reason` says by what."""

    ranks: tuple[int, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class _Group:
    """By rank: the newest number put in line, and what is open, oldest first."""

    members: tuple[int, ...]
    newest: dict[int, int] = field(default_factory=dict)
    opened: dict[int, list[Collective]] = field(default_factory=dict)


def judge_collectives(dumps: Dumps) -> WaitedFor | None:
    """Whom the others wait for; None where the dumps name nobody."""
    groups = _by_group(dumps)

    unseen = {member for group in groups for member in group.members if member not in dumps}

    def is_excused(rank: int) -> bool:
        return any(entry.is_open and _is_with_unseen(entry, dumps, unseen) for entry in dumps[rank])

    def is_excused_sender(rank: int) -> bool:
        return is_excused(rank) or (bool(unseen) and any(entry.is_open for entry in dumps[rank]))

    rules: Sequence[Callable[[], tuple[Iterable[int], str]]] = (
        lambda: _left_behind(dumps, groups),
        lambda: _culprits(_behind(dumps, groups, min), "not in a collective that others wait in", is_excused),
        lambda: _culprits(_behind(dumps, groups, max), "not in a collective that others wait in", is_excused),
        lambda: _desynchronised(groups),
        lambda: _culprits(_pipeline(dumps), "silent towards a receiver that waits", is_excused_sender),
        lambda: _not_started(groups),
        lambda: _silent(dumps, groups),
    )
    for rule in rules:
        found, why = rule()
        if ranks := tuple(sorted(found)):
            shown = ", ".join(map(str, ranks[:RANKS_NAMED_MAX])) + (", …" if len(ranks) > RANKS_NAMED_MAX else "")
            words = f"flight recorder of {len(dumps)} ranks: rank{'s' if len(ranks) > 1 else ''} {shown} {why}"
            return WaitedFor(ranks, words)
    return None


def _by_group(dumps: Dumps) -> list[_Group]:
    """Point-to-point calls are left out. A group is looked up by its identity where that is known: to hash the members of a group
    of a thousand ranks for each of two thousand entries of a thousand dumps takes a minute."""
    groups: dict[tuple[str, tuple[int, ...]], _Group] = {}
    known: dict[int, _Group] = {}
    for rank, entries in dumps.items():
        for entry in entries:
            if entry.peer is not None:
                continue
            group = known.get(id(entry.group))
            if group is None:
                group = known[id(entry.group)] = groups.setdefault(entry.group, _Group(entry.group[1]))
            if entry.number > group.newest.get(rank, -1):
                group.newest[rank] = entry.number
            if entry.is_open:
                group.opened.setdefault(rank, []).append(entry)
    for group in groups.values():
        for line in group.opened.values():
            line.sort(key=lambda entry: entry.number)
    return list(groups.values())


def _behind(dumps: Dumps, groups: Iterable[_Group], choose: Callable[[Iterable[int]], int]) -> Edges:
    """A member whose dump has no entry of the group is behind, too: what it completed long ago is no longer in it, and what
    others wait in it has not joined. Where all have joined, those are waited for whose device is busy with an older one: a
    processor puts collectives in line ahead of its device. Else those that have not started it, where that is recorded; else
    somebody, whoever that is: a member without a dump, a device that stands still."""
    edges: dict[int, set[int]] = defaultdict(set)
    opened = {rank: [entry for entry in entries if entry.is_open] for rank, entries in dumps.items()}
    oldest = {rank: next(iter(line), None) for rank, line in opened.items()}
    head = {rank: next((entry for entry in line if entry.peer is None), None) for rank, line in opened.items()}
    for group in groups:
        waited: dict[int, set[int]] = {}
        for rank, line in group.opened.items():
            number = choose(entry.number for entry in line)
            if choose is min and head[rank] is not line[0]:
                continue  # what is in line behind it waits for it, whoever else is waited for
            if number not in waited:
                waited[number] = (
                    {member for member in group.members if member in dumps and group.newest.get(member, -1) < number}
                    or {member for member in group.opened if _is_busy(oldest[member], group, member, number)}
                    or _not_started_yet(group, number)
                    or {UNSEEN}
                )
            edges[rank] |= waited[number] - {rank}
    return edges


def _is_busy(oldest: Collective | None, group: _Group, member: int, number: int) -> bool:
    """Whether a member has this collective in line behind an older one that does not end."""
    mine = next((entry for entry in group.opened[member] if entry.number == number), None)
    return mine is not None and oldest is not mine


def _not_started_yet(group: _Group, number: int) -> set[int]:
    states = {rank: entry.state for rank, line in group.opened.items() for entry in line if entry.number == number}
    return {rank for rank, state in states.items() if state == "scheduled"} if "started" in states.values() else set()


def _left_behind(dumps: Dumps, groups: Iterable[_Group]) -> tuple[Iterable[int], str]:
    """A failed device reports nothing as done any more, also what the others completed together with it."""
    of = {id(entry): group for group in groups for line in group.opened.values() for entry in line[:1]}
    found = []
    for rank, entries in dumps.items():
        at = next((at for at, entry in enumerate(entries) if entry.is_open and entry.peer is None), None)
        if at is None or id(entries[at]) not in of or any(entry.state == "completed" for entry in entries[at:]):
            continue  # an entry that was never marked as done is no device that stands still
        number, group = entries[at].number, of[id(entries[at])]
        others = [member for member in group.members if member != rank and member in dumps]
        if others and all(_has_passed(group, member, number) for member in others):
            found.append(rank)
    return found, "with a collective open that every other member has completed"


def _has_passed(group: _Group, member: int, number: int) -> bool:
    return group.newest.get(member, -1) > number and all(entry.number > number for entry in group.opened.get(member, ()))


def _culprits(edges: Edges, why: str, is_excused: Callable[[int], bool]) -> tuple[Iterable[int], str]:
    waiting = {rank for rank, others in edges.items() if others}
    found = set().union(*edges.values()) - waiting - {UNSEEN}
    return {rank for rank in found if not is_excused(rank)}, why


def _is_with_unseen(entry: Collective, dumps: Dumps, unseen: Set[int]) -> bool:
    """Whether somebody who takes part in it left no dump: who has it open may wait for that one."""
    return entry.peer not in dumps if entry.peer is not None else bool(unseen) and not unseen.isdisjoint(entry.group[1])


def _pipeline(dumps: Dumps) -> Edges:
    edges: dict[int, set[int]] = defaultdict(set)
    for rank, entries in dumps.items():
        waits_for = {entry.peer for entry in entries if entry.peer is not None and entry.receives and entry.is_open}
        edges[rank] = {peer for peer in waits_for if peer in dumps and peer != rank}
    return edges


def _desynchronised(groups: Iterable[_Group]) -> tuple[Iterable[int], str]:
    for group in groups:
        called = {rank: (line[0].number, line[0].name) for rank, line in group.opened.items()}
        if len({number for number, _ in called.values()}) != 1:
            continue
        counts = Counter(name for _, name in called.values())
        (most, often), *others = counts.most_common()
        if others and often > len(called) / 2:
            odd = [rank for rank, (_, name) in called.items() if name != most]
            return odd, f"in {called[odd[0]][1]} where {often} others are in {most}"
    return (), ""


def _not_started(groups: Iterable[_Group]) -> tuple[Iterable[int], str]:
    for group in groups:
        first = {rank: line[0] for rank, line in group.opened.items()}
        if len(first) != len(group.members) or len({entry.number for entry in first.values()}) != 1:
            continue
        late = [rank for rank, entry in first.items() if entry.state == "scheduled"]
        if 0 < len(late) <= len(first) / 2:
            return late, "with a collective in line that runs on the others"
    return (), ""


def _silent(dumps: Dumps, groups: Iterable[_Group]) -> tuple[Iterable[int], str]:
    missing, each = set[int](), list[set[int]]()
    for group in groups:
        members, opened = group.members, group.opened
        absent = {rank for rank in members if rank not in dumps}
        if absent and len(absent) < len(members) - len(absent) and all(rank in opened for rank in members if rank in dumps):
            missing |= absent
            each.append(absent)
    if len({rank // RANKS_OF_NODE for rank in missing}) > 1:  # no node that is gone: dumps are lost for other reasons, too
        missing = set.intersection(*each)
    return missing if len(missing) < len(dumps) else (), "without a dump, while every other member of a group waits in it"
