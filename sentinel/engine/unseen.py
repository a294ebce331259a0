"""An attempt of which all that can be seen has ended, and of which nothing proves that the rest has: ranks on other machines.
They may live, write into the run's checkpoints, and hold its ports and GPUs. So nothing is started beside them, and nothing is
concluded from an end that only the launcher's own machine saw.

It is waited for the proof, without a limit, because no time proves anything: a rank that is stopped or waits in a collective is
as silent as one that is gone (docs/design/crashes-and-hardware.md says what does prove it). A person is called after
`acts.unseen_page_after`, once, and told what ends the wait.
"""

from __future__ import annotations

from sentinel.engine.decision import Decision
from sentinel.engine.opening import open_incident
from sentinel.engine.paging import page, resolve
from sentinel.model import facts as f
from sentinel.model.actions import KillAttempt
from sentinel.model.amounts import time_words
from sentinel.model.attempts import Unseen
from sentinel.model.events import ActionDelayed
from sentinel.model.findings import Finding, Kind
from sentinel.model.incidents import IncidentState

RANKS_RECORDED = 64
REASON_CHARS_MAX = 1000


def on_unseen(decision: Decision, view: Unseen) -> None:
    """The launcher has looked: what it can see of the attempt has ended. It is asked to stop the rest, and says when that is
    proven."""
    attempt = decision.attempt
    if attempt is None or not view.has_ended_here:
        return
    if decision.state.unseen is None:
        reason = view.reason[:REASON_CHARS_MAX]
        decision.record(f.AttemptUnseen(attempt.attempt, reason, view.ranks[:RANKS_RECORDED], len(view.ranks)))
    if not decision.observes_only and decision.state.plan is None:
        decision.decide(KillAttempt.of(attempt.attempt))


def on_unproven(decision: Decision, delayed: ActionDelayed) -> None:
    """A stop that nothing proves to have taken effect."""
    action = decision.state.pending.get(delayed.key)
    if isinstance(action, KillAttempt) and decision.state.unseen is None:
        decision.record(f.AttemptUnseen(action.attempt, delayed.reason[:REASON_CHARS_MAX]))


def leave(decision: Decision, by: str) -> bool:
    """Somebody asks a second time to stop, and will not wait for a proof: the next start goes on waiting for it. False where
    nothing is waited for."""
    unseen = decision.state.unseen
    if unseen is None:
        return False
    decision.record(f.RunEnded("suspended", f"stopped by {by}; attempt {unseen.attempt} is not known to have ended"))
    return True


def on_tick(decision: Decision) -> None:
    """Call a person when it has lasted too long; nobody is needed any more once it is proven."""
    unseen = decision.state.unseen
    if unseen is None:
        for incident in decision.state.open_pages:
            if incident.kind is Kind.UNSEEN:
                resolve(decision, incident.id, f"attempt {incident.attempt} is known to have ended")
        return
    waited_s = decision.now_s - unseen.since_s
    is_paged = any(i.kind is Kind.UNSEEN and i.attempt == unseen.attempt for i in decision.state.incidents)
    if is_paged or decision.state.ended or waited_s < decision.policy.spec.acts.unseen_page_after_s:
        return
    why = f"attempt {unseen.attempt} is not known to have ended for {time_words(waited_s)}: {unseen.reason}"
    own = [rank for rank in unseen.ranks if rank.rank < decision.live.rank_end]  # not of a file that is left over or forged
    only = own[0] if len(own) == 1 else None
    finding = Finding(
        Kind.UNSEEN, "critical", unseen.attempt, None, decision.newest_step, decision.now_s, why, outside=True,
        blamed_rank=None if only is None else only.rank, blamed_node="" if only is None else only.host,
    )  # fmt: skip
    incident = open_incident(decision, finding, "Unseen", None)
    decision.record(f.IncidentMoved(incident.id, IncidentState.EXHAUSTED, "a person is told, and the proof is waited for"))
    page(decision, incident.id, "critical", why, "nothing is started before it is proven that nothing of the attempt lives")
