"""What a drill file expects of a run, read and checked."""

from __future__ import annotations

from sentinel.detectors.registry import KINDS
from sentinel.model.incidents import IncidentState
from sentinel.policy.quantities import parse_steps
from sentinel.sim.drill_fields import Fields
from sentinel.sim.expected import Expected, ExpectedIncident

OUTCOMES = ("finished", "failed", "stopped", "held", "unfinished")
EXPECT_KEYS = ("outcome", "pages", "attempts", "incidents", "lapses")
INCIDENT_KEYS = (
    "kind", "state", "remedies", "onset", "resumed_from", "steps_lost_max", "skipped_max", "diagnosis", "blamed_rank",
)  # fmt: skip
CAUSES = ("data", "hardware", "transient", "unknown")


class Expectations(Fields):
    def _expected(self, raw: object, path: str) -> Expected:
        expect = self._mapping(raw, path, EXPECT_KEYS)
        incidents = None
        if "incidents" in expect:
            listed = enumerate(self._list(expect["incidents"], f"{path}.incidents"))
            incidents = tuple(self._incident(item, f"{path}.incidents[{index}]") for index, item in listed)
        return Expected(
            outcome=self._word(expect, path, "outcome", OUTCOMES),
            pages=self._number(expect, path, "pages", 0, floor=0) if "pages" in expect else None,
            attempts=self._number(expect, path, "attempts", 1) if "attempts" in expect else None,
            incidents=incidents,
            lapses=tuple(map(str, self._list(expect["lapses"], f"{path}.lapses"))) if "lapses" in expect else None,
        )

    def _incident(self, raw: object, path: str) -> ExpectedIncident:
        fields = self._mapping(raw, path, INCIDENT_KEYS)
        kind = self._word(fields, path, "kind", tuple(map(str, KINDS)))
        if "kind" not in fields:
            self._add(path, "which kind of incident is expected?", "write kind: crash, for example")
        remedies = None
        if "remedies" in fields:
            remedies = tuple(map(str, self._list(fields["remedies"], f"{path}.remedies")))
        lost = self._quantity(fields, path, "steps_lost_max", parse_steps, None)
        onset, resumed = (self._span(fields, path, key) for key in ("onset", "resumed_from"))
        state = self._word(fields, path, "state", tuple(map(str, IncidentState)))
        cause = self._word(fields, path, "diagnosis", CAUSES)
        blamed = self._number(fields, path, "blamed_rank", 0, floor=0) if "blamed_rank" in fields else None
        skipped = self._number(fields, path, "skipped_max", 0, floor=0) if "skipped_max" in fields else None
        return ExpectedIncident(kind or "", state, remedies, onset, resumed, lost, skipped, cause, blamed)
