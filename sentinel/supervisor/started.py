"""What the engine hears first: who supervises, which command by which policy, and what of it can be changed while it runs."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING

from sentinel.journal.session import RunSession
from sentinel.model.events import Deadline, StopWanted, SupervisorStarted
from sentinel.supervisor.journal_outage import JournalOutage
from sentinel.supervisor.ruled import Ruled
from sentinel.supervisor.run_request import RunRequest

if TYPE_CHECKING:
    from sentinel.trainers.launching import Trained


def started_event(
    session: RunSession,
    ruled: Ruled,
    request: RunRequest,
    deadline: Deadline | None,
    outage: JournalOutage,
    trained: Trained | None,
) -> SupervisorStarted:
    run, policy = ruled.run_file, ruled.policy
    return SupervisorStarted(
        epoch=session.epoch,
        host=socket.gethostname(),
        pid=os.getpid(),
        run_id=run.id,
        command=run.command,
        cwd=run.cwd,
        policy_name=policy.metadata.name,
        policy_digest=run.policy.digest,
        observe_only=request.observe_only or policy.spec.mode == "observe",
        capabilities=run.capabilities or (),
        deadline=deadline,
        leaves=any(isinstance(event, StopWanted) for event in outage.stops.events),
        settable=None if trained is None else trained.profile.settable,
        arguments=() if trained is None else trained.arguments,
        stop_answer_s=None if trained is None else trained.stop_answer_s,
        rows_late=trained is not None and trained.rows_late,
        status_lost="" if trained is None else trained.status_lost,
        command_digest=run.command_digest,
        policy_remark=ruled.remark,
    )
