"""What the journal does with words it does not know, with damage, and with facts that must not be written."""

from __future__ import annotations

import math
from typing import Any, cast

import pytest

from sentinel.errors import JournalError
from sentinel.journal.codec import UNKNOWN_FACT, decode_fact, encode_fact
from sentinel.journal.dataclass_codec import codec_of
from sentinel.model.actions import KillAttempt
from sentinel.model.facts import ActionDecided, Fact, FindingRecorded, FirstStep, Held, Noted, PlanAdopted, ReceiptSeen
from sentinel.model.findings import Finding, Kind


def finding(value: float | None) -> FindingRecorded:
    return FindingRecorded(Finding(Kind.NON_FINITE, "critical", 1, 5, 6, 10.0, "loss is NaN", "loss", value), 1, "opened")


def test_the_stored_text_is_strict_json_with_every_field_and_a_type_in_unions() -> None:
    assert encode_fact(ActionDecided(KillAttempt("k", 3))) == (
        "ActionDecided",
        '{"action":{"type":"KillAttempt","key":"k","attempt":3}}',
    )
    assert '"value":"NaN","baseline":null' in encode_fact(finding(math.nan))[1]
    assert '"value":"-Infinity"' in encode_fact(finding(-math.inf))[1]


def test_a_text_that_says_nan_stays_a_text() -> None:
    assert decode_fact(*encode_fact(Held("NaN"))) == Held("NaN")


def test_a_whole_number_in_a_float_field_comes_back_as_a_float() -> None:
    fact = cast(FindingRecorded, decode_fact(*encode_fact(finding(cast(float, True)))))
    assert repr(fact.finding.value) == "1.0"


@pytest.mark.parametrize(
    ("kind", "body", "named"),
    [
        ("MoonPhaseSeen", '{"phase":"full"}', "MoonPhaseSeen"),
        ("ActionDecided", '{"action":{"type":"CallTaxi","key":"k"}}', "CallTaxi"),
        ("IncidentMoved", '{"incident":1,"to":"snoozed","reason":"r"}', "snoozed"),
    ],
)
def test_words_of_a_newer_version_become_a_note_that_names_them(kind: str, body: str, named: str) -> None:
    fact = decode_fact(kind, body)
    assert isinstance(fact, Noted)
    assert fact.about == UNKNOWN_FACT
    assert named in fact.reason
    assert kind in fact.reason


@pytest.mark.parametrize(
    ("kind", "body", "why"),
    [
        ("Held", '{"reason":"x"', "delimiter"),
        ("Held", "", "Expecting value"),
        ("MoonPhaseSeen", "{", "Expecting property name"),
        ("Held", "[]", "not an object"),
        ("Held", '{"reason":7}', "reason: 7 is not str"),
        ("FirstStep", '{"attempt":1,"step":1.5}', "step: 1.5 is not int"),
        ("FirstStep", '{"attempt":1,"step":true}', "step: True is not int"),
        ("ActionDecided", '{"action":{"key":"k"}}', "has no 'type'"),
        ("CheckpointCommitted", '{"attempt":1,"step":1,"path":"p","samples_end":1,"seconds":NaN}', "bare NaN"),
        ("CheckpointCommitted", '{"attempt":1,"step":1,"path":"p","samples_end":1,"seconds":1' + "0" * 400 + "}", "too large"),
        ("AttemptLaunched", '{"attempt":1,"resume":null,"why":"","overrides":{"skip":[{"start":5,"end":5}]}}', "skip: empty"),
        ("Held", "[" * 100_000, "recursion"),
    ],
)  # fmt: skip
def test_damage_is_named_with_its_place(kind: str, body: str, why: str) -> None:
    with pytest.raises(JournalError, match=kind) as told:
        decode_fact(kind, body)
    assert why in str(told.value)
    assert len(str(told.value)) < 1000


@pytest.mark.parametrize(
    ("fact", "place"),
    [
        (Held(cast(str, 7)), "Held.reason"),
        (finding(cast(float, "high")), "FindingRecorded.finding.value"),
        (ReceiptSeen(1, cast(int, 2.0), 8), "ReceiptSeen.resumed_step"),
        (PlanAdopted(None, (cast(Any, Held("x")),)), "PlanAdopted.actions"),
        (PlanAdopted(None, cast(Any, [KillAttempt("k", 1)])), "PlanAdopted.actions"),
        (cast(Fact, KillAttempt("k", 1)), "KillAttempt"),
    ],
)
def test_what_could_not_be_read_back_is_never_written(fact: Fact, place: str) -> None:
    with pytest.raises(TypeError, match=place):
        encode_fact(fact)


def test_a_type_the_codec_cannot_hold_is_refused_when_its_codec_is_built() -> None:
    with pytest.raises(TypeError, match="dict"):
        codec_of(dict[str, Any])
    with pytest.raises(TypeError, match="dataclasses"):
        codec_of(int | FirstStep)
