"""The launcher that runs each attempt as one JobSet.

    sentinel run --launcher kubernetes --launcher-option template=jobset.yaml -- torchrun --nproc-per-node 8 train.py

The JobSet's name says which run and which attempt it is, and its label which launch, so that it is found whatever was killed, and
is created once: the API refuses a second of that name. The API is asked about it; that a call was sent, or answered, proves
nothing. An end is believed when no pod is left. docs/design/kubernetes.md has the whole of it.
"""

from __future__ import annotations

import os
import random
import threading
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sentinel.client.atomic_file import ensure_directory
from sentinel.client.strict_json import dumps
from sentinel.errors import EngineDown, GiveUp, RetryLater
from sentinel.launcher.contract import Hold, unheld
from sentinel.launcher.elsewhere import GONE, read_beats
from sentinel.launcher.exit_report import read_report, write_report
from sentinel.launcher.file_locks import try_lock
from sentinel.launcher.kubernetes.answers import (
    JobSet,
    SeenAttempt,
    find_other_attempts,
    read_jobsets,
    read_pods,
    read_refusal,
    see,
)
from sentinel.launcher.kubernetes.attempt import (
    LaunchedJobSet,
    build_pods_end,
    jobset_name,
    keep_jobset,
    keep_pods,
    mark_jobset_listed,
    read_launched_jobset,
    run_label,
    write_launched_jobset,
    write_pod_log,
)
from sentinel.launcher.kubernetes.calls import KubeCalls, RealKube
from sentinel.launcher.kubernetes.cluster_check import describe, read_settings
from sentinel.launcher.kubernetes.pods import RUN, Pod
from sentinel.launcher.kubernetes.settings import KubernetesSettings
from sentinel.launcher.kubernetes.template import Template, TemplateError, WantedJobSet, build_jobset
from sentinel.launcher.named_job import RETRY_IN_S, NamedJobLauncher
from sentinel.launcher.newest_view import NewestView, keep_view
from sentinel.launcher.slurm.answers import APART_S, Absence, Unclear, Unlisted
from sentinel.launcher.slurm.attempt import has_traces, tasks_folder
from sentinel.launcher.slurm.steps import Passing
from sentinel.launcher.spec_file import launch_variables, write_spec
from sentinel.launcher.store_port import PORTS
from sentinel.model.amounts import time_words
from sentinel.model.attempts import Alive, AttemptSpec, AttemptView, Exited, ExitReport, NotStarted, Unseen
from sentinel.run_files.attempt_files import AttemptFiles, rank_files

WHO = "the Kubernetes API"
START_WAIT_S = 30.0  # from the creation until its pods have begun
STOP_WAIT_S = 60.0  # from the deletion until no pod is left; grace is 30 s by default
DELETE_AGAIN_S = 10.0
# A call to create that nobody has heard of any more may still be carried out; the API server gives one up after 60 s.
SETTLE_S = 90.0
LOSS_GRACE_S = 2.0  # for those that lost a rank to leave their records, as the keeper has it
PODS_A_SECOND = 64.0  # are looked at while nothing is wrong: those of 2,048 nodes, 11 MB, every 32 s
LOGS_MAX = 16  # pods of which the log is kept


@dataclass(frozen=True, slots=True)
class _PodsSeen:
    """The last look at an attempt's pods. `due_s`: when they are looked at again."""

    seen: SeenAttempt
    due_s: float


class KubernetesLauncher(NamedJobLauncher[LaunchedJobSet]):
    """`contract.Launcher` over JobSets. `supervises`: see `registry.LaunchPlace`; else the API is never asked."""

    def __init__(
        self,
        run_dir: str | os.PathLike[str],
        settings: KubernetesSettings,
        withheld: frozenset[str] = frozenset(),
        supervises: bool = False,
        calls: KubeCalls | None = None,
        passing: Passing | None = None,
        hold: Hold = unheld,
    ) -> None:
        super().__init__(Path(os.path.realpath(run_dir)), WHO, supervises=supervises)
        self._settings = settings
        self._calls = calls if calls is not None else RealKube(settings.timeout_s, settings.words, withheld, hold)
        self._passing = passing if passing is not None else Passing()
        self._watches: dict[int, NewestView] = {}
        self._ending_since: dict[int, float] = {}  # by attempt, when it was first seen that it is over
        self._over: dict[int, str] = {}  # by attempt, why it was over before it was stopped
        self._logged: set[int] = set()
        self._pods_seen: dict[int, _PodsSeen] = {}
        self._ended: dict[int, int] = {}  # by attempt, how many ranks have left a record
        self._ending, self._keeping = threading.Lock(), threading.Lock()

    def _end_attempt(self, files: AttemptFiles, launched: LaunchedJobSet) -> str:
        """The JobSet is deleted, until the API lists neither it nor a pod of it."""
        why_not = self._end(files, launched)
        return f"{why_not}; {_remedy(files)}" if why_not else ""

    def _finish_stopped(self, files: AttemptFiles, launched: LaunchedJobSet) -> AttemptView:
        over = self._over.pop(files.attempt, "")
        reason = f"{over}; what was left was stopped by sentinel" if over else "stopped by sentinel"
        return self._finish(files, launched, reason, was_killed=not over)

    def _read_launched(self, files: AttemptFiles) -> LaunchedJobSet | None:
        return read_launched_jobset(files)

    def signal_ranks(self, attempt: int, signal_number: int) -> int:
        """No process in a pod can be reached with the rights that Sentinel has."""
        del attempt, signal_number
        return 0

    # --- to start

    def _start(self, files: AttemptFiles, spec: AttemptSpec) -> AttemptView:
        launched, run = read_launched_jobset(files), run_label(self._run_dir)
        # One that was asked for is looked for whatever has become of the template since.
        namespace = self._read_template(spec)[1] if launched is None else launched.namespace
        lists = self._lists(namespace, run)
        if isinstance(lists, Unclear):
            raise EngineDown(f"attempt {spec.attempt} is not started while its pods may exist: {lists.reason}", RETRY_IN_S)
        jobsets, pods = lists
        seen = see(jobsets, pods, spec.attempt)
        own = None if launched is None else launched.launch
        if launched is not None and seen.jobset is not None and seen.jobset.launch == own:
            return self._await_pods(files, mark_jobset_listed(files, launched, seen.jobset.uid))
        if launched is not None and (launched.is_listed or has_traces(files)):
            return self.observe(spec.attempt)  # it was there, so that its number is used
        self._end_others(run, namespace, lists, None if seen.is_gone else spec.attempt, spec.attempt)
        template, _ = self._read_template(spec)
        if launched is None:
            launched = LaunchedJobSet(
                namespace=namespace,
                name=jobset_name(run, spec.attempt),
                run=run,
                launch=spec.launch or uuid.uuid4().hex[:12],
                pods=template.pods,
                container=template.trains,
                port=random.SystemRandom().choice(PORTS),
            )
        environment = files.environment | launch_variables(spec)
        wanted = WantedJobSet(
            launched.name, run, spec.attempt, launched.launch, spec.argv, environment, spec.exclude_nodes, launched.port
        )
        try:
            jobset = build_jobset(template, wanted)
        except TemplateError as error:
            raise EngineDown(f"attempt {spec.attempt} is not started: {error}", RETRY_IN_S) from None
        self._create(files, spec, launched, jobset)
        return self._await_pods(files, launched)

    def _read_template(self, spec: AttemptSpec) -> tuple[Template, str]:
        """And the namespace. A person mends it, and it is tried again. Raises EngineDown."""
        try:
            return read_settings(self._settings, spec.cwd)
        except TemplateError as error:
            raise EngineDown(f"attempt {spec.attempt} is not started: {error}", RETRY_IN_S) from None

    def _create(self, files: AttemptFiles, spec: AttemptSpec, launched: LaunchedJobSet, jobset: dict[str, object]) -> None:
        """Facts first. Raises EngineDown, RetryLater."""
        files.make_folders()
        ensure_directory(tasks_folder(files))
        lock = try_lock(files.start_lock)
        if lock is None:
            raise RetryLater(f"attempt {files.attempt}: somebody is at it", RETRY_IN_S)
        try:
            write_spec(files, spec)
            keep_jobset(files, jobset)
            write_launched_jobset(files, launched)
            reply = self._calls.create(launched.namespace, dumps(jobset))
        finally:
            os.close(lock)
        if not reply.trouble:
            return
        if read_refusal(reply) != "AlreadyExists":
            raise EngineDown(f"attempt {files.attempt}: {describe(reply)}", RETRY_IN_S)
        found = read_jobsets(self._calls.jobset(launched.namespace, launched.name))
        if isinstance(found, Unclear):
            raise EngineDown(f"attempt {files.attempt}: there is a JobSet {launched.name}: {found.reason}", RETRY_IN_S)
        if found and not _is_own(found[0], launched):
            raise EngineDown(f"attempt {files.attempt} is not started: {_whose(found[0], launched)}", RETRY_IN_S)

    def _await_pods(self, files: AttemptFiles, launched: LaunchedJobSet) -> AttemptView:
        """Until all its pods have begun. Raises EngineDown where they do not, GiveUp where they never will."""
        deadline_s, pause_s = self._passing.now() + START_WAIT_S, 0.1
        while True:
            seen = self._look(files, launched)
            if isinstance(seen, SeenAttempt) and seen.jobset is not None:
                launched = mark_jobset_listed(files, launched, seen.jobset.uid)
                begun = [pod for pod in seen.pods if pod.has_started or pod.end is not None]
                never = [pod for pod in begun if pod.end is not None and not pod.end.has_run]
                if never and len(never) == len(begun):
                    self._never_starts(files, launched, never[0])
                is_over = seen.jobset.over or seen.jobset.is_deleted or any(pod.end is not None for pod in begun)
                if is_over or len(begun) >= launched.pods:
                    return self._adopt(files)
            elif isinstance(seen, SeenAttempt) and (launched.is_listed or seen.pods):
                return self.observe(files.attempt)
            if self._passing.now() >= deadline_s:
                doubt = seen.reason if isinstance(seen, Unclear) else _why_waiting(seen, launched)
                if not doubt:
                    return self._adopt(files)
                raise EngineDown(f"attempt {files.attempt}: {doubt}", RETRY_IN_S)
            self._passing.wait(pause_s)
            pause_s = min(2 * pause_s, 1.0)

    def _never_starts(self, files: AttemptFiles, launched: LaunchedJobSet, pod: Pod) -> None:
        """No pod has the program. Raises GiveUp, and EngineDown while something of it may live."""
        reason = f"no such program: pod {pod.name}: {pod.end.message if pod.end is not None else ''}"
        why_not = self._end(files, launched)
        if why_not:
            raise EngineDown(f"attempt {files.attempt}: {reason}; {why_not}", RETRY_IN_S)
        write_report(files, ExitReport(None, (), None, reason), "certain")
        raise GiveUp(reason)

    def _adopt(self, files: AttemptFiles) -> AttemptView:
        view = Alive(files.attempt, 0, ())
        self._watch_of(files.attempt).begin_with(view, APART_S)
        keep_view(files, view)
        return view

    def _end_others(
        self,
        run: str,
        namespace: str,
        lists: tuple[tuple[JobSet, ...], tuple[Pod, ...]],
        same: int | None,
        attempt: int,
    ) -> None:
        """Whatever the journal says of the run's other attempts: one that is listed lives. One of before, whose end is not on
        record, is the caller's, who knows of it. `same`: of this number, another launch's. Raises EngineDown."""
        jobsets, pods = lists
        others = find_other_attempts(jobsets, pods, attempt)
        for number in (*others, same) if same is not None else others:
            files = AttemptFiles(self._run_dir, number)
            kept = read_launched_jobset(files)
            if number < attempt and kept is not None and read_report(files) is None:
                continue
            name = jobset_name(run, number)
            theirs = LaunchedJobSet(namespace, name, run, "", is_listed=True)
            why_not = self._end(files, theirs, is_own=False, frees_name=number == same)
            if why_not:
                raise EngineDown(f"attempt {attempt} is not started while attempt {number} may live: {why_not}", RETRY_IN_S)

    # --- to end

    def _end(self, files: AttemptFiles, launched: LaunchedJobSet, *, is_own: bool = True, frees_name: bool = False) -> str:
        """Empty where it is proven that nothing of the attempt lives; else why it is not. `is_own`: what pods tell is kept.
        `frees_name`: its JobSet must have left the list, too."""
        absence, now = Absence(), self._passing.now
        began_s, deleted_s, refused = now(), -float("inf"), ""
        while frees_name or not (files.folder / GONE).exists():
            seen = self._look(files, launched, is_kept=is_own)
            if isinstance(seen, SeenAttempt) and seen.jobset is not None and not seen.jobset.is_deleted and seen.is_ending:
                self._over[files.attempt] = seen.is_ending
            if isinstance(seen, SeenAttempt) and seen.has_ended and not frees_name:
                if seen.jobset is not None and not seen.jobset.is_deleted:
                    self._delete(files, launched, seen, is_own=is_own)
                break
            if absence.add(_as_look(seen, self._unsettled(files, launched)), read_beats(files), now()):
                break
            if isinstance(seen, SeenAttempt) and seen.jobset is not None and now() - deleted_s >= DELETE_AGAIN_S:
                deleted_s = now()
                refused = self._delete(files, launched, seen, is_own=is_own)
            if now() - began_s >= STOP_WAIT_S:
                return "; ".join(words for words in (absence.why_not, refused) if words)
            self._passing.wait(APART_S if isinstance(seen, SeenAttempt) and seen.is_gone else APART_S / 2)
        return ""

    def _delete(self, files: AttemptFiles, launched: LaunchedJobSet, seen: SeenAttempt, *, is_own: bool = True) -> str:
        """Ask for its end; why it was refused. By uid: whatever else has come to be called so is left alone."""
        assert seen.jobset is not None, "there is something to delete"
        if is_own:
            self._keep_logs(files, launched, seen.pods)
        reply = self._calls.delete(launched.namespace, seen.jobset.name, seen.jobset.uid)
        return "" if not reply.trouble or read_refusal(reply) == "NotFound" else f"its deletion: {describe(reply)}"

    def _keep_logs(self, files: AttemptFiles, launched: LaunchedJobSet, pods: Sequence[Pod]) -> None:
        """The ends of some, those of failed pods first: they go with the pods. Once, and only while the API answers."""
        if files.attempt in self._logged:
            return
        self._logged.add(files.attempt)
        ran = [pod for pod in pods if pod.has_started or pod.end is not None]
        for pod in sorted(ran, key=lambda pod: (pod.end is None or pod.end.code == 0, pod.index or 0))[:LOGS_MAX]:
            reply = self._calls.log(launched.namespace, pod.name, launched.container)
            if reply.status is None:
                return
            if reply.status == 0:
                write_pod_log(files, pod, reply.output)

    # --- to look

    def _lists(self, namespace: str, run: str) -> tuple[tuple[JobSet, ...], tuple[Pod, ...]] | Unclear:
        """The run's JobSets, and then its pods: what a JobSet has made by then is in the second list."""
        jobsets = read_jobsets(self._calls.jobsets(namespace, f"{RUN}={run}"))
        if isinstance(jobsets, Unclear):
            return jobsets
        pods = read_pods(self._calls.pods(namespace, f"{RUN}={run}"), time.time())
        return pods if isinstance(pods, Unclear) else (jobsets, pods)

    def _has_news(self, files: AttemptFiles) -> bool:
        """Whether a rank has left a record since the last time: then its pod is about to end. Raises OSError."""
        ended = len(rank_files(files.exits))
        is_more = ended > self._ended.get(files.attempt, 0)
        if is_more:
            self._ended[files.attempt] = ended
            self._pods_seen.pop(files.attempt, None)
        return is_more

    def _glance(self, files: AttemptFiles, launched: LaunchedJobSet) -> SeenAttempt | Unclear:
        """A look that spares the API the pods while their JobSet goes on: thousands of them are megabytes."""
        kept = self._pods_seen.get(files.attempt)
        if kept is not None and self._passing.now() < kept.due_s and not kept.seen.is_ending and not kept.seen.lost:
            jobsets = read_jobsets(self._calls.jobsets(launched.namespace, f"{RUN}={launched.run}"))
            seen = jobsets if isinstance(jobsets, Unclear) else see(jobsets, kept.seen.pods, files.attempt)
            if isinstance(seen, Unclear) or (seen.jobset is not None and not seen.is_ending):
                return seen
        seen = self._look(files, launched)
        self._pods_seen.pop(files.attempt, None)
        if isinstance(seen, SeenAttempt):
            self._pods_seen[files.attempt] = _PodsSeen(seen, self._passing.now() + launched.pods / PODS_A_SECOND)
        return seen

    def _look(self, files: AttemptFiles, launched: LaunchedJobSet, *, is_kept: bool = True) -> SeenAttempt | Unclear:
        lists = self._lists(launched.namespace, launched.run)
        if isinstance(lists, Unclear):
            return lists
        jobsets, pods = lists
        seen = see(jobsets, pods, files.attempt)
        if is_kept and seen.pods:
            with self._keeping:  # the loop's thread and the one that ends an attempt
                keep_pods(files, seen.pods)
        return seen

    def _unsettled(self, files: AttemptFiles, launched: LaunchedJobSet) -> str:
        """Why a JobSet that nobody has ever seen may still come to be; empty where it cannot."""
        if launched.is_listed:
            return ""
        now = files.folder / "now"
        now.touch()
        age_s = now.stat().st_mtime - (files.folder / "kubernetes.json").stat().st_mtime
        return f"it was asked for {time_words(age_s)} ago, and may still come to be" if age_s < SETTLE_S else ""

    def _ask(self, attempt: int, absence: Absence) -> tuple[AttemptView, float]:
        """The view now, and when to ask again."""
        files = AttemptFiles(self._run_dir, attempt)
        launched, settled = read_launched_jobset(files), self._settled(files)
        if launched is None or settled is not None:
            return settled if settled is not None else NotStarted(attempt), self._settings.every_s
        if (files.folder / GONE).exists():
            return self._finish(files, launched, "a person says that nothing of it is left"), APART_S
        seen, now_s = self._glance(files, launched), self._passing.now()
        if isinstance(seen, SeenAttempt) and seen.jobset is not None:
            launched = mark_jobset_listed(files, launched, seen.jobset.uid)
        if absence.add(_as_look(seen, self._unsettled(files, launched)), read_beats(files), now_s):
            return self._finish(files, launched, "the API lists neither its JobSet nor a pod of it"), APART_S
        if isinstance(seen, SeenAttempt) and seen.has_ended and seen.jobset is not None:
            self._keep_logs(files, launched, seen.pods)
            return self._finish(files, launched, seen.jobset.over), APART_S
        view = self._view(files, seen, absence, now_s)
        keep_view(files, view)
        return view, self._settings.every_s if isinstance(view, Alive) and attempt not in self._ending_since else APART_S

    def _view(self, files: AttemptFiles, seen: SeenAttempt | Unclear, absence: Absence, now_s: float) -> AttemptView:
        """Of an attempt whose end is not proven. What is over leaves the others LOSS_GRACE_S for their records; what is left then
        is for the caller to stop, and its silence is no hang."""
        attempt = files.attempt
        if isinstance(seen, Unclear) or absence.is_contradicted or (seen.lost and not seen.is_ending):
            return Unseen(attempt, f"attempt {attempt}: {absence.why_not}")
        if not seen.is_ending:
            return Alive(attempt, 0, ())
        since_s = self._ending_since.setdefault(attempt, now_s)
        if now_s - since_s < LOSS_GRACE_S:
            return Alive(attempt, 0, ())
        return Unseen(attempt, f"attempt {attempt}: {seen.is_ending}; {absence.why_not}", has_ended_here=True)

    def _finish(self, files: AttemptFiles, launched: LaunchedJobSet, reason: str, was_killed: bool = False) -> AttemptView:
        """Write exit.json, unless it is there. Only here does an attempt end."""
        with self._ending:
            report = read_report(files)
            for memory in (self._watches, self._ending_since, self._over, self._pods_seen, self._ended):
                memory.pop(files.attempt, None)
            if report is None:
                report = build_pods_end(files, launched, reason, was_killed=was_killed)
                write_report(files, report)
            return Exited(files.attempt, report)

    def _watch_of(self, attempt: int) -> NewestView:
        if attempt not in self._watches:
            absence, passing = Absence(), self._passing
            self._watches[attempt] = NewestView(attempt, lambda: self._ask(attempt, absence), passing.now, passing.beside, WHO)
        return self._watches[attempt]


def _as_look(seen: SeenAttempt | Unclear, unsettled: str) -> Unlisted | Unclear:
    """What it says of the attempt's end."""
    if isinstance(seen, Unclear):
        return seen
    if not seen.is_gone:
        return Unclear(seen.what_is_left)
    return Unclear(unsettled) if unsettled else Unlisted("the API lists neither its JobSet nor a pod of it")


def _why_waiting(seen: SeenAttempt, launched: LaunchedJobSet) -> str:
    """Why its pods do not begin; empty where that comes by itself."""
    if seen.jobset is None:
        return "the API does not list its JobSet, which was created"
    if seen.jobset.is_suspended:
        return f"JobSet {launched.name} is suspended: it waits in a queue of the cluster"
    stuck = next((pod for pod in seen.pods if pod.is_stuck), None) or next((pod for pod in seen.pods if not pod.node), None)
    if stuck is not None:
        return f"pod {stuck.name} waits: {stuck.waits or 'it has no node'}"
    return f"{len(seen.pods)} of {launched.pods} pods are there" if len(seen.pods) < launched.pods else ""


def _is_own(jobset: JobSet, launched: LaunchedJobSet) -> bool:
    return (jobset.run, jobset.launch) == (launched.run, launched.launch)


def _whose(jobset: JobSet, launched: LaunchedJobSet) -> str:
    whose = f"of the run {jobset.run}" if jobset.run else "that Sentinel did not create"
    return (
        f"there is a JobSet {jobset.name} in {launched.namespace} {whose}, launch {jobset.launch or '?'}; it is left alone. "
        f"When nobody needs it: kubectl --namespace {launched.namespace} delete jobset {jobset.name}"
    )


def _remedy(files: AttemptFiles) -> str:
    return (
        "it is asked for again. A node that does not come back: delete its Node, or taint it node.kubernetes.io/out-of-service. "
        f"When no process of it runs any more: touch {files.folder / GONE}"
    )
