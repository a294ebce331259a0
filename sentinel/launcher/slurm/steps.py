"""The launcher that runs each attempt as one step of the Slurm job that it stands in.

    #SBATCH --nodes=9 --no-kill --requeue
    sentinel run --launcher slurm --launcher-option spares=1 -- python train.py

The step's name says which run and which attempt it is, so that it is found whatever was killed. Slurm is asked about it. Nothing
is concluded from srun, the client that started it, but that it lives: while it does, a step may still come of it. A number is
started once. What the replies prove stands in `answers` and `nodes`; docs/design/slurm.md has the whole of it.
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from sentinel.detectors.engine_words import find_refusal
from sentinel.errors import EngineDown, GiveUp, RetryLater, UsageError
from sentinel.launcher.asking import Beside, in_a_thread
from sentinel.launcher.checks import check_command
from sentinel.launcher.contract import Hold, unheld
from sentinel.launcher.elsewhere import GONE, read_beats
from sentinel.launcher.exit_report import read_report, write_report
from sentinel.launcher.file_locks import is_locked, try_lock
from sentinel.launcher.named_job import RETRY_IN_S, NamedJobLauncher
from sentinel.launcher.newest_view import NewestView, keep_view
from sentinel.launcher.slurm.answers import (
    APART_S,
    FORGOTTEN,
    Absence,
    Listed,
    Look,
    SlurmStep,
    Unclear,
    Unlisted,
    find_others,
    judge_forgotten_job,
    judge_other_job,
    judge_steps,
    read_job_line,
    read_steps,
)
from sentinel.launcher.slurm.attempt import (
    LaunchedStep,
    began_path,
    build_end,
    has_failed_task,
    has_traces,
    launched_s,
    log_size,
    make_places,
    mark_listed,
    read_client_words,
    read_launched,
    run_prefix,
    why_over,
    write_launched,
)
from sentinel.launcher.slurm.calls import ClientPlace, RealCalls, SlurmCalls, SlurmClient
from sentinel.launcher.slurm.settings import SlurmSettings
from sentinel.launcher.slurm.step_command import step_command
from sentinel.launcher.slurm.walk import SilentNodes, find_lost, find_nodes, why_not_empty
from sentinel.launcher.spec_file import launch_variables, write_spec
from sentinel.launcher.store_port import PORTS
from sentinel.model.attempts import Alive, AttemptSpec, AttemptView, Exited, ExitReport, NotStarted, Unseen
from sentinel.run_files.attempt_files import LAUNCH_VARIABLE, AttemptFiles
from sentinel.run_files.cluster_job import is_of_another_cluster, read_job

START_WAIT_S = 30.0  # from the client's start until squeue lists its step
STOP_WAIT_S = 60.0  # from scancel until the end is proven; UnkillableStepTimeout is 60 s by default
CANCEL_AGAIN_S = 10.0
WALK_AFTER_S = 4.0  # from scancel until nodes are asked: squeue loses a healthy step after 1.4 to 2.7 s
# Between two walks to the nodes of a step whose client has ended, where nobody has asked for an end: first, doubled up to the
# last. Each walk is a step, and a job has 40,000 of them.
WALK_FIRST_S, WALK_LAST_S = 15.0, 600.0
TOO_FEW_CPUS = "More processors requested than permitted"
LOSS_GRACE_S = 2.0  # for those that lost a rank to leave their records, as the keeper has it


@dataclass(frozen=True, slots=True)
class Passing:
    """Time that passes: a clock that never runs backwards, and a wait."""

    now: Callable[[], float] = time.monotonic
    wait: Callable[[float], None] = time.sleep
    beside: Beside = in_a_thread


class SlurmLauncher(NamedJobLauncher[LaunchedStep]):
    """`contract.Launcher` over the steps of one job. `supervises`: see `registry.LaunchPlace`; else Slurm is never asked."""

    def __init__(
        self,
        run_dir: str | os.PathLike[str],
        settings: SlurmSettings,
        withheld: frozenset[str] = frozenset(),
        supervises: bool = False,
        calls: SlurmCalls | None = None,
        environ: Mapping[str, str] | None = None,
        passing: Passing | None = None,
        hold: Hold = unheld,
    ) -> None:
        super().__init__(Path(os.path.realpath(run_dir)), "Slurm", supervises=supervises)
        self._settings, self._withheld = settings, withheld
        self._calls = calls if calls is not None else RealCalls(settings.timeout_s, settings.probe_s, withheld, hold)
        self._environ = os.environ if environ is None else environ
        self._passing = passing if passing is not None else Passing()
        self._prefix = run_prefix(self._run_dir)
        self._watches: dict[int, NewestView] = {}
        self._clients: dict[int, SlurmClient] = {}  # kept so that one that has ended is reaped
        self._walks: dict[int, tuple[float, float]] = {}  # by attempt: when its nodes are asked next, and how long after that
        self._lost: dict[int, float] = {}  # by attempt, when it was first seen that a task had failed
        self._orderly: dict[int, set[int]] = {}  # by attempt, tasks that have ended as they should
        self._silence = SilentNodes()
        self._ending = threading.Lock()

    def _has_news(self, files: AttemptFiles) -> bool:
        """Its client has ended, or a task has failed."""
        return self._has_client_ended(files.attempt) or (files.attempt not in self._lost and self._has_lost_a_task(files))

    def _end_attempt(self, files: AttemptFiles, launched: LaunchedStep) -> str:
        """By scancel: until squeue no longer lists the step, or no node has anything of it."""
        why_not = self._end_steps(files, launched)
        return f"{why_not}; {_remedy(files, launched)}" if why_not else ""

    def _finish_stopped(self, files: AttemptFiles, launched: LaunchedStep) -> AttemptView:
        return self._finish(files, launched, "stopped by sentinel", was_killed=True)

    def _read_launched(self, files: AttemptFiles) -> LaunchedStep | None:
        return read_launched(files)

    def signal_ranks(self, attempt: int, signal_number: int) -> int:
        """By scancel, to every task of the step."""
        launched = None
        with suppress(OSError, ValueError):
            launched = read_launched(AttemptFiles(self._run_dir, attempt))
        if launched is None:
            return 0
        look = judge_steps(self._steps(launched.job), launched.name)
        steps = look.steps if isinstance(look, Listed) else ()
        return sum(launched.tasks for step in steps if not self._calls.cancel(step.id, signal_number).trouble)

    def _start(self, files: AttemptFiles, spec: AttemptSpec) -> AttemptView:
        job, name = self._environ.get("SLURM_JOB_ID", ""), f"{self._prefix}{spec.attempt}"
        steps = self._steps(job)
        look, launched = judge_steps(steps, name), read_launched(files)
        if isinstance(look, Unclear) or isinstance(steps, Unclear):
            reason = look.reason if isinstance(look, Unclear) else ""
            raise EngineDown(f"attempt {spec.attempt} is not started while its step may exist in job {job}: {reason}", RETRY_IN_S)
        if isinstance(look, Listed):
            return self._adopt(files, launched or LaunchedStep(job, name, start=read_job(self._environ)))
        if launched is not None and is_locked(files.start_lock):
            return self._await_step(files, launched)
        if launched is not None and not self._was_refused(files, launched):
            return self.observe(spec.attempt)
        self._check_program(files, spec)
        self._end_others(steps, spec.attempt)
        allocated = self._environ.get("SLURM_JOB_NUM_NODES", "")
        wanted, held = self._settings.wanted, int(allocated) if allocated.isdecimal() else 0
        nodes = find_nodes(self._calls, job, held, spec.exclude_nodes, wanted)
        if isinstance(nodes, str):
            raise EngineDown(f"attempt {spec.attempt} is not started: {nodes}", RETRY_IN_S)
        launched = LaunchedStep(
            job, name, nodes, len(nodes) * int(self._settings.ranks_per_node), self._port(spec.attempt),
            start=read_job(self._environ), log_bytes=log_size(files),
        )  # fmt: skip
        write_spec(files, spec)
        self._begin_client(files, spec, launched)
        return self._await_step(files, launched)

    def _check_program(self, files: AttemptFiles, spec: AttemptSpec) -> None:
        """What is not there on this node is on none. Raises GiveUp."""
        try:
            check_command(spec.argv, spec.cwd)
        except UsageError as error:
            reason = f"no such program: {error}"
            write_report(files, ExitReport(None, (), None, reason), "certain")
            raise GiveUp(reason) from None

    def _begin_client(self, files: AttemptFiles, spec: AttemptSpec, launched: LaunchedStep) -> None:
        make_places(files)
        lock = try_lock(files.start_lock)
        if lock is None:
            raise RetryLater(f"attempt {files.attempt}: a client of it is still at it", RETRY_IN_S)
        try:
            began_path(files).unlink(missing_ok=True)
            write_launched(files, launched)
            environment = {name: value for name, value in self._environ.items() if name != LAUNCH_VARIABLE}
            environment |= files.environment | launch_variables(spec)
            for number in [number for number, client in self._clients.items() if client.poll() is not None]:
                del self._clients[number]  # reaped
            words = step_command(files, launched, self._settings, spec.argv)
            self._clients[files.attempt] = self._calls.start(words, ClientPlace(spec.cwd, environment, files.logs, lock))
        finally:
            os.close(lock)

    def _await_step(self, files: AttemptFiles, launched: LaunchedStep) -> AttemptView:
        """Until squeue lists it, or its client has ended. Raises EngineDown."""
        deadline_s, pause_s = self._passing.now() + START_WAIT_S, 0.1
        while True:
            had_ended = not self._is_client_living(files)  # before the look: what it created by then is listed
            look = judge_steps(self._steps(launched.job), launched.name)
            if isinstance(look, Listed):
                return self._adopt(files, launched)
            if had_ended and isinstance(look, Unlisted):
                if self._was_refused(files, launched):
                    word = find_refusal(read_client_words(files, launched)) or "its client was killed before it could ask"
                    raise EngineDown(f"attempt {files.attempt}: {word}", RETRY_IN_S)
                return self.observe(files.attempt)
            if self._passing.now() >= deadline_s:
                doubt = look.reason if isinstance(look, Unclear) else _last_line(files, launched) or look.why
                raise EngineDown(f"attempt {files.attempt}: its client waits for a step: {doubt}", RETRY_IN_S)
            self._passing.wait(pause_s)
            pause_s = min(2 * pause_s, 1.0)

    def _was_refused(self, files: AttemptFiles, launched: LaunchedStep) -> bool:
        """Whether its client has ended and nothing can have come of it, so that the same number may be started again."""
        if launched.is_listed or has_traces(files) or self._is_client_living(files):
            return False
        return not began_path(files).exists() or bool(find_refusal(read_client_words(files, launched)))

    def _adopt(self, files: AttemptFiles, launched: LaunchedStep) -> AttemptView:
        mark_listed(files, launched)
        view = Alive(files.attempt, 0, ())
        self._watch_of(files.attempt).begin_with(view, self._settings.every_s)
        keep_view(files, view)
        return view

    def _end_others(self, steps: tuple[SlurmStep, ...], attempt: int) -> None:
        """Whatever the journal says of the run's other attempts: one that is listed lives. One of before, whose end is not on
        record, is the caller's, who knows of it. Raises EngineDown."""
        for number, own in find_others(steps, self._prefix, attempt).items():
            files = AttemptFiles(self._run_dir, number)
            kept = read_launched(files)
            if number < attempt and kept is not None and read_report(files) is None:
                continue
            here = LaunchedStep(self._environ.get("SLURM_JOB_ID", ""), own[0].name, is_listed=True)
            why_not = self._end_steps(files, here if kept is None else replace(kept, job=here.job, is_listed=True))
            if why_not:
                raise EngineDown(f"attempt {attempt} is not started while attempt {number} may live: {why_not}", RETRY_IN_S)

    def _end_steps(self, files: AttemptFiles, launched: LaunchedStep) -> str:
        """Empty where it is proven that nothing of the attempt lives; else why it is not."""
        absence, now = Absence(), self._passing.now
        began_s, cancelled_s = now(), -float("inf")
        while not why_over(files, launched, self._environ):
            is_late = now() - began_s >= WALK_AFTER_S or read_report(files) is not None
            look = self._look(files, launched, walks=is_late)
            if absence.add(look, read_beats(files), now()):
                break
            if isinstance(look, (Listed, Unclear)) and now() - cancelled_s >= CANCEL_AGAIN_S:
                cancelled_s = now()
                for step in look.steps:
                    self._calls.cancel(step.id)
                self._end_client(files, launched)
            if now() - began_s >= STOP_WAIT_S:
                return absence.why_not
            self._passing.wait(APART_S if isinstance(look, Unlisted) else APART_S / 2)
        return ""

    def _end_client(self, files: AttemptFiles, launched: LaunchedStep) -> None:
        """One that waits for a step would start it after all. One whose step is there sees it end, and leaves by itself."""
        client = self._clients.get(files.attempt)
        if client is not None and not launched.is_listed and client.poll() is None:
            client.kill()

    def _look(self, files: AttemptFiles, launched: LaunchedStep, *, walks: bool) -> Look:
        """`walks`: nodes may be asked what is left of a step that is listed."""
        if is_of_another_cluster(launched.start, self._environ):
            return Unclear(f"its job {launched.job} is of another cluster, which cannot be asked from here")
        look = judge_steps(self._steps(launched.job), launched.name)
        is_own_job = self._is_own(launched)
        if isinstance(look, Unclear) and not look.steps:
            look = self._look_at_job(files, launched, look)
        if isinstance(look, Unlisted) and not launched.is_listed and self._is_client_living(files):
            return Unclear("its client lives: a step may still come of it")
        if walks and is_own_job and isinstance(look, (Listed, Unclear)) and look.steps and not self._is_client_living(files):
            left = why_not_empty(self._calls, launched.job, look.steps, self._silence, self._passing.now)
            names = ", ".join(step.id for step in look.steps)
            if not left:
                return Unlisted(f"squeue lists step {names}, and nothing of it is left on its nodes")
            return replace(look, doubt=left) if isinstance(look, Listed) else look
        return look

    def _look_at_job(self, files: AttemptFiles, launched: LaunchedStep, look: Look) -> Look:
        reply = self._calls.job(launched.job)
        look = judge_other_job(look, read_job_line(reply, launched.job))
        if isinstance(look, Unclear) and FORGOTTEN in reply.errors:
            look = judge_forgotten_job(look, reply, self._calls.controller(), launched_s(files))
        return look

    def _is_own(self, launched: LaunchedStep) -> bool:
        """Whether its step is one of the job that this is."""
        is_here = not is_of_another_cluster(launched.start, self._environ)
        return is_here and launched.job == self._environ.get("SLURM_JOB_ID")

    def _ask(self, attempt: int, absence: Absence) -> tuple[AttemptView, float]:
        """The view now, and when to ask again."""
        files = AttemptFiles(self._run_dir, attempt)
        launched, settled = read_launched(files), self._settled(files)
        if launched is None or settled is not None:
            return settled if settled is not None else NotStarted(attempt), self._settings.every_s
        over = why_over(files, launched, self._environ)
        now_s = self._passing.now()
        due_s, pause_s = self._walks.get(attempt, (-float("inf"), WALK_FIRST_S))
        walks = absence.is_pending or (not self._is_client_living(files) and now_s >= due_s)
        if walks:
            self._walks[attempt] = now_s + pause_s, min(2 * pause_s, WALK_LAST_S)
        look = self._look(files, launched, walks=walks)
        if isinstance(look, Listed):
            launched = mark_listed(files, launched)
        if over or absence.add(look, read_beats(files), now_s):
            return self._finish(files, launched, over or look.why if isinstance(look, Unlisted) else over), APART_S
        is_alive = isinstance(look, Listed) or (isinstance(look, Unlisted) and not absence.is_contradicted)
        view = Alive(attempt, 0, ()) if is_alive else Unseen(attempt, f"attempt {attempt}: {absence.why_not}")
        keep_view(files, view)
        is_soon = self._ends_survivors(files, look) or isinstance(look, Unlisted)
        return view, APART_S if is_soon else self._settings.every_s

    def _ends_survivors(self, files: AttemptFiles, look: Look) -> bool:
        """Whether a task has failed: after LOSS_GRACE_S what is left of the step is killed."""
        if not self._has_lost_a_task(files):
            return False
        lost_s = self._lost.setdefault(files.attempt, self._passing.now())
        if isinstance(look, Listed) and self._passing.now() - lost_s >= LOSS_GRACE_S:
            for step in look.steps:
                self._calls.cancel(step.id)
        return True

    def _has_lost_a_task(self, files: AttemptFiles) -> bool:
        return files.attempt in self._lost or has_failed_task(files, self._orderly.setdefault(files.attempt, set()))

    def _finish(self, files: AttemptFiles, launched: LaunchedStep, reason: str, was_killed: bool = False) -> AttemptView:
        """Write exit.json, unless it is there. Only here does an attempt end."""
        with self._ending:
            report = read_report(files)
            for kept in (self._watches, self._lost, self._orderly, self._walks):
                kept.pop(files.attempt, None)
            if report is None:
                lost = find_lost(self._calls, launched.job, launched.nodes) if self._is_own(launched) else ()
                words = f"{reason}; the scheduler has given up {', '.join(lost)}" if lost else reason
                words += self._clients_words(files, launched)
                report = build_end(files, launched, words, lost=lost, was_killed=was_killed)
                write_report(files, report)
            return Exited(files.attempt, report)

    def _clients_words(self, files: AttemptFiles, launched: LaunchedStep) -> str:
        """Why its client got no step, in its own words; nothing of one whose step was there, or of which a rank was heard."""
        words = "" if launched.is_listed or has_traces(files) else _last_line(files, launched)
        if TOO_FEW_CPUS in words:
            option = f"ranks_per_node={self._settings.ranks_per_node}"
            words += f" ({option}: the job holds fewer CPUs on a node; give it --exclusive, or --ntasks-per-node as many)"
        return f"; its client said: {words}" if words else ""

    def _watch_of(self, attempt: int) -> NewestView:
        if attempt not in self._watches:
            absence = Absence()
            self._watches[attempt] = NewestView(
                attempt, lambda: self._ask(attempt, absence), self._passing.now, self._passing.beside, self._who
            )
        return self._watches[attempt]

    def _steps(self, job: str) -> tuple[SlurmStep, ...] | Unclear:
        return read_steps(self._calls.steps(job), job)

    def _has_client_ended(self, attempt: int) -> bool:
        """Just now, of one that this process started: whatever it was, it is looked at at once."""
        client = self._clients.get(attempt)
        if client is None or client.poll() is None:
            return False
        del self._clients[attempt]
        return True

    def _is_client_living(self, files: AttemptFiles) -> bool:
        client = self._clients.get(files.attempt)
        if client is not None:
            client.poll()
        return is_locked(files.start_lock)

    def _port(self, attempt: int) -> int:
        """Another one than the attempt before had: its connections may linger."""
        kept = read_launched(AttemptFiles(self._run_dir, attempt - 1)) if attempt else None
        port = random.SystemRandom().choice(PORTS[1:])
        return port if kept is None or port != kept.port else PORTS[0]


def _last_line(files: AttemptFiles, launched: LaunchedStep) -> str:
    lines = [line.strip() for line in read_client_words(files, launched) if line.strip()]
    return lines[-1][:300] if lines else ""


def _remedy(files: AttemptFiles, launched: LaunchedStep) -> str:
    where = ", ".join(launched.nodes[:8]) or "its nodes"
    return f"it is asked for again. When no process of it runs on {where} any more: touch {files.folder / GONE}"
