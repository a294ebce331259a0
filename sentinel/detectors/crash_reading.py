"""The lines of one writer, read for what they say of a death: tracebacks and their chains, words of a table, errors of loggers.

A traceback is one exception, and so is a chain of them ("During handling of …", "… was the direct cause of …"): its beginning
counts, unless a later link tells more. An exception that only passes on another, that the program says it survived, or that
comes from the clean-up of a process that is ending anyway, is worth no more than a line of a logger.

Of one process the last exception ended it; where several processes write without labels, the first one began it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from sentinel.client.late_regex import late_regex
from sentinel.detectors.crash_patterns import EXCEPTION, SAYS_NOTHING, WRAPPER, CrashClass, Pattern, Tier, match_line, may_tell
from sentinel.detectors.crash_progress import is_launch

EVIDENCE_CHARS = 240

_TRACEBACK = "Traceback (most recent call last)"
_CHAIN = late_regex(
    r"^\s*(?:\| )?(?:During handling of the above exception, another exception occurred"
    r"|The above exception was the direct cause of)"
)
_IGNORED = late_regex(r"^Exception ignored in\b|^Error in (?:atexit|sys\.excepthook)")
_FRAME = late_regex(r'^\s+(?:\| )?File "')
_NAME = late_regex(r"^(?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*(?:\[[^\]]*\])?(?:\([^)]{0,64}\))?(?::|$)")
# Frames of what runs while a process ends, whatever ended it
_TEARDOWN = late_regex(
    r"multiprocessing/util\.py|multiprocessing/resource_tracker|_run_finalizers|_exit_function|weakref\.py"
    r"|in __del__\b|\batexit\b"
    r"|tempfile\.py\", line \d+, in (?:_?cleanup|_rmtree|_cleanup)|threading\.py\", line \d+, in _shutdown"
    r"|in destroy_process_group"
    r"|in (?:_?cleanup|_?teardown|_?finalize\w*|_shutdown\w*|on_exit|__exit__)$"
)
_TEMPORARY = late_regex(r"\[Errno (?:2|39|66)\].*(?:/pymp-|/torchelastic_|/tmp\w+|/\.nfs|/wandb/)|Directory not empty")
# Frames of the launcher itself: it reports the death of a worker. `@record` (elastic/multiprocessing/errors) is a worker's, too
_AGENT = late_regex(
    r"torch/distributed/(?:run|launch|launcher/api)\.py|torch/distributed/elastic/(?!multiprocessing/errors/)|accelerate/commands/|deepspeed/launcher/"
    r"|multiprocessing/spawn\.py\", line \d+, in (?:join|start_processes|spawn)$|ray/(?:train|tune)/"
)
# An exception that holds another's traceback in its text: torch.utils.data, torch.nn.DataParallel
_CARRIER = late_regex(r"^\w+: Caught \w+ in (?:DataLoader worker|replica|pin memory thread)")
_SURVIVED = late_regex(
    r"(?i)\b(?:retry(?:ing)?|will retry|falling back|fall(?:s)? back|continuing|carrying on|recovered|ignoring"
    r"|skipping|non-fatal|handled"
    r"|using (?:the )?default|attempt \d+ ?(?:/|of) ?\d+)\b"
    r"|^NaN or Inf found in input tensor\b"  # TensorBoard's writer, of a value to be drawn: it draws it
)
# The first level that a line's head names; glog's letter before the date
_LEVEL = late_regex(
    r"(?:^|[\s\[|:(-])(?:(?P<error>ERROR|CRITICAL|FATAL|SEVERE)|INFO|DEBUG|WARNING|WARN)(?=[\s\]|:)-]|$)"
    r"|^\[?(?:(?P<glog>[EF])|[IW])\d{4} \d\d:"
)
LEVEL_CHARS = 110
FRAME_BEGINS = " \t|│╭╰"  # Python's own, and rich's boxes
# Warnings that are all that is ever said of a death: NCCL's, and those of Megatron-LM's rerun state machine
_LOUD = late_regex(r"\bNCCL (?:WARN|INFO)\b|\bUnexpected result ")
_ENDING = late_regex(
    r"(?i)destroy|clean|shut|clos|exit|terminat|abort|sync|finish|upload|dump|stop|kill|signal|final|fail|error|except|wandb|flush|died"
)
_NATIVE = late_regex(r"^panic: |^thread '.{1,60}' panicked at|\bAssertion [`'\"].*failed|^\s*what\(\): |^Aborted\b")
# What loggers report as errors although nothing fails: plug-ins that register twice, preloads, telemetry that is not sent
_HARMLESS = late_regex(
    r"(?i)unable to register cu(?:dnn|fft|blas|da)|cannot be preloaded|could not load dynamic library"
    r"|computation_placer|failed call to cuInit"
    r"|telemetry|wandb(?:\b|:)|error_handling|error_file|errors? ?[:=] ?0\b|no errors?\b|closing signal SIG(?:TERM"
    r"|INT)|\bretcode: 0\b"
)
# Agents and launchers that name a worker's status: the exits say it better
_STATUS = late_regex(
    r"failed \(exitcode: ?-?\d+\)|exits? with (?:return )?code|exitcode +:|exited with (?:exit )?code|Exited with exit code"
)


LineAt = tuple[int | str | None, int]
"""A log and the index of a line in it."""


@dataclass(frozen=True, slots=True)
class OwnedLine:
    """A line without its labels. `owner`: whose log it stands in; `rank`, `writer`: who wrote it, as far as that is known."""

    owner: int | str | None
    index: int
    rank: int | None
    writer: tuple[int | None, str]
    text: str


@dataclass(frozen=True, slots=True)
class Clue:
    """`crash` None: the rank failed and nothing more is known of it. `place`: the index of its line in the log it stands in;
    `order`: the same where that log mixes the ranks, else 0."""

    crash: CrashClass | None
    tier: Tier
    line: str
    rank: int | None
    order: int = 0
    place: int = -1
    owner: int | str | None = None
    is_exception: bool = False
    is_last_only: bool = False

    @property
    def line_at(self) -> LineAt:
        return self.owner, self.place


def shown(line: str, *, strip: bool) -> str:
    """A line as evidence: bounded, one line of printable text, without the exception's name where the class says it."""
    text = line.strip()
    if strip and (name := EXCEPTION.match(text)) is not None:
        text = text[name.end() :].lstrip(": ") or text
    text = "".join(char if char.isprintable() else " " for char in text)
    return text if len(text) <= EVIDENCE_CHARS else text[: EVIDENCE_CHARS - 1] + "…"


def of_pattern(pattern: Pattern, line: str) -> Clue:
    strip = pattern.crash not in (CrashClass.CONFIGURATION, CrashClass.PEER_LOST)
    return Clue(pattern.crash, pattern.tier, shown(line, strip=strip), None, is_last_only=pattern.last)


class WriterLines:
    """Give it the lines of one writer in their order; `clues` says what they amount to. `is_process`: all of one process."""

    def __init__(self, *, is_process: bool) -> None:
        self._is_process = is_process
        self._clues: list[Clue] = []
        self._chain: list[Clue] = []
        self._in_traceback = self._goes_on = False
        self._ignored = self._teardown = self._agent = False
        self._after_frame = False
        self._before = ""

    def feed(self, text: str, mark: Clue) -> None:
        """One line without its labels. `mark` says where it stands and whose it is."""
        before, self._before = self._before, text or self._before
        if _TRACEBACK in text:
            self._in_traceback, self._ignored = True, _IGNORED.match(before) is not None
            self._teardown = self._agent = self._after_frame = False
            if not self._goes_on:
                self._close_chain()
            return
        if self._in_traceback or self._after_frame:
            if not text.strip() or text[0] in FRAME_BEGINS:
                self._frame(text)
                return
            self._after_frame = False
        if self._in_traceback:
            self._in_traceback = False
            if _NAME.match(text) is not None:
                self._exception(text, mark)
                return
        if _CHAIN.match(text) is not None:
            self._goes_on = True
        elif _FRAME.match(text) is not None:
            self._after_frame = True
        else:
            self._plain(text, mark)

    def clues(self) -> list[Clue]:
        """The first line of each tier, and of the exceptions the one that counts."""
        self._close_chain()
        exceptions = [clue for clue in self._clues if clue.is_exception]
        last = exceptions[-1] if exceptions else None
        found: dict[Tier, Clue] = {}
        for clue in self._clues:
            if not clue.is_last_only or clue is last:
                found.setdefault(clue.tier, clue)
        if self._is_process and last is not None and last.tier in (Tier.CAUSE, Tier.DEATH, Tier.TAKEN_AWAY):
            found[last.tier] = next(clue for clue in exceptions if (clue.line, clue.tier) == (last.line, last.tier))
        return list(found.values())

    def _frame(self, text: str) -> None:
        self._teardown = self._teardown or _TEARDOWN.search(text) is not None
        self._agent = self._agent or _AGENT.search(text) is not None

    def _exception(self, text: str, mark: Clue) -> None:
        if not self._goes_on:
            self._close_chain()
        self._goes_on = False
        clue = None if self._ignored else self._judge_exception(text)
        if clue is not None:
            self._chain.append(
                replace(clue, rank=mark.rank, order=mark.order, place=mark.place, owner=mark.owner, is_exception=True)
            )

    def _judge_exception(self, text: str) -> Clue | None:
        pattern = match_line(text)
        weak = self._teardown or _TEMPORARY.search(text) is not None
        if pattern is not None:
            clue = of_pattern(pattern, text)
            return replace(clue, tier=Tier.REPORTED) if weak and Tier.CAUSE <= clue.tier <= Tier.TIMEOUT else clue
        if SAYS_NOTHING.match(text) is not None:
            is_interrupt = text.startswith("KeyboardInterrupt")
            return Clue(CrashClass.KILLED, Tier.TERMINATED, "KeyboardInterrupt", None) if is_interrupt else None
        is_weak = weak or self._agent or WRAPPER.match(text) is not None or _CARRIER.match(text) is not None
        return Clue(CrashClass.ERROR, Tier.REPORTED if is_weak else Tier.DEATH, shown(text, strip=False), None)

    def _close_chain(self) -> None:
        """Of a chain its first link, unless a later one tells more; what fails while a lost peer is handled follows from that."""
        if not self._chain:
            return
        best = self._chain[0]
        for clue in self._chain[1:]:
            if clue.tier < best.tier and (
                clue.tier < Tier.DEATH or best.tier is Tier.REPORTED or clue.crash is CrashClass.NETWORK
            ):
                best = clue
        self._chain = []
        self._clues.append(best)

    def _plain(self, text: str, mark: Clue) -> None:
        if not text.strip():
            return
        clue = self._judge_line(text)
        if _SURVIVED.search(text) is not None or (self._is_process and clue is None and _is_calm(text)):
            self._survive()
        if clue is not None:
            self._close_chain()
            self._clues.append(replace(clue, rank=mark.rank, order=mark.order, place=mark.place, owner=mark.owner))

    def _judge_line(self, text: str) -> Clue | None:
        if not may_tell(text):
            return None
        is_quiet = _says_error(text) is False and _LOUD.search(text) is None
        is_calm = is_quiet or _SURVIVED.search(text) is not None
        pattern = match_line(text)
        if pattern is not None and not (_HARMLESS.search(text) is not None and pattern.tier >= Tier.DEATH):
            if pattern.tier is Tier.SYMPTOM and is_quiet:
                return None  # stores and sockets warn so at every end
            clue = of_pattern(pattern, text)
            clue = replace(clue, tier=Tier.REPORTED) if is_calm and Tier.CAUSE <= clue.tier <= Tier.TIMEOUT else clue
            return replace(clue, is_exception=EXCEPTION.match(text) is not None)
        if EXCEPTION.match(text) is not None and SAYS_NOTHING.match(text) is None:
            tier = Tier.REPORTED if WRAPPER.match(text) is not None or _CARRIER.match(text) is not None else Tier.DEATH
            return Clue(CrashClass.ERROR, tier, shown(text, strip=False), None, is_exception=True)
        if _NATIVE.search(text) is not None:
            return Clue(CrashClass.ERROR, Tier.DEATH, shown(text, strip=False), None)
        if is_calm or _HARMLESS.search(text) is not None or _STATUS.search(text) is not None or not _says_error(text):
            return None
        return Clue(CrashClass.ERROR, Tier.REPORTED, shown(text, strip=False), None)

    def _survive(self) -> None:
        self._close_chain()
        self._clues = [
            replace(clue, tier=Tier.REPORTED) if clue.is_exception and clue.tier in (Tier.CAUSE, Tier.DEATH) else clue
            for clue in self._clues
        ]


def _says_error(text: str) -> bool | None:
    """Whether a logger calls the line an error; None where the line names no level."""
    found = _LEVEL.search(text[:LEVEL_CHARS])
    return None if found is None else found["error"] is not None or found["glog"] is not None


def says_it_went_on(text: str) -> bool:
    """Whether a line belongs to a program that goes on after what it reported."""
    return _is_calm(text) or _SURVIVED.search(text) is not None


def _is_calm(text: str) -> bool:
    """A line of a program that goes on: no frame, no error, nothing of what is printed while a process ends."""
    return _says_error(text) is False and _ENDING.search(text) is None and _LOUD.search(text) is None


def is_worth_keeping(text: str) -> bool:
    """Whether a line may matter to `WriterLines`; a line that ends a traceback does as well, whatever it holds."""
    if _TRACEBACK in text or _CHAIN.match(text) is not None or _IGNORED.match(text) is not None or is_launch(text):
        return True
    if text[:1] in " \t":
        if _FRAME.match(text) is not None:
            return _TEARDOWN.search(text) is not None or _AGENT.search(text) is not None
        return text.lstrip().startswith("what():")
    if not may_tell(text):
        return False
    return match_line(text) is not None or EXCEPTION.match(text) is not None or _says_error(text) is True


def starts_traceback(text: str) -> bool:
    return _TRACEBACK in text


def is_frame(text: str) -> bool:
    return text[:1] in tuple(FRAME_BEGINS) and not text.lstrip().startswith("what():")


def ends_traceback(text: str) -> bool:
    return bool(text.strip()) and text[0] not in FRAME_BEGINS
