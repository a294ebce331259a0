"""What is not done of a run that nobody watches, and until when."""

from __future__ import annotations

from sentinel.report.snapshot import RunSnapshot

UNWATCHED = {
    "gone": "nothing is repaired until `sentinel run` is started again",
    "stuck": "nothing is repaired while the supervisor stands still",
    "unknown": "whether anybody repairs it is not known from here",
}


def until_watched(snapshot: RunSnapshot) -> str:
    waiting = next((one.host for one in snapshot.standbys if one.silent_s is None), "")
    then = f"the standby on {waiting} takes it over when the lease has run out; nothing is repaired before"
    return then if waiting else UNWATCHED[snapshot.supervisor]
