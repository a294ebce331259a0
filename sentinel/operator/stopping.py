"""A living supervisor asked to stop its run after a checkpoint, by SIGTERM, as systemd and a scheduler ask it."""

from __future__ import annotations

import signal
from contextlib import suppress
from pathlib import Path

from sentinel.errors import UsageError
from sentinel.journal.holder import judge_holder
from sentinel.journal.identity import ProcessIdentity, is_here, send_signal
from sentinel.journal.lease import read_lease


def supervisor_here(run_dir: Path) -> ProcessIdentity | None:
    """Who supervises the run; None where nobody does. Raises UsageError where that is not on this machine, or cannot be seen."""
    lease = read_lease(run_dir)
    holder = judge_holder(run_dir, lease)
    if lease is None or holder == "gone":
        return None
    where = f"pid {lease.holder.pid} on {lease.holder.host}"
    if holder == "unknown":
        why = f"whether its supervisor ({where}) lives cannot be seen from here, for the clocks differ"
        raise UsageError(f"{run_dir}: {why}; run there: sentinel stop {run_dir}")
    if not is_here(lease.holder):
        raise UsageError(f"{run_dir}: is supervised by {where}; run there: sentinel stop {run_dir}")
    return lease.holder


def ask_to_stop(run_dir: Path, holder: ProcessIdentity) -> None:
    """SIGTERM to exactly this process; nothing where it has left. Raises UsageError."""
    with suppress(ProcessLookupError):
        try:
            send_signal(holder, signal.SIGTERM)
        except PermissionError:
            raise UsageError(f"{run_dir}: its supervisor (pid {holder.pid}) belongs to another user; ask them") from None
