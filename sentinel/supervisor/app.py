"""The composition root: turns a run directory, a policy and a command into a wired daemon, and runs it.

The only module that knows every adapter. What it refuses, it refuses before anything is started.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from sentinel.actions.runner import Handler, ThreadRunner
from sentinel.channels.opening import secret_variables
from sentinel.clock import SystemClock
from sentinel.engine import Engine
from sentinel.errors import AlreadySupervised, JournalBlocked, JournalError, LeaseOverdue, RetryLater, UsageError
from sentinel.journal.answering import is_being_answered
from sentinel.journal.lease_watch import LeaseWatch
from sentinel.journal.run_file import RunFile, write_run_file
from sentinel.journal.run_folder import ensure_run_dir, find_group, who_else_reads
from sentinel.journal.session import RunSession
from sentinel.launcher import registry as launchers
from sentinel.launcher.contract import Hold, Launcher
from sentinel.metrics.exposition import exposition
from sentinel.mirrors.keeper import open_mirror
from sentinel.model.actions import Action, SendPage
from sentinel.model.state import RIGHTLY_ENDED, RunState
from sentinel.report.html.keeper import ReportKeeper
from sentinel.report.own_needs import own_needs
from sentinel.run_files.agent_orders import OrderBook
from sentinel.run_files.detector_standings import StandingsFile
from sentinel.supervisor.before_launch import BeforeLaunch, prepare
from sentinel.supervisor.daemon import Daemon, Narrator
from sentinel.supervisor.deadline import refuse_too_late
from sentinel.supervisor.disk_check import refuse_full_disk
from sentinel.supervisor.each_turn import keep_up
from sentinel.supervisor.handlers import build_handlers
from sentinel.supervisor.journal_outage import JournalOutage, last_act, say
from sentinel.supervisor.leaving import EXIT_OK, EXIT_STOPPED, leave, leave_ended
from sentinel.supervisor.loop import NewPolicy, WasAway, run_until_over, spare_collector
from sentinel.supervisor.loop_watch import LoopWatch
from sentinel.supervisor.open_desk import open_desk
from sentinel.supervisor.ruled import (
    Ruled,
    calls_about_loop,
    check_start,
    keep_policy,
    pages_about_journal,
    print_lines,
    remarks_on,
    rule_anew,
    rule_run,
)
from sentinel.supervisor.run_request import RunRequest, refuse_while_it_trains
from sentinel.supervisor.standby import is_over, stand_by
from sentinel.supervisor.standby_pages import page_what_it_lacks
from sentinel.supervisor.started import started_event
from sentinel.supervisor.stop_signals import StopSignals
from sentinel.supervisor.strangers import tell_strangers
from sentinel.supervisor.systemd import Notifier
from sentinel.supervisor.takeover import Takeover
from sentinel.telemetry.agents import Agents
from sentinel.telemetry.disks import open_disks
from sentinel.telemetry.hardware import open_hardware
from sentinel.telemetry.run_telemetry import RunTelemetry
from sentinel.telemetry.verified_behind import VerifiedBehind
from sentinel.telemetry.wake import Wake
from sentinel.tensorboard.keeper import open_boards
from sentinel.terminal.choose import show_gpus, show_needs
from sentinel.trackers.keeper import open_trackers
from sentinel.web.opening import open_for_run
from sentinel.web.site import SiteServices

if TYPE_CHECKING:
    from sentinel.trainers.launching import Trained


def supervise(request: RunRequest, narrator: Narrator | None = None) -> int:
    """Run or adopt, watch, repair; returns the exit code of `sentinel run`.

    Raises:
        UsageError, PolicyError: nothing was started.
    """
    with StopSignals() as stops:
        if request.standby:
            return stand_by(request, stops, lambda watch, lacks: _supervise(request, narrator, stops, watch, lacks))
        return _supervise(request, narrator, stops)


def _supervise(
    request: RunRequest, narrator: Narrator | None, stops: StopSignals, counted: LeaseWatch | None = None, lacks: str = ""
) -> int:
    """`counted`, `lacks`: of a standby, its count of the lease, and what it cannot do."""
    started_s = SystemClock().wall_s()
    run_dir = request.run_dir.absolute()
    ruled, group = rule_run(request, run_dir, started_s), find_group(request.share_with)
    check_start(request, ruled)
    site = open_for_run(request.listen, run_dir, SiteServices(exposition))
    ruled = ruled.under(site.link)
    ensure_run_dir(run_dir, group)
    if not (request.stop_at_once or request.standby):
        print_lines(who_else_reads(run_dir), *remarks_on(ruled))
    with closing(site), LoopWatch(calls_about_loop(request, ruled)) as watch, Notifier.from_environment(watch.turned) as systemd:
        outage = JournalOutage(run_dir, stops, systemd, pages_about_journal(request, ruled))
        wait_s = request.takeover_wait_s if counted is None else 0.0
        takeover = Takeover(run_dir, wait_s, stops, systemd, request.lease_s, counted)

        def show() -> None:
            nonlocal lacks
            site.start()
            page_what_it_lacks(run_dir, ruled.run_file.id, ruled.policy.spec.paging, lacks)
            lacks = ""

        while True:
            try:
                engine = Engine(ruled.policy, ruled.reference, ruled.masking)
                return _watch(request, ruled, engine, narrator, show, outage, takeover.take)
            except NewPolicy:
                ruled = rule_anew(request, run_dir, started_s, outage).under(site.link)
                print_lines(*remarks_on(ruled))
                watch.send, outage.pages = calls_about_loop(request, ruled), pages_about_journal(request, ruled)
            except (WasAway, LeaseOverdue) as away:
                say(f"{run_dir}: {away}")
            except AlreadySupervised as error:
                if not outage.has_begun and takeover.waits_for(error):
                    continue
                if not outage.has_begun and takeover.is_broken_off:
                    return EXIT_STOPPED
                outage.let_answer(error, is_being_answered(run_dir))
            except (JournalBlocked, RetryLater, UsageError) as error:  # UsageError: the run directory itself is out of reach
                outage.wait_out(error, SystemClock().wall_s())
            except (JournalError, OSError) as error:
                outage.judge(error, SystemClock().wall_s())


def _watch(
    request: RunRequest, ruled: Ruled, engine: Engine, narrator: Narrator | None, show: Callable[[], None], outage: JournalOutage,
    take: Callable[[], RunSession],
) -> int:  # fmt: skip
    """Take the run and stay with it to its end. Raises JournalError when nothing can be written down any more, WasAway,
    LeaseOverdue and NewPolicy when it has to begin anew. `show`: called when the run is ours and there is something to show."""
    run_dir, run_file, end = ruled.run_dir, ruled.run_file, ruled.end
    outage.refuse_another_run()
    with take() as session:
        clock, hold = SystemClock(session.journal.last_at_s()), session.lease.hold
        engine.restore(session.journal.read_entries())
        if engine.state.ended in RIGHTLY_ENDED:
            print(f"{run_dir}: this run has {RIGHTLY_ENDED[engine.state.ended]}; choose another --run-dir to train again")
            return EXIT_OK
        _go_by_what_is_in_force(ruled, engine.state, outage)
        if (outage.has_begun and engine.state.ended) or (request.standby and is_over(engine.state)):
            return leave_ended(run_dir, engine.state)
        deadline = end.on_session_clock(clock.now_s(), clock.wall_s())
        trained = ruled.trained()
        roots = () if trained is None else trained.roots
        if not outage.has_begun:
            refuse_full_disk(run_dir, engine, roots, is_stop=request.stop_at_once)
            refuse_too_late(deadline, engine, clock.now_s())
            _take_over(ruled, engine.state)
        outage.stops.wake((wake := Wake(run_dir)).event)
        withheld = secret_variables(engine.policy.spec.paging)
        made = launchers.made_ahead(own := _open_launcher(run_dir, run_file, withheld, hold), request.start_thread, prepare)
        before = BeforeLaunch(made, ruled, lambda: engine.state, withheld, request.start_thread)
        agents = Agents(run_dir, OrderBook(run_dir, session.epoch))
        launcher = launchers.with_agents(own, run_file.launcher, run_dir, agents.orders, hold)
        show_gpus(narrator, (hardware := open_hardware(engine.policy.spec.detectors.gpu_fault, run_dir)).gpus)
        show_needs(narrator, own_needs(run_dir, engine.policy))
        boards = open_boards(run_dir, lambda: engine.state, request.tensorboard)
        reports = ReportKeeper(run_dir, lambda: engine.state)
        trackers = open_trackers(run_dir, () if request.stop_at_once else run_file.track)
        mirror = open_mirror(run_dir, {} if request.stop_at_once else run_file.mirror)
        desk = open_desk(run_dir, engine, clock, session.lease)
        disks = open_disks(run_dir, engine.policy.spec.detectors.disk_full, roots)
        behind = VerifiedBehind(run_dir, "full" if request.stop_at_once else engine.policy.spec.checkpoints.verify)
        telemetry = RunTelemetry(run_dir, launcher, hardware, boards, trackers, mirror, desk, disks, behind, wake, agents=agents)
        telemetry.look_for([(rule.name, rule.match) for rule in engine.policy.spec.logs], ruled.named_logs)
        acts = _handlers(session, ruled, engine, launcher, desk.courier.send, withheld, trained, agents.orders, before)
        runner = ThreadRunner(before.around(acts), wake.event, request.start_thread)
        daemon = Daemon(engine, session.journal, telemetry, runner, session.epoch, narrator)
        with (
            closing(wake), closing(telemetry), closing(hardware), closing(disks), closing(boards), closing(reports),
            closing(behind), closing(trackers), closing(mirror), closing(desk), closing(made), last_act(runner.close),
        ):  # fmt: skip
            spare_collector()
            daemon.start(clock.now_s(), started_event(session, ruled, request, deadline, outage, trained))
            outage.begin(clock.wall_s(), session.journal)
            show()
            outage.systemd.ready()
            if request.stop_at_once:
                daemon.want_stop("sentinel stop")
            standings = StandingsFile(run_dir, hardware.gpus)
            each_turn = keep_up(session, wake, daemon, outage.stops, standings, desk, outage.systemd, made, run_file.policy)
            run_until_over(daemon, clock, wake, each_turn)
            standings.write(clock.now_s(), engine)
        return leave(run_dir, engine.state, clock.now_s())


def _go_by_what_is_in_force(ruled: Ruled, state: RunState, outage: JournalOutage) -> None:
    """A supervisor that begins anew. Raises NewPolicy where one was applied while it had let the run go."""
    if not (outage.has_begun and state.is_policy_new):
        return
    if state.policy_digest != ruled.run_file.policy.digest:
        raise NewPolicy
    write_run_file(ruled.run_dir, ruled.run_file)


def _take_over(ruled: Ruled, state: RunState) -> None:
    """Raises UsageError."""
    refuse_while_it_trains(ruled.run_dir, ruled.run_file, state)
    tell_strangers(ruled.run_dir, state)
    write_run_file(ruled.run_dir, ruled.run_file)
    keep_policy(ruled)


def _open_launcher(run_dir: Path, run: RunFile, withheld: frozenset[str], hold: Hold) -> Launcher:
    place = launchers.LaunchPlace(run_dir, withheld, supervises=True, hold=hold)
    return launchers.open_launcher(run.launcher, run.launcher_options, place)


def _handlers(
    session: RunSession,
    ruled: Ruled,
    engine: Engine,
    launcher: Launcher,
    send_page: Callable[[SendPage], str],
    withheld: frozenset[str],
    trained: Trained | None,
    orders: OrderBook,
    before: BeforeLaunch,
) -> Mapping[type[Action], Handler]:
    """What carries out each action of this run."""
    run = ruled.run_file
    return build_handlers(
        run_dir=ruled.run_dir,
        launcher=launcher,
        lease=session.lease,
        run=run,
        send_page=send_page,
        withheld=withheld,
        trained=trained,
        masking=engine.masking,
        reach=launchers.open_reach(run.launcher, run.launcher_options, launchers.LaunchPlace(ruled.run_dir, withheld), orders),
        named_logs=ruled.named_logs,
        read=before.read,
    )

