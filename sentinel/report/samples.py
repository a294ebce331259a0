"""`sentinel incidents show N --samples`: the samples of an incident's suspect window, the worst first, and where they lie.

The order and the verdicts are judged anew from the inspection's own record, by the code that judged them then.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sentinel.errors import GiveUp
from sentinel.model.incidents import Incident
from sentinel.plan.sample_attribution import Ranked, rank_samples
from sentinel.report.documents import incident_document
from sentinel.report.reading import find_incident, read_run
from sentinel.report.tables import text_table
from sentinel.report.text import incident_story
from sentinel.telemetry.samples import read_samples

LISTED = 40  # rows for a person; --json has them all
HEADER = ("rank", "sample", "loss", "gradient norm", "score", "", "shard", "offset")


def read_incident(run_dir: Path, number: int, with_samples: bool) -> dict[str, Any]:
    """The incident's document; with samples, `samples` and `samples_missing` (why there are none). Raises UsageError and as
    `read_run` does."""
    incident = find_incident(run_dir, read_run(run_dir).state.incidents, number)
    document = incident_document(incident)
    if with_samples:
        document["samples"], document["samples_missing"] = rank_of_incident(run_dir, incident)
    return document


def incident_text(document: Mapping[str, Any]) -> str:
    """What happened, and the worst samples; every guilty one is listed as far as LISTED rows go."""
    parts = ["\n".join(incident_story(document))]
    if "samples" not in document:
        return parts[0]
    samples = document["samples"]
    if not samples:
        return "\n\n".join([*parts, document["samples_missing"]])
    rows = [_row(one) for one in samples[:LISTED]]
    guilty = sum(one["guilty"] for one in samples)
    parts.append(text_table(HEADER, rows))
    more = f"; the {LISTED} worst are listed, --json has all" if len(samples) > LISTED else ""
    parts.append(f"{guilty} of {len(samples)} samples guilty (score 1 convicts){more}")
    return "\n\n".join(parts)


def rank_of_incident(run_dir: Path, incident: Incident) -> tuple[list[dict[str, Any]], str]:
    """The samples of its suspect window, the worst first; or why there are none."""
    ranked, missing = _rank(run_dir, incident)
    return [_plain(place, one) for place, one in enumerate(ranked, start=1)], missing


def _rank(run_dir: Path, incident: Incident) -> tuple[tuple[Ranked, ...], str]:
    found = incident.attribution
    if found is None:
        return (), "nothing was attributed: no rung of this incident asked for its guilty samples (skip: {only: guilty})"
    if found.suspect is None or found.verdict == "failed":
        return (), f"nothing was attributed: {found.reason}"
    try:
        return rank_samples(read_samples(run_dir, found.attempt), found.suspect), ""
    except GiveUp as gone:
        return (), f"the record of the inspection cannot be read any more: {gone}"


def _plain(place: int, one: Ranked) -> dict[str, Any]:
    seen = one.sample
    return {
        "rank": place, "sample": seen.index, "loss": seen.loss, "grad_norm": seen.grad_norm, "score": one.score,
        "guilty": one.guilty, "why": one.why, "shard": seen.shard, "offset": seen.offset,
    }  # fmt: skip


def _row(one: Mapping[str, Any]) -> tuple[object, ...]:
    norm = "" if one["grad_norm"] is None else f"{one['grad_norm']:.4g}"
    verdict = "guilty" if one["guilty"] else ""
    shard = one["shard"].encode("unicode_escape").decode("ascii")  # written by the trainer: no control characters here
    return (one["rank"], one["sample"], f"{one['loss']:.4g}", norm, f"{one['score']:.2f}", verdict, shard, one["offset"])
