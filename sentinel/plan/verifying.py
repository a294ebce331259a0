"""How a checkpoint is verified before a resume, how much is expected to be read for it, and whether a launch may go by it.

What is expected is known from what was: the size that the manifest tells, and how fast a checkpoint was last read. How much of a
memory still holds is only found out by looking, so a checkpoint that is remembered is expected to be as it was.
"""

from __future__ import annotations

from sentinel.model.actions import VerifyCheckpoint
from sentinel.model.attempts import ResumePoint, Vouched
from sentinel.model.saved import SAMPLE_SHARE, How, ReadBack
from sentinel.model.state import Checkpoint, RunState

VOUCHED_S = 600.0  # so long after its verification a launch may go by it: a launch that waited longer has its trainer look again
RATE_BYTES_MIN = 64 << 20  # less says more about the first file than about the disk
RATE_S_MIN = 0.01


def verify_key(attempt: int, step: int) -> str:
    return f"verify/{attempt}/{step}"


def build_verification(state: RunState, attempt: int, resume: ResumePoint | None, how: How) -> VerifyCheckpoint | None:
    """The action for the launch of `attempt`; None where that begins from scratch."""
    if resume is None:
        return None
    known = next((c for c in state.checkpoints if c.step == resume.step), None)
    read_bytes = 0 if known is None else _expected_bytes(known, how)
    bytes_s = state.read_bytes_s or state.behind_bytes_s
    if not read_bytes or not bytes_s:
        read_bytes, bytes_s = 0, 0.0
    return VerifyCheckpoint(verify_key(attempt, resume.step), resume.step, resume.path, how, read_bytes, bytes_s)


def expected_s(state: RunState) -> float | None:
    """How long the verification that the plan under way has still to do, or is doing, is expected to take; None without one, and
    where no rate is known."""
    plan = state.plan
    if plan is None or state.ended:
        return None
    return next((action.expected_s for action in plan.actions[plan.next :] if isinstance(action, VerifyCheckpoint)), None)


def _expected_bytes(known: Checkpoint, how: How) -> int:
    if not known.is_remembered or how == "full":
        return known.bytes
    return known.bytes // SAMPLE_SHARE if how == "sampled" else 0


def rate_of(read: ReadBack) -> float | None:
    """Bytes a second; None where too little was read to say."""
    return read.read_bytes / read.seconds if read.read_bytes >= RATE_BYTES_MIN and read.seconds >= RATE_S_MIN else None


def vouch(state: RunState, now_s: float, attempt: int, resume: ResumePoint | None) -> Vouched | None:
    """The word for the launch of `attempt`; None where the checkpoint was not verified for it, or too long ago, or where the
    manifest then was another than the one that was chosen."""
    if resume is None or resume.digest is None:
        return None
    found = next((c for c in state.checkpoints if c.step == resume.step and c.digest == resume.digest), None)
    if found is None or found.condemned or found.vouched_key != verify_key(attempt, resume.step):
        return None
    if now_s - found.vouched_s > VOUCHED_S:
        return None
    return Vouched(resume.step, resume.digest, found.vouched_how)
