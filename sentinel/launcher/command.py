"""The launcher that drives any scheduler through three commands that the user names.

    sentinel run --launcher command \
      --launcher-option start='sbatch --parsable --job-name "$SENTINEL_JOB" train.sbatch "$@"' \
      --launcher-option status='sh status.sh' \
      --launcher-option stop='scancel --name "$SENTINEL_JOB"' \
      -- python train.py

Each is a line for `sh`, run in the run's working directory. In its environment are SENTINEL_RUN_DIR, SENTINEL_ATTEMPT,
SENTINEL_JOB (a name for this attempt that no other attempt has) and, where nodes are excluded, SENTINEL_EXCLUDE_NODES.

start    submits the job, with the training command as "$@", and returns when the scheduler knows the job. Status 0: accepted.
         126 or 127: it can never start. Anything else: it may start later; with Slurm's words for trouble of its own, or without
         an end in time, it is tried for as long as that takes.
status   prints one word: `pending`, `running`, `exited` (with the exit status behind it, where the scheduler knows it:
         `exited 1`), or `none`: the scheduler knows no such job. Anything else, a failure or a silence is unknown, and nothing
         is relaunched on it.
stop     ends the job. It succeeded when `status` says `exited` or `none`; its own exit status proves nothing.

What is not assumed: a job that is gone by the scheduler's word, and whose ranks' heartbeats still change, is not ended. Nor is
one because the scheduler says `none` once, as one that was just restarted may for a moment: it must say so again and again.
Before the next attempt is submitted the scheduler is asked about the one before it, and one that came back is stopped. The
processes run elsewhere, so no rank can be signalled: a trainer is asked to stop through overrides.json, then the job is stopped.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeGuard, get_args

from sentinel.client.atomic_file import write_atomically
from sentinel.client.run_layout import stream_path
from sentinel.client.strict_json import dumps
from sentinel.detectors.engine_words import find_refusal
from sentinel.errors import EngineDown, GiveUp, NotYet, RetryLater
from sentinel.launcher.asking import is_flood
from sentinel.launcher.checks import check_command, check_durations
from sentinel.launcher.contract import Hold, unheld
from sentinel.launcher.exit_report import (
    Evidence,
    build_report,
    read_object,
    read_records,
    read_report,
    read_start_failure,
    read_table,
    write_report,
)
from sentinel.launcher.file_locks import try_lock
from sentinel.launcher.job_names import job_name_of
from sentinel.launcher.spare_records import bring_home
from sentinel.launcher.spec_file import launch_variables, write_spec
from sentinel.model.amounts import time_words
from sentinel.model.attempts import Alive, AttemptSpec, AttemptView, Exited, ExitReport, NotStarted, Unseen
from sentinel.policy.quantities import parse_positive_duration
from sentinel.run_files.attempt_files import LAUNCH_VARIABLE, AttemptFiles, rank_files

Word = Literal["pending", "running", "exited", "none"]
NEVER_STARTS = (126, 127)  # a shell's "cannot be executed" and "not found"
STOP_WAIT_S = 60.0  # from the stop command to the scheduler's word that the job is gone
POLL_S = 0.2
# A heartbeat that changed within so many seconds contradicts a scheduler that says the job is gone. One that knows no such job
# may have forgotten it, or not know it yet; one that says `exited` knew it.
QUIET_S = {"none": 60.0, "exited": 10.0}
NONES_MIN, NONES_LAST_S = 2, 20.0  # so many answers `none`, one after the other and over so long, before a job is gone
ANSWER_BYTES_MAX = 4096
RETRY_IN_S = 5.0
# Holds the lock while the user's command runs, and hands it to nothing that the command leaves behind.
HOLD = (sys.executable, "-I", "-S", "-c", "import subprocess, sys; sys.exit(subprocess.run(sys.argv[1:]).returncode % 256)")
LAST_ANSWER = "launcher.json"  # in the attempt's folder: what `status` said last, for those who only look


@dataclass(frozen=True, slots=True)
class CommandSettings:
    """`start`, `status`, `stop`: lines for sh. `every`: how often status is asked. `timeout`: how long one command may take.

    Raises:
        ValueError: a line is empty, or a duration is none.
    """

    start: str
    status: str
    stop: str
    every: str = "5s"
    timeout: str = "60s"

    def __post_init__(self) -> None:
        for name in ("start", "status", "stop"):
            if not getattr(self, name).strip():
                raise ValueError(f"--launcher-option {name}: is empty; write a line for sh")
        check_durations({name: getattr(self, name) for name in ("every", "timeout")})

    @property
    def every_s(self) -> float:
        return parse_positive_duration(self.every)

    @property
    def timeout_s(self) -> float:
        return parse_positive_duration(self.timeout)


@dataclass(frozen=True, slots=True)
class Answer:
    """What the scheduler says of a job. `status`: the exit status behind `exited`, where it is known."""

    word: Word
    status: int | None = None


class CommandLauncher:
    """`contract.Launcher` over three commands. `supervises`: see `registry.LaunchPlace`; without it no command is ever run."""

    def __init__(
        self,
        run_dir: str | os.PathLike[str],
        settings: CommandSettings,
        withheld: frozenset[str] = frozenset(),
        supervises: bool = False,
        hold: Hold = unheld,
    ) -> None:
        self._run_dir = Path(os.path.realpath(run_dir))
        self._settings, self._hold = settings, hold
        self._withheld = withheld
        self._supervises = supervises
        self._query: _Running | None = None  # the status command under way; `observe` never waits for it
        self._answer: Answer | str = "its status has not been asked yet"  # or why it is unknown
        self._asked_s = -float("inf")
        self._attempt = -1
        self._nones, self._first_none_s = 0, 0.0  # answers in a row by now, and when the first of them came

    def observe(self, attempt: int, with_processes: bool = True) -> AttemptView:
        """As the contract says. The status command runs beside the caller: what comes back is the last answer there was."""
        del with_processes  # it sees none
        files = AttemptFiles(self._run_dir, attempt)
        try:
            settled = _settled(files)
            if settled is not None:
                return settled
            answer = self._poll_status(files) if self._supervises else _last_answer(files, 3 * self._settings.every_s)
            return self._view(files, answer)
        except (OSError, ValueError) as error:
            return Unseen(attempt, f"attempt {attempt} cannot be looked at: {error}")

    def ensure_started(self, spec: AttemptSpec) -> AttemptView:
        """As the contract says. An attempt that ever ran, or whose job the scheduler knows, is never submitted again."""
        files = AttemptFiles(self._run_dir, spec.attempt)
        bring_home(self._run_dir)
        try:
            with _starting(files) as lock:
                settled = _settled(files)
                if isinstance(settled, Exited):
                    if read_start_failure(files) == "certain":
                        raise GiveUp(settled.report.reason)
                    return settled
                self._turn_to(spec.attempt)
                answer = self._ask(files, spec.cwd)
                self._count_nones(answer)
                if isinstance(answer, str):
                    raise EngineDown(f"attempt {spec.attempt} is not started while its job may exist: {answer}", RETRY_IN_S)
                if answer.word == "none" and isinstance(settled, NotStarted):
                    self._ensure_gone(AttemptFiles(self._run_dir, spec.attempt - 1))
                    write_spec(files, spec)
                    self._start(files, spec, lock)
                    answer = Answer("pending")
                elif isinstance(settled, NotStarted):
                    _mark_started(files)  # whoever submitted it was killed before it could say so
                return self._view(files, answer)
        except (OSError, ValueError) as error:
            raise RetryLater(f"attempt {spec.attempt} cannot be started now: {error}", RETRY_IN_S) from error

    def ensure_stopped(self, attempt: int) -> AttemptView:
        """As the contract says. The stop command is run; the attempt has ended when the scheduler says that its job is gone."""
        files = AttemptFiles(self._run_dir, attempt)
        bring_home(self._run_dir)
        try:
            if not files.spec.exists():
                return NotStarted(attempt)
            settled = _settled(files)
            if isinstance(settled, Exited):
                return settled
            self._hold()
            done = self._run(files, self._settings.stop)
            deadline = time.monotonic() + STOP_WAIT_S
            while True:
                answer = self._ask(files)
                doubt = _doubt(files, answer)
                if isinstance(answer, Answer) and not doubt:
                    return _end(files, answer, "stopped by sentinel", was_killed=True)
                if time.monotonic() >= deadline:
                    reason = f"not known to be stopped: the stop command: {done}; status: {doubt}"
                    raise NotYet(f"attempt {attempt}: {reason}", RETRY_IN_S)
                time.sleep(POLL_S)
        except (OSError, ValueError) as error:
            raise RetryLater(f"attempt {attempt} cannot be stopped now: {error}", RETRY_IN_S) from error

    def signal_ranks(self, attempt: int, signal_number: int) -> int:
        """No rank can be reached from here."""
        del attempt, signal_number
        return 0

    def _view(self, files: AttemptFiles, answer: Answer | str) -> AttemptView:
        if isinstance(answer, str):
            return Unseen(files.attempt, f"attempt {files.attempt}: {answer}")
        if answer.word in ("pending", "running"):
            return Alive(files.attempt, 0, ())
        if not self._supervises:
            return Unseen(
                files.attempt, f"attempt {files.attempt}: the scheduler says {_words(answer)}; its end is not on record yet"
            )
        doubt = _doubt(files, answer) or self._doubt_of_none(files, answer)
        if doubt:
            return Unseen(files.attempt, f"attempt {files.attempt}: {doubt}")
        return _end(files, answer, f"the scheduler says: {_words(answer)}")

    def _ensure_gone(self, files: AttemptFiles) -> None:
        """The attempt before, if it was taken for ended: a scheduler that was wrong would have two trainers write to one run.
        Raises EngineDown."""
        if not _started(files).exists() or read_report(files) is None:
            return
        answer = self._ask(files)
        doubt = _doubt(files, answer)
        if not doubt:
            return
        if isinstance(answer, Answer):
            self._hold()
            self._run(files, self._settings.stop)
        raise EngineDown(f"attempt {files.attempt} was taken for ended, and is not known to be gone: {doubt}", RETRY_IN_S)

    def _start(self, files: AttemptFiles, spec: AttemptSpec, lock: int) -> None:
        """Raises GiveUp, EngineDown, RetryLater."""
        self._hold()
        done = self._run(files, self._settings.start, spec, lock)
        if done.status in NEVER_STARTS:
            reason = f"the start command of the launcher can never start anything: {done}"
            write_report(files, ExitReport(None, (), None, reason), "certain")
            raise GiveUp(reason)
        word = f"the start command: {done}" if done.status is None else find_refusal(done.output.splitlines())
        if done.status != 0 and word:
            raise EngineDown(f"attempt {files.attempt}: {word}", RETRY_IN_S)
        if done.status != 0:
            raise RetryLater(f"attempt {files.attempt}: the start command failed: {done}", RETRY_IN_S)
        _mark_started(files)

    def _ask(self, files: AttemptFiles, cwd: str = "") -> Answer | str:
        """The status now; waits for it. Text: why it is unknown. `cwd`: of an attempt that has no spec.json yet."""
        return _read_answer(self._run(files, self._settings.status, cwd=cwd))

    def _poll_status(self, files: AttemptFiles) -> Answer | str:
        """The newest answer; starts the next question when it is due, and never waits."""
        self._turn_to(files.attempt)
        if self._query is not None:
            done = self._query.result()
            if done is not None:
                self._query, self._answer = None, _read_answer(done)
                self._count_nones(self._answer)
                _keep_answer(files, self._answer)
        if self._query is None and time.monotonic() - self._asked_s >= self._settings.every_s:
            self._asked_s = time.monotonic()
            self._query = self._begin(files, self._settings.status)
        return self._answer

    def _turn_to(self, attempt: int) -> None:
        if attempt == self._attempt:
            return
        if self._query is not None:
            self._query.end()
        self._attempt, self._query, self._asked_s, self._nones = attempt, None, -float("inf"), 0
        self._answer = "its status has not been asked yet"

    def _count_nones(self, answer: Answer | str) -> None:
        """An answer that came just now. One that is unknown begins the count anew, as another word does: the scheduler may just
        be restarted."""
        if isinstance(answer, str) or answer.word != "none":
            self._nones = 0
            return
        if not self._nones:
            self._first_none_s = time.monotonic()
        self._nones += 1

    def _doubt_of_none(self, files: AttemptFiles, answer: Answer) -> str:
        """Why one that is unknown to the scheduler may be known again in a moment; empty where it has said so for long enough."""
        since_s = time.monotonic() - self._first_none_s
        if answer.word != "none" or _are_all_recorded(files) or (self._nones >= NONES_MIN and since_s >= NONES_LAST_S):
            return ""
        times = f"{self._nones} time{'s' if self._nones != 1 else ''}" + (f" in {time_words(since_s)}" if self._nones > 1 else "")
        return f"the scheduler knows no job {_job(files)}, and has said so {times}: it is asked again"

    def _run(
        self, files: AttemptFiles, line: str, spec: AttemptSpec | None = None, lock: int | None = None, cwd: str = ""
    ) -> Done:
        running = self._begin(files, line, spec, lock, cwd)
        while (done := running.result()) is None:
            time.sleep(POLL_S / 10)
        return done

    def _begin(
        self, files: AttemptFiles, line: str, spec: AttemptSpec | None = None, lock: int | None = None, cwd: str = ""
    ) -> _Running:
        """In the directory of the run's command. `spec`: what is started. `lock`: a descriptor that stays open until the command
        has ended."""
        environment = {name: value for name, value in os.environ.items() if name not in {*self._withheld, LAUNCH_VARIABLE}}
        environment |= files.environment | {"SENTINEL_JOB": _job(files)}
        if spec is not None:
            environment |= launch_variables(spec)
        if not cwd:
            cwd = spec.cwd if spec is not None else str((read_object(files.spec) or {}).get("cwd") or files.run_dir)
        words = ["sh", "-c", line, "sentinel", *(spec.argv if spec is not None else ())]
        return _Running(words, cwd, environment, self._settings.timeout_s, lock)


@dataclass(frozen=True, slots=True)
class Done:
    """How a command ended. `status` None: it did not end in time, or printed without an end."""

    status: int | None
    output: str

    def __str__(self) -> str:
        ended = "it did not end in time, or printed without an end" if self.status is None else f"it ended with {self.status}"
        return f"{ended}: {self.output.strip()[-500:] or 'no output'}"


class _Running:
    """One of the user's commands, with a deadline. It has a process group of its own, so that its deadline ends all of it."""

    def __init__(
        self, words: Sequence[str], cwd: str, environment: Mapping[str, str], timeout_s: float, lock: int | None = None
    ) -> None:
        self._output = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the result; a pipe could fill and block it
        self._end_s = time.monotonic() + timeout_s
        self._process = subprocess.Popen(
            words if lock is None else [*HOLD, *words],
            cwd=cwd,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=self._output,
            stderr=subprocess.STDOUT,
            pass_fds=() if lock is None else (lock,),
            start_new_session=True,
        )

    def result(self) -> Done | None:
        """How it ended; None while it runs."""
        status = self._process.poll()
        if status is None and time.monotonic() < self._end_s and not is_flood(self._output):
            return None
        if status is None:
            self.end()
        size = self._output.seek(0, os.SEEK_END)
        self._output.seek(max(0, size - ANSWER_BYTES_MAX))
        text = self._output.read(ANSWER_BYTES_MAX).decode("utf-8", "replace")
        self._output.close()
        return Done(status, text)

    def end(self) -> None:
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


def _read_answer(done: Done) -> Answer | str:
    words = done.output.split()
    if done.status != 0:
        return f"the status command failed: {done}"
    if not words or len(words) > 2 or not _is_word(words[0]):
        return f"the status command said {done.output.strip()[:80]!r}, and not one of {', '.join(get_args(Word))}"
    if len(words) == 1:
        return Answer(words[0])
    if words[0] != "exited" or not words[1].removeprefix("-").isdecimal():
        return f"the status command said {' '.join(words)[:80]!r}; behind exited stands a number, and behind no other word"
    return Answer("exited", int(words[1]))


def _is_word(text: str) -> TypeGuard[Word]:
    return text in get_args(Word)


def _words(answer: Answer | str) -> str:
    if isinstance(answer, str):
        return answer
    return answer.word if answer.status is None else f"{answer.word} {answer.status}"


def _job(files: AttemptFiles) -> str:
    """A job name that no other attempt has, of this run or of another run of the same name elsewhere."""
    return f"sentinel-{job_name_of(files.run_dir)}-{files.attempt}"


def _keep_answer(files: AttemptFiles, answer: Answer | str) -> None:
    value: dict[str, Any] = {"v": 1, "answer": _words(answer) if isinstance(answer, Answer) else None}
    write_atomically(files.folder / LAST_ANSWER, dumps(value).encode() + b"\n")


def _last_answer(files: AttemptFiles, fresh_s: float) -> Answer | str:
    """What the supervisor heard last, for whoever only looks."""
    path = files.folder / LAST_ANSWER
    kept = read_object(path)
    if kept is None:
        return "its supervisor has heard nothing from the scheduler yet"
    age_s = time.time() - path.stat().st_mtime
    if age_s > max(fresh_s, *QUIET_S.values()):
        return f"its supervisor last heard from the scheduler {time_words(age_s)} ago"
    if not isinstance(kept.get("answer"), str):
        return "the scheduler's last answer could not be understood"
    return _read_answer(Done(0, kept["answer"]))


def _settled(files: AttemptFiles) -> AttemptView | None:
    """What needs no scheduler: an attempt that has ended, or that never was started; None for any other."""
    report = read_report(files)
    if report is not None:
        return Exited(files.attempt, report)
    ran = _started(files).exists() or rank_files(files.heartbeats) or stream_path(files.run_dir, files.attempt).exists()
    return None if ran else NotStarted(files.attempt)


def _end(files: AttemptFiles, answer: Answer, reason: str, was_killed: bool = False) -> Exited:
    """Write exit.json. Nobody here saw the ranks' statuses, so only their own records and torchrun's table tell."""
    evidence = Evidence(
        command_status=answer.status,
        ranks=set(rank_files(files.heartbeats)),
        records=read_records(files),
        table=read_table(files),
        was_killed=was_killed,
    )
    report = build_report(evidence, reason)
    write_report(files, report)
    return Exited(files.attempt, report)


def _doubt(files: AttemptFiles, answer: Answer | str) -> str:
    """Why the job may live, also against the scheduler's word; empty where it is gone.

    Its ranks' own records end the doubt. Files are compared with a file written now, so that the clock of the filesystem counts.
    """
    if isinstance(answer, str) or answer.word not in QUIET_S:
        return _words(answer)
    if _are_all_recorded(files):
        return ""
    beats = rank_files(files.heartbeats)
    started = _started(files)
    now = files.folder / "now"
    now.touch()
    now_s = now.stat().st_mtime
    ages = {f"rank {rank}'s heartbeat changed": now_s - entry.stat().st_mtime for rank, entry in beats.items()}
    if started.exists() and answer.word == "none":
        ages["it was submitted"] = now_s - started.stat().st_mtime
    newest = min(ages, key=lambda what: ages[what], default=None)
    if newest is None or ages[newest] >= QUIET_S[answer.word]:
        return ""
    says = f"knows no job {_job(files)}" if answer.word == "none" else f"says {_words(answer)} of job {_job(files)}"
    return f"the scheduler {says}, but {newest} {time_words(ages[newest])} ago"


def _are_all_recorded(files: AttemptFiles) -> bool:
    """Has every rank that ever beat left its own record of its end?"""
    beats = rank_files(files.heartbeats)
    return bool(beats) and set(beats) <= set(read_records(files))


def _started(files: AttemptFiles) -> Path:
    """There when the start command has succeeded, so that the number is never started again."""
    return files.folder / "started"


def _mark_started(files: AttemptFiles) -> None:
    write_atomically(_started(files), b"")


@contextmanager
def _starting(files: AttemptFiles) -> Iterator[int]:
    """One start at a time, over processes. The start command keeps the lock, so no second job is submitted beside one whose
    supervisor was killed. Raises OSError, RetryLater."""
    if not files.run_dir.is_dir():
        raise FileNotFoundError(f"the run directory {files.run_dir} is not there")
    files.make_folders()
    lock = try_lock(files.start_lock)
    if lock is None:
        raise RetryLater(f"attempt {files.attempt}: a start command is still running", RETRY_IN_S)
    try:
        yield lock
    finally:
        os.close(lock)


def check_training_command(command: tuple[str, ...], cwd: str) -> None:
    """It runs elsewhere, so only that there is one can be checked. Raises UsageError."""
    if not command:
        check_command(command, cwd)
