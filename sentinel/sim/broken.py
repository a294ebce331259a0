"""A broken invariant, and the one that every state must keep: it stays small."""

from __future__ import annotations

from sentinel.model.state import INCIDENTS_KEPT, PRUNED_KEPT, REQUESTS_KEPT, STAMPS_KEPT, RunState

ATTEMPTS_MAX, CHECKPOINTS_MAX, FINDINGS_MAX, PENDING_MAX = 512, 4096, 256, 32


class InvariantBroken(BaseException):
    """`name` is the invariant, the message what was seen. No handler of errors in what is tested may swallow it."""

    def __init__(self, name: str, sentence: str) -> None:
        super().__init__(f"{name}: {sentence}")
        self.name = name


def judge_caps(state: RunState) -> None:
    """Raises InvariantBroken for a container that has outgrown its bound."""
    sizes = {
        "attempts": (len(state.attempts), ATTEMPTS_MAX),
        "checkpoints": (len(state.checkpoints), CHECKPOINTS_MAX),
        "pruned": (len(state.pruned), PRUNED_KEPT),
        "incidents": (len(state.incidents), INCIDENTS_KEPT),
        "findings": (len(state.findings), FINDINGS_MAX),
        "stamps": (max(len(state.restarts_s), len(state.interventions_s)), STAMPS_KEPT),
        "pending": (len(state.pending), PENDING_MAX),
        "wishes": (len(state.answered_requests), REQUESTS_KEPT),
    }
    for name, (size, cap) in sizes.items():
        if size > cap:
            raise InvariantBroken("state stays under its cap", f"{size} {name}, {cap} at most")


def judge_lapse(keys: tuple[str, ...], lapsing: tuple[str, ...], state: RunState) -> None:
    """A setting is taken back in a healthy run, alone, and when the one before it (`lapsing`) has proved itself."""
    if lapsing or len(keys) != 1 or state.open_incidents:
        sentence = f"{', '.join(keys)} lapsed while {', '.join(lapsing) or 'an incident'} was not settled"
        raise InvariantBroken("settings lapse one at a time", sentence)
