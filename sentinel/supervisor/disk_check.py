"""Before anything is started: is there room for what it would save?"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from sentinel.detectors.disk_memory import AT_LAUNCH, lacks_room
from sentinel.engine import Engine
from sentinel.engine.disk_room import sound_only
from sentinel.errors import SentinelError
from sentinel.plan.retention import rule_of
from sentinel.telemetry.disks import look_once


class NoRoom(SentinelError):
    """Nothing was started: what it would save finds no room."""


def refuse_full_disk(run_dir: Path, engine: Engine, roots: Iterable[Path], *, is_stop: bool) -> None:
    """Raises NoRoom where a launch could not save AT_LAUNCH checkpoints of the size that was measured; or one, where the policy
    has old ones deleted. Before the first checkpoint, and where the disk does not answer, nothing is known or refused."""
    state, settings = engine.state, engine.policy.spec.detectors.disk_full
    launches = state.attempt is None or state.attempt.is_over
    if is_stop or not settings.enabled or not launches or not state.checkpoints or state.held:
        return
    asked = 1 if rule_of(engine.policy) is not None else AT_LAUNCH
    for reading in look_once(run_dir, roots):
        if why := lacks_room(sound_only(state, reading), asked):
            raise NoRoom(
                f"{run_dir}: nothing is launched, for it could not save: {why}. Make room; `sentinel checkpoints prune "
                f"{run_dir}` gives back checkpoints that nobody needs, and `disk_full: off` in the policy launches it in any case"
            )
