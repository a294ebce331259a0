"""What a remedy is expected to do, recorded when it is chosen, so that its probation can be read against it.

It is a promise in the words of the probation: where the metric will stand, for how long, past which step, and what it costs. The
judgement itself does not read it (`verdict.py`, `engine/probation.py`).
"""

from __future__ import annotations

from sentinel.model.incidents import Incident, Remedy


def predict_effect(
    remedy: Remedy, incident: Incident, newest_step: int, probation_steps: int, ratio: float, may_find: bool, is_alive: bool
) -> str:
    """One sentence. `ratio`: the share of its level before the incident that the metric may stand above it. `may_find`: a newer
    checkpoint may be found before the launch. `is_alive`: the attempt lives, and trains on until it is stopped."""
    band, past = incident.band, f"for {probation_steps} steps past step {incident.break_step}"
    if incident.is_numeric and band is not None:
        parts = [f"{band.metric} within {100 * ratio:.3g} % of {band.median:.4g} {past}"]
    else:
        parts = [f"no other {incident.kind} {past}"]
    if remedy.rollback_to_step is not None:
        parts += _trained_again(newest_step - remedy.rollback_to_step, may_find, is_alive)
    if remedy.skip:
        parts.append(f"{sum(span.end - span.start for span in remedy.skip)} samples are not trained on")
    if remedy.live:
        parts.append("nothing is trained again")
    return "; ".join(parts)


def _trained_again(steps: int, may_find: bool, is_alive: bool) -> list[str]:
    """`steps`: from the checkpoint to the newest row. A bound is named only where nothing can pass it."""
    if steps <= 0:
        return ["what it trains until it is stopped is trained again"] if is_alive else []
    if not is_alive:
        return [f"{'at most ' if may_find else ''}{steps} steps are trained again"]
    if may_find:
        return [f"{steps} steps so far are trained again, more until it is stopped, fewer from a newer checkpoint"]
    return [f"at least {steps} steps are trained again"]
