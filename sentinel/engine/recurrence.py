"""Is this finding the return of a spike that healed by itself? A rollback behind it trains on the same samples again.

Patience leaves such samples in the data: they did no harm. When a later incident rolls back to before them, the same spike comes
again, for the same reason, and is no proof against the remedy under test. If it does not heal this time, the probation's own
measure says so at its end.
"""

from __future__ import annotations

from sentinel.engine.decision import Decision
from sentinel.model.findings import Finding, Kind
from sentinel.model.incidents import Incident

MARGIN_STEPS = 10  # the level is another after a rollback, so the onset may be dated some rows off


def healed_before(decision: Decision, finding: Finding) -> Incident | None:
    """The incident that healed by itself on these very samples; None where there was none, or the place is not known."""
    if finding.kind is not Kind.SPIKE or finding.onset_step is None:
        return None
    spans = decision.detectors.samples_of(finding.onset_step)
    if not spans:
        return None
    for incident in reversed(decision.state.incidents):
        place = incident.samples
        if (
            not incident.benign
            or not incident.is_closed
            or place is None
            or place.data_seed != decision.state.overrides.data_seed
        ):
            continue
        margin = MARGIN_STEPS * place.per_step
        if place.onset - margin <= spans[0].start < place.detected + margin:
            return incident
    return None
