"""The families that are exported, one row each: what deploy/prometheus/METRICS.md says, and all that `exposition` may yield.

Those of the curves are made from the registry of curves.

Every family has the label `run` besides its own. Labels come from small closed sets, or are bounded where they are made: no step,
no path, no incident's number.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from sentinel.curves.registry import CURVES
from sentinel.model.metrics import KnownMetric

Type = Literal["gauge", "counter", "histogram"]


@dataclass(frozen=True, slots=True)
class Family:
    """`unit`: of the value; 0/1 for a statement that holds or does not; empty for a plain number."""

    name: str
    type: Type
    labels: tuple[str, ...]
    unit: str
    meaning: str


def _gauge_of(curve: KnownMetric) -> Family:
    """With a label for the layer where a family of curves shares the gauge."""
    has_layers = any(other.is_family and other.gauge == curve.gauge for other in CURVES)
    return Family(curve.gauge, "gauge", ("layer",) if has_layers else (), curve.unit, curve.meaning)


RUN = (
    Family("sentinel_info", "gauge", ("version", "policy"), "1", "The sentinel that exports, and the policy in force"),
    Family(
        "sentinel_policy_info", "gauge", ("policy", "sha256", "applied_by"), "1",
        "The policy in force, and who applied it to the run; empty where it was started with it",
    ),
    Family("sentinel_run_state", "gauge", ("state",), "0/1", "The word `sentinel status` shows: 1 for it, 0 for every other"),
    Family("sentinel_observe_only", "gauge", (), "0/1", "Decides and records, changes nothing"),
    Family(
        "sentinel_heartbeat_timestamp_seconds", "gauge", (), "seconds",
        "When the supervisor's loop last turned, Unix time, ten seconds out at most; never the exporter's own time",
    ),
    Family("sentinel_supervisor_alive", "gauge", (), "0/1", "A supervisor holds the run. Not there where that cannot be seen"),
    Family("sentinel_supervisors_total", "counter", (), "", "Supervisors that have taken the run, one after the other"),
    Family(
        "sentinel_attempt_alive", "gauge", (), "0/1",
        "Processes of the newest attempt live; not there where that cannot be seen",
    ),
    Family("sentinel_attempt", "gauge", (), "", "Number of the newest attempt"),
    Family("sentinel_attempts_total", "counter", (), "", "Launches of the training"),
    Family("sentinel_ranks", "gauge", (), "", "Ranks of the attempt that trains, as its receipt says; 0 before the receipt"),
    Family("sentinel_excluded_nodes", "gauge", (), "", "Nodes left out of every launch"),
    Family(
        "sentinel_journal_unreadable", "gauge", (), "0/1",
        "The journal could not be read: everything else is older than it seems, or not there",
    ),
    Family("sentinel_goodput_ratio", "gauge", (), "ratio", "Seconds of training that survive, of all since the first launch"),
    Family(
        "sentinel_account_seconds", "gauge", ("account",), "seconds",
        "The goodput ledger; no counter, because a rollback turns training into replay",
    ),
    Family("sentinel_gpus", "gauge", (), "", "GPUs the newest attempt trains on, told or seen; not there where not known"),
    Family(
        "sentinel_gpu_seconds", "gauge", ("part",), "seconds",
        "GPU time of the run so far: trained, thrown_away, downtime; not there where the GPUs of an attempt are not known",
    ),
    Family("sentinel_cost", "gauge", ("part", "currency"), "", "The same in money; not there where the policy names no price"),
    Family(
        "sentinel_forecast_end_timestamp_seconds", "gauge", ("bound",), "seconds",
        "When the last step is likely to be trained, Unix time, and within which bounds; not there where there is no forecast",
    ),
    Family("sentinel_checkpoint_step", "gauge", (), "steps", "The newest checkpoint that a run may resume from"),
    Family("sentinel_checkpoint_age_seconds", "gauge", (), "seconds", "How long ago it was first seen"),
    Family(
        "sentinel_verification_expected_seconds", "gauge", (), "seconds",
        "How long the verification of the plan under way is expected to take; not there without one, or where no rate is known",
    ),
    Family(
        "sentinel_disk_free_bytes", "gauge", ("place",), "bytes",
        "Room on the filesystem that holds the run's checkpoints or directory; not there while nobody can look",
    ),
    Family("sentinel_disk_size_bytes", "gauge", ("place",), "bytes", "Its size"),
    Family("sentinel_disk_free_inodes", "gauge", ("place",), "", "Inodes left there; not there where the filesystem counts none"),
    Family(
        "sentinel_mirror_lag_seconds", "gauge", ("part",), "seconds",
        "For how long the run's mirror is not known to hold all that was due: journal, streams, checkpoints; not there without",
    ),
    Family(
        "sentinel_source_blind", "gauge", ("source",), "0/1",
        "A source of telemetry cannot be read; every source that ever could not",
    ),
)  # fmt: skip

TRAINING = (
    Family("sentinel_step", "gauge", (), "steps", "Newest optimizer step"),
    Family(
        "sentinel_last_step_timestamp_seconds", "gauge", (), "seconds",
        "When the newest step was made, Unix time, as the supervisor saw it; five seconds out at most. Not there before a step",
    ),
    Family("sentinel_total_steps", "gauge", (), "steps", "Steps of the whole run, where the trainer says"),
    *(_gauge_of(curve) for curve in CURVES if curve.gauge and curve.meaning),
)

INCIDENTS = (
    Family("sentinel_findings_total", "counter", ("kind", "severity"), "", "What detectors found, with and without consequence"),
    Family("sentinel_incidents_opened_total", "counter", ("kind",), "", "Incidents"),
    Family(
        "sentinel_incidents_total", "counter", ("kind", "outcome"), "",
        "Incidents that are over: recovered, healed (nothing had been done), exhausted, unknown",
    ),
    Family("sentinel_open_incidents", "gauge", ("severity",), "", "Incidents that are not over"),
    Family(
        "sentinel_detection_seconds", "histogram", ("kind",), "seconds",
        "From the first sign in what the trainer wrote to the incident",
    ),
    Family(
        "sentinel_recovery_seconds", "histogram", ("kind",), "seconds",
        "From there to the first step past the break, of incidents that recovered after a relaunch",
    ),
    Family(
        "sentinel_incident_lost_seconds", "gauge", ("kind",), "seconds",
        "Steps thrown away and downtime, of all incidents of a kind; two that overlap both count what they share",
    ),
    Family(
        "sentinel_incident_lost_gpu_seconds", "gauge", ("kind",), "seconds",
        "The same in GPU time; not there where the GPUs are not known",
    ),
    Family("sentinel_steps_lost_total", "counter", (), "steps", "Steps trained and thrown away, as far as rows showed them"),
    Family(
        "sentinel_detector_state", "gauge", ("detector", "verdict"), "0/1",
        "What a detector says: healthy, breached or unknown; unknown too while nobody judges",
    ),
    Family(
        "sentinel_actions_total", "counter", ("action", "outcome"), "",
        "What was decided and is done with: confirmed, abandoned, dropped",
    ),
    Family("sentinel_actions_pending", "gauge", ("action",), "", "What was decided and is not done yet"),
    Family(
        "sentinel_pages_total", "counter", ("stage", "route"), "",
        "Deliveries of pages: trigger (repeated ones too), update, …, message",
    ),
    Family("sentinel_pages_undelivered_total", "counter", ("stage", "route"), "", "Deliveries given up"),
    Family(
        "sentinel_pages_open", "gauge", (), "",
        "Incidents for which a person is needed, acknowledged or not",
    ),
    Family("sentinel_page_acknowledged", "gauge", (), "0/1", "A page is open, and every open one was acknowledged"),
)  # fmt: skip

FAMILIES = (*RUN, *TRAINING, *INCIDENTS)
