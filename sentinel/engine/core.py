"""The engine: one event in, the facts it leads to out. Reads downward as the pipeline does.

    event ─▶ detectors (over streams) ─▶ findings ─▶ policy ─▶ plan ─▶ facts

The engine holds the run's state (computed from the facts, so it survives a restart) and its detectors (windows and levels, which
are rebuilt by reading the streams again). It never acts: the actions of its `ActionDecided` facts are carried out by the edges
after the facts are on disk.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import inf
from typing import assert_never

from sentinel.client.masking import Masking
from sentinel.detectors.bank import DetectorBank
from sentinel.detectors.reference import Reference
from sentinel.engine import (
    action_results,
    applying,
    attempts,
    condemning,
    disk_room,
    engine_trouble,
    ladder,
    lapsing,
    leaving,
    live_settings,
    log_matches,
    node_checks,
    operator_requests,
    paging,
    proving,
    receipts,
    relaunching,
    sample_attribution,
    stopping,
    unread,
    unseen,
)
from sentinel.engine.decision import Decision
from sentinel.engine.detector_bank import build_detector_bank
from sentinel.engine.environment import on_launched
from sentinel.engine.evolve import evolve
from sentinel.engine.giving_up import finish_giving_up
from sentinel.engine.live_attempt import LiveAttempt
from sentinel.engine.masked_events import masked
from sentinel.engine.owed_pages import is_outcome_undelivered, is_owed, uncalled
from sentinel.engine.sources import on_hardware, on_source, report_stream_gap
from sentinel.engine.unobserved import is_unobserved
from sentinel.model import facts as f
from sentinel.model.actions import KillAttempt, StartAttempt
from sentinel.model.amounts import time_words
from sentinel.model.disks import DiskReading
from sentinel.model.environment import Environment
from sentinel.model.events import (
    ActionDelayed,
    ActionDone,
    ActionFailed,
    Event,
    SignalSeen,
    StopWanted,
    SupervisorStarted,
    Tick,
)
from sentinel.model.facts import Entry, Fact
from sentinel.model.findings import Finding, Kind
from sentinel.model.incidents import Incident
from sentinel.model.readings import (
    CheckpointRead,
    CheckpointReading,
    EndReading,
    FlightRecords,
    HardwareReading,
    Heartbeat,
    LauncherReading,
    LogMatch,
    LogTail,
    MirrorReading,
    Receipt,
    RequestReading,
    SilentRank,
    SourceReading,
    StepReading,
    TrainerNote,
)
from sentinel.model.state import RunState
from sentinel.plan.holes import unseen_before
from sentinel.policy.schema import Policy


class Engine:
    """Holds one run. Events enter through `handle` alone; `restore` applies a journal's facts before the first event."""

    def __init__(self, policy: Policy, reference: Reference | None = None, masking: Masking | None = None) -> None:
        """`masking`: what is known to be secret; None: only what looks so."""
        self.policy = policy
        self.masking = Masking() if masking is None else masking
        self.state = RunState()
        self.detectors: DetectorBank = build_detector_bank(policy, reference)
        self._live = LiveAttempt()
        self._incidents: tuple[Incident, ...] = ()  # those of which `_all_closed` speaks
        self._all_closed = True
        self._asked_of: RunState | None = None  # that of which the two below speak
        self._is_calm = False  # as far as the state says: no incident is open, and no step can show that one is due
        self._launched_s = inf  # infinite before there is an attempt
        self.is_outdated = False  # another policy is in force: this engine decides nothing more

    @property
    def watched(self) -> int:
        """The attempt whose files are to be read; 0 before the first."""
        return self._live.attempt

    @property
    def unwritten_remarks(self) -> int:
        """Remarks of sources in the watched attempt that were counted and not written down, as far as this supervisor heard."""
        return self._live.unwritten_remarks

    def owes_a_page(self, now_s: float) -> bool:
        """The run has failed, and somebody is still to be called: there is a reason to stay."""
        return is_owed(self.state, self.policy.spec.paging, now_s)

    def restore(self, entries: Iterable[Entry]) -> None:
        """Fold what was decided before; nothing is decided again."""
        for entry in entries:
            self.state = evolve(self.state, entry.at_s, entry.fact)

    def handle(self, now_s: float, event: Event) -> tuple[Fact, ...]:
        """Decide about one event and move on to the state its facts lead to."""
        assert not self.is_outdated, "another policy is in force, and this engine has the one before"
        if isinstance(event, StepReading):
            return self._step(now_s, event)
        if isinstance(event, Heartbeat):
            self.hear((event,), now_s)
            return ()
        if isinstance(event, (SilentRank, FlightRecords)):
            self.detectors.ranks_seen(event)
            return ()
        decision = Decision(self.state, now_s, self.policy, self.detectors, self._live)
        self._decide(decision, masked(event, self.masking))
        return self._settled(decision)

    def hear(self, beats: Sequence[Heartbeat], now_s: float) -> None:
        """Heartbeats that came at once. They come as often as every rank pleases, and nothing is decided about one."""
        if not beats:
            return
        self._live.heartbeats(beats, now_s)
        self.detectors.heartbeats(beats, now_s)

    def _settled(self, decision: Decision) -> tuple[Fact, ...]:
        if decision.state.ended and not self.state.ended:
            paging.on_end(decision)
        self.is_outdated = any(isinstance(fact, f.PolicyApplied) for fact in decision.facts)
        self.state = decision.state
        return tuple(decision.facts)

    def _step(self, now_s: float, reading: StepReading) -> tuple[Fact, ...]:
        """The hot path: a healthy step of a run with nothing open costs no decision. Backlogs and recorded logs are read here."""
        state, live = self.state, self._live
        if state is not self._asked_of:
            self._ask(state)
        live.step(reading, now_s, self._launched_s)
        found = self.detectors.step(reading, now_s)
        if self._is_calm and not found and live.claimed is None and live.rates is None:
            return ()
        decision = Decision(state, now_s, self.policy, self.detectors, live)
        attempts.on_step(decision, reading, found)
        return self._settled(decision)

    def _ask(self, state: RunState) -> None:
        """What every step wants to know of the state, which most steps leave as it is."""
        if state.incidents is not self._incidents:
            self._incidents, self._all_closed = state.incidents, not state.open_incidents
        self._asked_of, attempt = state, state.attempt
        self._launched_s = attempt.launched_s if attempt is not None else inf
        began = attempt is not None and attempt.first_step is not None
        self._is_calm = began and self._all_closed and not (attempt is not None and proving.asks_for_skip(attempt))

    def _decide(self, decision: Decision, event: Event) -> None:
        detectors, live, now_s = self.detectors, self._live, decision.now_s
        match event:
            case Tick():
                self._tick(decision, event.away_s)
            case Receipt():
                detectors.receipt(event, now_s)
                receipts.on_receipt(decision, event)
            case TrainerNote():
                detectors.note(event, now_s)
                if (key := live_settings.answered_write(decision, event)) is not None:
                    action_results.on_done(decision, ActionDone(key, "answered by the trainer"))
                attempts.on_note(decision, event)
            case EndReading():
                live.end(event)
            case CheckpointReading():
                detectors.checkpoint(event, now_s)
                attempts.on_checkpoint(decision, event)
            case CheckpointRead():
                condemning.on_read_behind(decision, event)
            case LauncherReading():
                attempts.on_view(decision, event.view)
            case LogTail():
                detectors.log_tail(event)
            case LogMatch():
                log_matches.on_match(decision, event)
            case HardwareReading() | DiskReading():
                on_hardware(decision, event)
            case MirrorReading() | SourceReading():
                on_source(decision, event)
            case ActionDone():
                self._done(decision, event)
            case ActionFailed():
                action_results.on_failed(decision, event)
            case ActionDelayed(unproven=True):
                unseen.on_unproven(decision, event)
            case ActionDelayed():
                note_delayed(decision, event)
            case StopWanted():
                stopping.on_stop_wanted(decision, event.by, event.resumes)
            case SignalSeen():
                decision.note("signal", f"{event.name} received: it changes nothing")
            case RequestReading():
                operator_requests.on_request(decision, event)
            case SupervisorStarted():
                self._started(decision, event)
            case StepReading() | Heartbeat() | SilentRank() | FlightRecords():
                raise AssertionError("these have their own way")
            case _:
                assert_never(event)

    def _done(self, decision: Decision, event: ActionDone) -> None:
        action = decision.state.pending.get(event.key)
        if isinstance(action, StartAttempt):
            self._begin(action.attempt, decision.now_s)
        action_results.on_done(decision, event)
        if isinstance(action, StartAttempt) and isinstance(event.found, Environment):
            on_launched(decision, action.attempt, event.found)

    def _begin(self, attempt: int, now_s: float) -> None:
        """The attempt lives (or is adopted): its streams will be read from their first line."""
        if self._live.attempt != attempt:
            self._live = LiveAttempt(attempt, unseen_before(self.state.attempts, attempt))
            self.detectors.begin_attempt(attempt, now_s, self._live.hosts)

    def _started(self, decision: Decision, event: SupervisorStarted) -> None:
        """Adopt what lives, go on with what was pending, or launch. Deciding again what was decided is not possible here:
        pending actions are simply still pending, and the daemon asks for them anew."""
        if not decision.state.run_id:
            decision.record(
                f.RunCreated(
                    event.run_id,
                    event.command,
                    event.cwd,
                    event.policy_name,
                    event.policy_digest,
                    event.observe_only,
                    event.capabilities,
                    event.command_digest,
                )
            )
        outcome = decision.state.ended
        is_policy_new = decision.state.is_policy_new or decision.state.policy_digest != event.policy_digest
        self._take_over(decision, event)
        if is_policy_new:
            applying.lay_incidents(decision)
        if event.policy_remark:
            decision.note(applying.ABOUT, event.policy_remark)
        if outcome and outcome != "suspended" and not decision.state.ended:
            paging.on_taken_up(decision, f"the run had {outcome}, and was started again", f"whoever started it on {event.host}")
        if decision.state.ended:
            remedy = "; ".join(f"sentinel ack {number} RUN_DIR" for number in uncalled(decision.state))
            message = f"nobody has got the page about it: it is sent when it is due, and the run stays {decision.state.ended}"
            decision.note("the end", f"{message}; once it is answered ({remedy}) it can be started again")
            return
        attempt = decision.attempt
        if decision.state.giving_up:
            finish_giving_up(decision)  # the kill may have been given up as impossible before
        if attempt is not None and f"start/{attempt.attempt}" in decision.state.pending:
            return  # decided and not yet done, or not known to be: it is asked for again, and watched from then on
        if decision.is_alive:
            assert attempt is not None
            decision.note("adoption", f"attempt {attempt.attempt} was launched by an earlier supervisor: watching it again")
            self._begin(attempt.attempt, decision.now_s)
        elif decision.state.held or any(i.awaits_approval for i in decision.state.open_incidents):
            decision.note("adoption", f"nothing is launched: {decision.state.held or 'a rung waits for approval'}")
        elif any(i.begins_anew for i in decision.state.open_incidents):
            decision.note("adoption", "nothing is launched before the playbook of the policy in force has said how")
        elif event.leaves:
            decision.note("stop", "nothing is launched: it was asked for before that")
        elif by := leaving.why_due(decision):  # nothing trains, and nothing could in what time is left
            stopping.on_stop_wanted(decision, by, resumes=True)
        elif decision.state.plan is None and not decision.state.giving_up:
            attempts.launch_first_or_next(decision, "started again" if decision.attempt else "first launch")

    def _take_over(self, decision: Decision, event: SupervisorStarted) -> None:
        """Training that is adopted runs on the same machine: a limit on the time there goes on from where it began."""
        deadline, known_s = event.deadline, decision.state.deadline_s
        at_s, by = (deadline.at_s, deadline.by) if deadline is not None else (None, "")
        if deadline is not None and deadline.counts_from_start and at_s and known_s and decision.is_alive:
            at_s = min(at_s, known_s) if by == decision.state.deadline_by else at_s
        decision.record(
            f.SupervisorTookOver(
                epoch=event.epoch,
                host=event.host,
                pid=event.pid,
                policy_name=event.policy_name,
                policy_digest=event.policy_digest,
                observe_only=event.observe_only,
                answers=not is_outcome_undelivered(decision.state),
                capabilities=event.capabilities,
                settable=event.settable,
                arguments=event.arguments,
                status_lost=event.status_lost,
                rows_late=event.rows_late,
                stop_answer_s=event.stop_answer_s,
                price=self.policy.spec.price,
                deadline_s=at_s,
                deadline_by=by,
            )
        )
        before = self.masking.words(decision.state.command)
        digests = (decision.state.command_digest, event.command_digest)
        if digests[0] != digests[1] if all(digests) else event.command != before:
            decision.record(f.CommandChanged(before, event.command, decision.state.cwd, event.cwd, event.command_digest))
        if deadline is not None and deadline.remark:
            decision.note(leaving.ABOUT, deadline.remark)
        if at_s is not None and decision.is_observed_run:
            decision.note(leaving.ABOUT, f"observe only: the deadline ({by}) is known, and nobody is asked to stop for it")

    def _tick(self, decision: Decision, away_s: float) -> None:
        self.detectors.away(away_s)
        blind = decision.state.blind
        cannot_see = "heartbeats" in blind or ("metrics" in blind and not self._live.has_beats)
        sees_checkpoints = "checkpoints" not in blind
        found = () if cannot_see else self.detectors.tick(decision.now_s, sees_checkpoints=sees_checkpoints)
        for finding in found:  # a blind supervisor sees no silence
            if (decision.state.stop_by or decision.state.hold_by) and finding.kind is Kind.HANG:
                self._hung_while_stopping(decision, finding)
            elif finding.kind is Kind.HANG and decision.state.unseen is not None:
                decision.dismiss(finding, "its attempt has ended as far as it can be seen: it is waited for the rest of it")
            elif finding.kind is Kind.HANG and is_unobserved(decision):
                decision.dismiss(finding, "nothing was ever heard of this command: whether it hangs is not known")
            else:
                ladder.consider(decision, finding)
        report_stream_gap(decision)
        for finding in self.detectors.hardware_tick(decision.now_s):
            if decision.state.stop_by or not decision.is_alive:
                decision.dismiss(finding, "nothing trains on it now, or it is being stopped; a fault that lasts is found again")
            else:
                ladder.consider(decision, disk_room.with_offer(decision, finding))
        applying.on_tick(decision)
        for finding in live_settings.judge_unanswered(decision):
            ladder.consider(decision, finding)
        sample_attribution.on_tick(decision)
        operator_requests.on_tick(decision)
        lapsing.on_tick(decision)
        if by := leaving.why_due(decision):
            stopping.on_stop_wanted(decision, by, resumes=True)
        stopping.on_tick(decision)
        unseen.on_tick(decision)
        unread.on_tick(decision)
        engine_trouble.on_tick(decision)
        node_checks.on_tick(decision)
        relaunching.try_again(decision)
        paging.withdraw_what_is_over(decision)
        paging.on_tick(decision)

    def _hung_while_stopping(self, decision: Decision, finding: Finding) -> None:
        attempt = decision.attempt
        if attempt is not None and not attempt.is_over:
            decision.dismiss(finding, "hung while stopping: the attempt is killed")
            decision.decide(KillAttempt.of(attempt.attempt))


def note_delayed(decision: Decision, event: ActionDelayed) -> None:
    again = f"asked for again in {time_words(event.retry_in_s)}"
    decision.note(event.key, f"could not be done yet: {event.reason}; {again}")
