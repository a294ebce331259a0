"""How long a synced append takes here, and how many facts a second the codec and the fold's reader manage."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Literal

import pytest

from sentinel.journal.codec import decode_fact, encode_fact
from sentinel.journal.store import Journal
from sentinel.model.actions import StartAttempt
from sentinel.model.attempts import ResumePoint, SampleRange, SettingsInForce
from sentinel.model.facts import ActionDecided, CheckpointCommitted, Fact, FindingRecorded, IncidentOpened
from sentinel.model.findings import Finding, Kind
from sentinel.model.incidents import Band, Incident

FACTS: tuple[Fact, ...] = (
    CheckpointCommitted(3, 1250, "checkpoints/step-00001250", 320_000, "ab" * 32, 3.1),
    FindingRecorded(
        Finding(Kind.SPIKE, "warning", 3, 1200, 1204, 1e9, "loss 9.1 is 14 spreads above 2.4", "loss", 9.1, 2.4), 4, "opened"
    ),
    ActionDecided(
        StartAttempt(
            "start-4", 4, ResumePoint(1000, "checkpoints/step-00001000"), SettingsInForce("ov-4", skip=(SampleRange(1, 9),))
        )
    ),
    IncidentOpened(
        Incident(
            4,
            Kind.SPIKE,
            "warning",
            "loss_spike",
            "numeric",
            3,
            1200,
            1204,
            1204,
            1e9,
            1e9,
            "r",
            band=Band("loss", 2.4, 0.1, 200),
        )
    ),
)


@pytest.mark.bench
@pytest.mark.parametrize("mode", ["wal", "delete"])
def test_milliseconds_per_synced_append(
    tmp_path: Path, mode: Literal["wal", "delete"], capsys: pytest.CaptureFixture[str]
) -> None:
    took_ms: list[float] = []
    with Journal.open(tmp_path / "sentinel.db", mode=mode) as journal:
        for n in range(300):
            start_s = time.perf_counter()
            journal.append(float(n), FACTS, 0)
            took_ms.append((time.perf_counter() - start_s) * 1e3)
    took_ms.sort()
    with capsys.disabled():
        print(f"\n{mode}: append of {len(FACTS)} facts, synced: median {took_ms[150]:.2f} ms, p99 {took_ms[-3]:.2f} ms")


@pytest.mark.bench
def test_facts_per_second(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    many = FACTS * 5000
    start_s = time.perf_counter()
    stored = [encode_fact(fact) for fact in many]
    encoded_s = time.perf_counter()
    assert [decode_fact(kind, body) for kind, body in stored[:4]] == list(FACTS)
    decode_start_s = time.perf_counter()
    for kind, body in stored:
        decode_fact(kind, body)
    decoded_s = time.perf_counter()
    with Journal.open(tmp_path / "sentinel.db") as journal:
        journal.append(1.0, many, 0)
        read_start_s = time.perf_counter()
        count = sum(1 for _ in journal.read_entries())
        read_s = time.perf_counter()
    with capsys.disabled():
        print(
            f"\nencode {len(many) / (encoded_s - start_s):,.0f}/s, decode {len(many) / (decoded_s - decode_start_s):,.0f}/s, "
            f"read from disk {count / (read_s - read_start_s):,.0f}/s"
        )
