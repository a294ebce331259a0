"""A run as one policy has it supervised: which policy that is, and what follows from it before anything is started.

The policy may change while the run goes on; then the run is ruled anew, as by a supervisor that is started again. What only a
trainer under a profile needs is imported where one is named.
"""

from __future__ import annotations

import glob
import os
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from sentinel.channels.opening import secret_values_of
from sentinel.client.masking import Masking
from sentinel.clock import SystemClock
from sentinel.detectors.reference import Reference
from sentinel.errors import PolicyError, UsageError
from sentinel.journal.run_file import RunFile, declared_capabilities, find_run_file
from sentinel.launcher import registry as launchers
from sentinel.launcher.checks import check_code, refuse_direct, remark_on_warm
from sentinel.mirrors.keeper import check_mirror
from sentinel.operator.applying import keep
from sentinel.paging.asked import lay_routes, lay_run_url, with_checked_routes
from sentinel.policy.available import passed_over
from sentinel.policy.schema import Policy
from sentinel.policy_files.loading import PolicyFile, read_policy_file
from sentinel.supervisor.deadline import EndOfTime, read_end
from sentinel.supervisor.journal_outage import JournalOutage, say
from sentinel.supervisor.loop_watch import SendWords, page_about_loop
from sentinel.supervisor.lost_journal import JournalPages
from sentinel.supervisor.policy_in_force import find_in_force
from sentinel.supervisor.run_request import RunRequest, describe_run
from sentinel.telemetry.reference import load_reference
from sentinel.trackers.registry import check_targets

if TYPE_CHECKING:
    from sentinel.trainers.launching import Trained
    from sentinel.trainers.profile import TrainerProfile


@dataclass(frozen=True, slots=True)
class Ruled:
    """A run as one policy has it supervised. `remark`: why that policy, where somebody may expect another. `doubts`: what the
    profile cannot do for this command."""

    run_dir: Path
    policy: Policy
    file: PolicyFile
    reference: Reference | None
    run_file: RunFile
    profile: TrainerProfile | None
    end: EndOfTime
    remark: str
    doubts: tuple[str, ...] = ()

    def under(self, link: str) -> Ruled:
        """Whose pages link to the page that stays, or else to the one that this supervisor serves. Raises UsageError."""
        return replace(self, policy=lay_run_url(self.policy, link))

    def trained(self) -> Trained | None:
        """None without a profile."""
        if self.profile is None:
            return None
        from sentinel.trainers.launching import Trained

        return Trained(self.run_dir, self.profile, self.run_file.command, self.run_file.cwd)

    @property
    def named_logs(self) -> tuple[str, ...]:
        """Absolute paths and patterns of the files, beside those of ranks and launcher, that the policy's `logs` are looked for
        in; none where it has no such patterns. Raises UsageError as `find_root`."""
        if not self.policy.spec.logs:
            return ()
        own = (os.path.join(glob.escape(self.run_file.cwd), path) for path in self.policy.spec.run.log_files)
        return (*own, *(() if (trained := self.trained()) is None else trained.logs))

    @property
    def masking(self) -> Masking:
        return Masking.of(os.environ, self.run_file.command, secret_values_of(self.policy.spec.paging))


def rule_run(request: RunRequest, run_dir: Path, started_s: float) -> Ruled:
    """The policy in force, and what follows from it. Raises UsageError and PolicyError."""
    known = find_run_file(run_dir)
    in_force = find_in_force(request, run_dir, known)
    named = request.trainer if request.trainer is not None else known.trainer if known is not None else None
    profile = None if named is None else _load_profile(named)
    more = (*request.more, *_of_launcher(request)) if known is None else request.more
    capabilities = declared_capabilities(known, request.without, more, None if profile is None else profile.capabilities)
    file = read_policy_file(in_force.path)
    asked = request.pages or (known.pages if known is not None else ())
    policy = lay_routes(file.policy, asked) if request.stop_at_once else with_checked_routes(file.policy, asked)
    run_file = describe_run(run_dir, known, request, policy, in_force.path, in_force.applied)
    run_file = replace(run_file, capabilities=capabilities, pages=asked)
    profile, doubts = (None, ()) if profile is None else _fit(profile, run_file)
    end = EndOfTime() if request.stop_at_once else read_end(request.time_limit_s, policy, os.environ, started_s)
    return Ruled(run_dir, policy, file, load_reference(policy, in_force.path), run_file, profile, end, in_force.remark, doubts)


def _load_profile(named: str) -> TrainerProfile:
    from sentinel.trainers.loading import load_profile

    return load_profile(named)


def _fit(profile: TrainerProfile, run_file: RunFile) -> tuple[TrainerProfile, tuple[str, ...]]:
    from sentinel.trainers.shell_script import fit_to_command

    fitted = fit_to_command(profile, run_file.command, run_file.cwd)
    return fitted.profile, fitted.remarks


def _of_launcher(request: RunRequest) -> tuple[str, ...]:
    """What the launcher of a new run can do whatever its command is. Raises UsageError."""
    return launchers.find_row(launchers.DEFAULT if request.launcher is None else request.launcher).capabilities


def rule_anew(request: RunRequest, run_dir: Path, started_s: float, outage: JournalOutage) -> Ruled:
    """By the policy that was applied. It was read and checked a moment ago: what fails now is the disk, which is waited for."""
    while True:
        try:
            return rule_run(replace(request, policy=None), run_dir, started_s)
        except (PolicyError, UsageError) as error:
            outage.wait_out(error, SystemClock().wall_s())


def keep_policy(ruled: Ruled) -> None:
    """What a policy is compared with that somebody is about to apply. Its own file may have changed by then."""
    if not ruled.run_file.policy.source:  # else it is such a copy
        with suppress(UsageError):
            keep(ruled.run_dir, ruled.file)


def check_start(request: RunRequest, ruled: Ruled) -> None:
    """What could never start is refused before anything is started. Raises UsageError."""
    run_file, profile = ruled.run_file, ruled.profile
    launcher_row = launchers.find_row(run_file.launcher)
    settings = launchers.settings_of(launcher_row, run_file.launcher_options)
    if request.stop_at_once:
        return
    check_targets("--track", run_file.track)
    check_mirror(run_file.mirror, ruled.run_dir)
    launcher_row.check(run_file.command, run_file.cwd, settings)
    if profile is not None:
        from sentinel.trainers.launching import check_command

        check_command(profile, run_file.command, run_file.cwd)
        refuse_direct(run_file.launcher_options)
    check_code(request.code, run_file.cwd)


def remarks_on(ruled: Ruled) -> tuple[str, ...]:
    run_file, profile = ruled.run_file, ruled.profile
    settable = None if profile is None else profile.settable
    is_under_profile = profile is not None
    cold = remark_on_warm(run_file.launcher_options, run_file.command, run_file.cwd, is_under_profile=is_under_profile)
    hint = "" if profile is not None else _hint(run_file)
    return (ruled.remark, *ruled.doubts, cold, hint, *passed_over(ruled.policy, run_file.capabilities or (), settable))


def _hint(run_file: RunFile) -> str:
    from sentinel.trainers.probe.recognise import hint_at_start

    hint = hint_at_start(run_file.command, run_file.cwd)
    return f"no --trainer is named, and who does not speak sentinel's own contract is not watched: {hint}" if hint else ""


def print_lines(*lines: str) -> None:
    for line in lines:
        if line:
            print(f"{line}\n", end="")  # in one write: the narrator prints beside it


def calls_about_loop(request: RunRequest, ruled: Ruled) -> SendWords | None:
    if request.stop_at_once:
        return None
    return page_about_loop(ruled.run_dir, ruled.run_file.id, ruled.policy.spec.paging, SystemClock().wall_s, say)


def pages_about_journal(request: RunRequest, ruled: Ruled) -> JournalPages:
    run = ruled.run_file.id
    return JournalPages(ruled.run_dir, ruled.policy.spec.paging, run=run, is_asked=not request.stop_at_once)
