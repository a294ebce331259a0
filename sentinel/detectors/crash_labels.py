"""Who wrote a line of a launcher's log: the labels in front of it, all of them, taken off one after the other.

Launchers, loggers and `torch` each put their own label before a line, so that several stand there: `7: [rank7]: Traceback`,
`[default1]:[rank1]:   File …`, `node3: [host0]<stderr>:`. A label is one of five kinds. RANK says the rank. ROLE
(torchrun's `[default3]:`) is a rank on one node and only a place on it where several nodes write. NUMBER (`srun --label`) is a
task: a rank where each rank is a task, else a node. HOST names a machine or a container. TIME says nothing of the writer.
Behind most labels one space is theirs; further ones belong to the line, for the indentation tells a traceback.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from sentinel.client.late_regex import late_regex

LABELS_MAX = 6
RANK_NAME = late_regex(r"(?:^|[^a-z])rank[-_. =]?(\d{1,7})(?!\d)", re.IGNORECASE)
"""A rank in the name of a log, its path included."""
OF_A_NODE = late_regex(r"(?:node|machine|host|group)[-_. ]?rank", re.IGNORECASE)
_LOCAL = late_regex(r"local[-_. ]?rank", re.IGNORECASE)


class LabelKind(Enum):
    """What a label says of the writer."""

    RANK = "rank"
    ROLE = "role"
    NUMBER = "number"
    HOST = "host"
    TIME = "time"


_STAMP = r"\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d| UTC)?"
# A file, a program, a step and an exception may stand before a colon as well; none of them is a machine. A machine may be called
# "gpu-a1", "gpu012" or "cuda-node-7", and no machine's name has an underscore: "gpu3:", "cuda:", "gpu_mem_0:" are none
_NO_HOST = (
    r"(?!(?:step|iter|iteration|epoch|xid|rank|loss|lib)[\w.\-]*:|"
    r"(?:gpu|cuda|python|torch)(?:[\-.]?\d{0,2}(?:\.\d+)*|\w*_[\w.\-]*):|"
    r"[\w.\-]+\.(?:py|sh|cc|cpp|cu|h|hpp|so|json|ya?ml)\b|[\w.]*(?:Error|Exception|Failure|Warning|Interrupt|Exit)\b)"
)
_NO_LEVEL = r"(?!(?i:trace|debug|info|warn|warning|error|critical|fatal|success|epoch|step|iteration|iter|batch|gpu)\d*\b)"
_NO_STEP = r"(?!(?:step|iter|iteration|epoch|batch|loss)[\d.\-]*\s)"
_BEFORE_RANK = r"(?=\[(?:rank[ :=_\-]{0,2}|default)\d{1,7}\])"
# With what each begins: a bracket, a blank, 0 for a digit, a for a letter
_KINDS: tuple[tuple[LabelKind, str, re.Pattern[str]], ...] = (
    # torch's excepthook and logger "[rank3]:", Lightning "[rank: 1]", loggers "Rank 3: ", "(rank 3)"
    # but not "[rank: -1]", which no rank has
    (LabelKind.RANK, "[(", late_regex(r"(?i)[\[(](?:global[_ ]?)?rank(?:[ :=_]{0,2}|-)(?P<n>\d{1,7})[\])](?:: ?|[ ]|$)?")),
    (LabelKind.RANK, "a", late_regex(r"rank[ :=_\-]?(?P<n>\d{1,7})(?:: ?| ?\| |> )", re.IGNORECASE)),
    # mpirun --tag-output "[1,3]<stdout>:", horovodrun "[3]<stderr>:"
    (LabelKind.RANK, "[", late_regex(r"\[(?:\d+,)?(?P<n>\d{1,7})\](?:\[[^\]]{1,64}\])?<std\w+>:(?: (?=\S))?")),
    # horovodrun and NVIDIA's launchers with hosts: "[host0]<stderr>:"
    (LabelKind.HOST, "[", late_regex(r"\[(?P<name>[A-Za-z][\w.\-]{0,63})\]<std\w+>:(?: (?=\S))?")),
    # kubectl logs --prefix "[pod/worker-3/pytorch] ", compose and stern "worker-3 | "
    (LabelKind.HOST, "[", late_regex(r"\[pod/(?P<name>[\w./\-]{1,128})\] ?")),
    (LabelKind.HOST, "a", late_regex(rf"{_NO_LEVEL}(?P<name>[A-Za-z][\w./\-]{{0,126}}\d) +\| ?(?=\S|  |$)")),
    (LabelKind.HOST, "a", late_regex(rf"{_NO_LEVEL}(?P<name>[A-Za-z][\w./\-]{{0,127}}) +\| ?(?=[A-Z\[(\s]|[\w.]*Error\b)")),
    # PyTorch's own examples "[GPU3] "; "[gpu3]" may be a machine
    (LabelKind.ROLE, "[", late_regex(r"\[GPU(?P<n>\d{1,7})\](?::(?: (?=\S))?| |$)")),
    # Ray "(TrainWorker pid=41, ip=10.0.0.3) "
    (LabelKind.HOST, "(", late_regex(r"\((?P<name>[\w.]{1,64} pid=\d{1,9}(?:, ip=[\w.:]{2,40})?)\) ?")),
    (LabelKind.HOST, "[", late_regex(r"(?i)\[(?P<name>(?:host|node|pod|gpu|nid|ip)[\w.\-]{0,60}\d[\w.\-]{0,20})\]:? ?")),
    # a machine before a rank's own label, as loggers write it: "n0 [rank12]: "
    (LabelKind.HOST, "a", late_regex(rf"(?i){_NO_STEP}(?P<name>[A-Za-z][\w.\-]{{0,62}}\d[\w.\-]{{0,20}}) {_BEFORE_RANK}")),
    # torchrun's tee: "[default3]:", or the role that a launcher names; "r3: "
    (LabelKind.ROLE, "[", late_regex(r"\[[A-Za-z][A-Za-z_\-]{0,30}(?P<n>\d{1,7})\](?::(?: (?=\S))?| |$)")),
    (LabelKind.ROLE, "a", late_regex(r"r(?P<n>\d{1,7}):(?: |$|(?=\[))")),
    (LabelKind.NUMBER, "[", late_regex(r"\[(?P<n>\d{1,7})\]:? ?")),
    (LabelKind.NUMBER, " 0", late_regex(r" {0,6}(?P<n>\d{1,7}):(?: |(?=\[)|$)")),
    # CRI's log files, kubectl --timestamps, Python's loggers, syslog
    (LabelKind.TIME, "[0", late_regex(rf"\[?{_STAMP}\]?:?(?: (?:stdout|stderr) [FP])?(?: |$)")),
    (LabelKind.TIME, "[0", late_regex(r"\[?\d\d:\d\d:\d\d(?:[.,]\d{1,9})?\]?(?: |$)")),
    (LabelKind.HOST, "a", late_regex(r"[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d (?P<name>[\w.\-]{1,64}) (?=\S{1,64}: )")),
    # pdsh, DeepSpeed's runner and clush: "node3: ", "10.0.0.3: "
    (LabelKind.HOST, "0", late_regex(r"(?P<name>\d{1,3}(?:\.\d{1,3}){3}): ?")),
    (LabelKind.HOST, "a", late_regex(rf"(?i){_NO_HOST}(?P<name>[A-Za-z][\w.\-]{{0,62}}\d[\w.\-]{{0,20}}):(?: |$|(?=\[))")),
)  # fmt: skip
# A time at the head of a line: with a date, with a date and a zone, or as glog writes it, without a year
_TIMES = (
    ("zoned", late_regex(r"(\d{4})[-/](\d\d)[-/](\d\d)[T ](\d\d):(\d\d):(\d\d(?:[.,]\d{1,9})?)(?:Z|([+-])(\d\d):?(\d\d))")),
    ("dated", late_regex(r"(\d{4})[-/](\d\d)[-/](\d\d)[T ](\d\d):(\d\d):(\d\d(?:[.,]\d{1,9})?)")),
    ("glog", late_regex(r"\b[IWEF]()(\d\d)(\d\d) (\d\d):(\d\d):(\d\d(?:\.\d{1,9})?)")),
)
TIME_CHARS = 120
_COLOUR = late_regex(r"\x1b\[[0-9;]{0,16}m")
_GROUP = late_regex(r" +\| ")  # Python's margin of the tracebacks of an exception group
_BY_FIRST = {first: tuple((kind, fits) for kind, begins, fits in _KINDS if first in begins) for first in "[( 0a"}
# … or named in c10d's own brackets "[PG ID 0 PG GUID 0(default_pg) Rank 1]", by srun, whose tasks are the ranks, or by the
# trainer itself: Megatron-LM's "Rank 126, node n1, device 0, iteration 1: Unexpected result nan", "Rank 3: found NaN"
SELF_NAMED = late_regex(
    r"\[(?:PG [^\]]*)?(?:Global )?[Rr]ank[ :=]?(\d{1,7})\]|\btask (\d{1,7}): Out Of Memory|(?:^|: )[Rr]ank (\d{1,7})[,:] |"
    r"\brank=?\[?(\d{1,7})\]?\b[^.]{0,40} (?:ran out of memory|hit|raised)|MPI_ABORT was invoked on rank (\d{1,7})|"
    r"\bon rank (\d{1,7}) at iteration\b"
)


@dataclass(frozen=True, slots=True)
class Labelled:
    """A line without its labels. `rank`: said by a label; `role` and `number`: a rank, if there is one node; `host`: all other
    names together. `text` begins with its own indentation."""

    text: str
    rank: int | None = None
    role: int | None = None
    number: int | None = None
    host: str = ""

    @property
    def is_labelled(self) -> bool:
        return self.rank is not None or self.role is not None or self.number is not None or self.host != ""


def read_labels(line: str) -> Labelled:
    """Take off every label. Of two ranks the inner one counts: it is nearer to the program."""
    text = _COLOUR.sub("", line) if "\x1b" in line else line
    rank = role = number = None
    host = ""
    for _ in range(LABELS_MAX):
        label = _first_label(text)
        if label is None:
            break
        kind, found = label
        text = text[found.end() :]
        match kind:
            case LabelKind.RANK:
                rank = int(found["n"])
            case LabelKind.ROLE:
                role = int(found["n"])
            case LabelKind.NUMBER:
                number = int(found["n"])
            case LabelKind.HOST:
                host = f"{host}/{found['name']}"
            case LabelKind.TIME:
                pass
    if text.startswith("  ") and (group := _GROUP.match(text)) is not None:
        text = text[group.end() :]
    return Labelled(text, rank, role, number, host)


def stamp_of(line: str) -> tuple[str, float] | None:
    """The time that a line begins with: its form, and a number of seconds that grows with it. Only times of one form compare."""
    for form, fits in _TIMES:
        found = fits.search(line, 0, TIME_CHARS)
        if found is not None:
            year, month, day, hour, minute = (int(part or 0) for part in found.groups()[:5])
            second = float(found[6].replace(",", "."))
            ahead_min = int(f"{found[7]}1") * (int(found[8]) * 60 + int(found[9])) if form == "zoned" and found[7] else 0
            days = (year * 12 + month) * 31 + day  # only the order counts
            return form, ((days * 24 + hour) * 60 + minute - ahead_min) * 60 + second
    return None


def _first_label(text: str) -> tuple[LabelKind, re.Match[str]] | None:
    first = text[:1]
    for kind, pattern in _BY_FIRST.get("0" if first.isdigit() else "a" if first.isalpha() else first, ()):
        found = pattern.match(text)
        if found is not None and found.end() > 0:
            return kind, found
    return None


class Writers:
    """Who wrote each line of one log, once all of its labels are known: whether a task is a rank, and a place on a node, too.
    `is_alone`: no other log holds the lines of another node."""

    def __init__(self, lines: Iterable[Labelled], *, is_alone: bool = True) -> None:
        self._tasks_are_ranks = True
        self._learned: dict[tuple[str, int | None, int], int | None] = {}
        nodes: set[tuple[str, int | None]] = set()
        for line in lines:
            if line.number is not None and line.rank is not None and line.number != line.rank:
                self._tasks_are_ranks = False
            if line.role is not None:
                nodes.add((line.host, line.number))
                key = (line.host, line.number, line.role)
                if line.number is not None and line.number != line.role:
                    self._tasks_are_ranks = False
                if line.rank is not None:
                    same = self._learned.setdefault(key, line.rank) == line.rank
                    self._learned[key] = line.rank if same else None
        self._is_one_node = is_alone and len({host for host, _ in nodes}) <= 1 and self._same_tasks(nodes)

    @staticmethod
    def _same_tasks(nodes: set[tuple[str, int | None]]) -> bool:
        return len({number for _, number in nodes}) <= 1

    def rank_of(self, line: Labelled) -> int | None:
        """The rank by its labels, or by what the line says of itself; None where neither tells."""
        if line.rank is not None:
            return line.rank
        if line.role is not None:
            learned = self._learned.get((line.host, line.number, line.role))
            if learned is not None:
                return learned
            if self._is_one_node or line.number == line.role:
                return line.role
            return None
        if line.number is not None and self._tasks_are_ranks:
            return line.number
        named = SELF_NAMED.search(line.text)
        return None if named is None else int(next(group for group in named.groups() if group))

    def writer_of(self, line: Labelled) -> tuple[int | None, str]:
        """A key of the writer: the rank, else what stands before the line."""
        rank = self.rank_of(line)
        if rank is not None and line.is_labelled:
            return rank, ""
        return None, f"{line.host}#{line.number}#{line.role}" if line.is_labelled else ""



def rank_in_name(path: str) -> int | None:
    """The rank whose log that is, by its name alone; None where the number may be a node's, or a place on one."""
    found = RANK_NAME.search(path)
    return None if found is None or OF_A_NODE.search(path) or _LOCAL.search(path) else int(found[1])
