"""python -m trainer: set up, train, and record how the process ended.

The session begins before torch is imported, so that a supervisor sees a heartbeat within milliseconds of the launch.
"""

from __future__ import annotations

import contextlib
import sys

from sentinel.client import Session, SpecError

from .command_line import parse_arguments
from .exits import (
    BAD_CONFIG,
    CRASHED,
    FINISHED,
    INTERRUPTED,
    TrainerError,
    describe_error,
    is_peer_lost,
    leave_now,
)

CODES = {SpecError: BAD_CONFIG, KeyboardInterrupt: INTERRUPTED}


def main() -> None:
    """Never returns, except by SystemExit for --help."""
    session: Session | None = None
    try:
        session = Session.from_environment()
        if session is not None:
            session.redirect_output()
            session.heartbeat(0, "init")
        launch = parse_arguments(sys.argv[1:])
        if launch.check:
            from .preflight import report

            print(report(launch), flush=True)
            leave_now(FINISHED)
        from .train import train  # torch comes with it

        code = train(launch, session)
    except SystemExit:  # --help
        raise
    except BaseException as error:  # noqa: BLE001 - the last frame records every error (torch's CheckpointException is no Exception)
        leave_now(_record_failure(session, error))
    else:
        _leave_together(session, code)


def _record_failure(session: Session | None, error: BaseException) -> int:
    """Report the error on stderr and in the exit record. Returns the exit code."""
    code = error.code if isinstance(error, TrainerError) else CODES.get(type(error), CRASHED)
    message = f"trainer: {error}" if isinstance(error, SpecError) else describe_error(error)
    with contextlib.suppress(OSError):  # stderr may lie on a full disk, and the record may still find its place
        sys.stderr.write(f"{message}\n")  # at once: the ranks share a terminal
    if session is not None:
        session.record_exit(code, error, peer_lost=is_peer_lost(error))
        with contextlib.suppress(OSError):
            session.abandon()
    return code


def _leave_together(session: Session | None, code: int) -> None:
    """Record the end, and wait for the other ranks to record theirs before any connection closes."""
    import torch.distributed as dist

    if session is not None:
        session.heartbeat(session.last_step, "idle")
        session.record_exit(code)
    try:
        dist.barrier()
    except RuntimeError as error:  # a peer left early; nothing depends on it any more
        print(f"trainer: the last barrier was left early: {error}", file=sys.stderr)
    leave_now(code)


if __name__ == "__main__":
    main()
