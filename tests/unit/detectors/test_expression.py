"""Rules on expressions as the bank see them: holds, onsets, unknown rows, relaunches, and no cost where there is none."""

from __future__ import annotations

from math import nan

import pytest

from sentinel.engine.detector_bank import build_detector_bank
from sentinel.model.findings import Finding, Kind, Verdict
from sentinel.model.readings import Receipt
from tests.unit.detectors.bank_kit import receipt, row
from tests.unit.policy.policies_in_words import SMALL, policy_with

QUIET = {"spike": "off", "non_finite": "off", "hang": "off", "crash": "off"}


def senses_with(*rules: dict, begun: bool = True, **spec):
    """The bank of a policy whose only rules are these, by name A, B, …"""
    named = [{"alert": chr(65 + n), "playbook": "numeric", **rule} for n, rule in enumerate(rules)]
    bank = build_detector_bank(policy_with(rules=[*SMALL["spec"]["rules"], *named], detectors=QUIET, **spec))
    if begun:
        bank.begin_attempt(1, 0.0)
        bank.receipt(receipt(), 0.0)
    return bank


def feed(bank, losses, first: int = 1, **more: float) -> list[Finding]:
    found: list[Finding] = []
    for step, loss in enumerate(losses, start=first):
        metrics = more if loss is None else {"loss": loss, **more}
        found += bank.step(row(step, **metrics), float(step))
    return found


def test_it_fires_when_it_has_held_and_is_dated_to_where_it_began():
    found = feed(senses_with({"expr": "loss > 3", "for": "5 steps"}), [2.0] * 20 + [4.0] * 10)
    (finding,) = found
    assert (finding.kind, finding.alert, finding.metric, finding.severity) == (Kind.EXPRESSION, "A", "loss", "warning")
    assert (finding.onset_step, finding.detected_step, finding.visible_s) == (21, 25, 21.0)
    assert "loss > 3" in finding.reason
    assert "loss 4" in finding.reason


def test_a_hold_that_is_broken_begins_anew():
    assert not feed(senses_with({"expr": "loss > 3", "for": "5 steps"}), ([4.0] * 4 + [2.0]) * 5)


def test_a_hold_in_seconds_is_the_trainers():
    (finding,) = feed(senses_with({"expr": "loss > 3", "for": "5s"}), [4.0] * 10)
    assert (finding.onset_step, finding.detected_step) == (1, 6)


def test_two_alerts_on_the_same_metric_are_two_findings():
    found = feed(senses_with({"expr": "loss > 3"}, {"expr": "loss > 2"}), [4.0])
    assert [finding.alert for finding in found] == ["A", "B"]
    assert len({finding.key for finding in found}) == 2


@pytest.mark.parametrize(("keep", "times"), [("0s", 3), ("3 steps", 1), ("3s", 1), ("2 steps", 3)])
def test_it_goes_on_firing_until_it_has_been_false_for_long_enough(keep, times):
    found = feed(senses_with({"expr": "loss > 3", "keep_firing_for": keep}), [4.0, 2.0, 2.0, 4.0, 2.0, 2.0, 4.0])
    assert len(found) == times


def test_unknown_rows_neither_count_nor_clear():
    rule = {"expr": "loss > 3", "for": "4 steps"}
    (finding,) = feed(senses_with(rule), [4.0, 4.0, nan, None, nan, 4.0, 4.0])
    assert (finding.onset_step, finding.detected_step) == (1, 7)
    bank = senses_with(rule)
    assert not feed(bank, [4.0, 4.0, *[nan] * 101, 4.0, 4.0]), "what was pending lapses"


def test_no_number_is_a_breach_only_where_the_rule_says_so():
    assert not feed(senses_with({"expr": "loss > 3"}), [nan] * 5)
    (finding,) = feed(senses_with({"expr": "loss > 3", "on_nonfinite": "fire"}), [2.0, nan, nan])
    assert (finding.onset_step, "no number" in finding.reason) == (2, True)
    assert not feed(senses_with({"expr": "loss > 3", "on_nonfinite": "fire"}), [None] * 5), "missing is not NaN"


def test_verdicts_are_three_valued():
    bank = senses_with({"expr": "median(loss, 10 steps) > 3"})
    feed(bank, [2.0] * 3)
    assert bank.verdicts()[Kind.EXPRESSION][0] is Verdict.UNKNOWN
    feed(bank, [2.0] * 9, first=4)
    assert bank.verdicts()[Kind.EXPRESSION][0] is Verdict.HEALTHY
    feed(bank, [9.0] * 9, first=13)
    assert bank.verdicts()[Kind.EXPRESSION] == (Verdict.BREACHED, "true now: A")
    assert bank.still_true(Kind.EXPRESSION, "A").startswith("still true")
    assert bank.still_true(Kind.EXPRESSION, "B") == ""


def test_windows_are_cut_at_a_relaunch_and_filled_from_the_surviving_past():
    rule = {"expr": "median(loss, 10 steps) > 3"}
    bank = senses_with(rule)
    feed(bank, [9.0] * 20)
    bank.begin_attempt(2, 30.0)
    bank.receipt(receipt(2), 31.0)
    assert not bank.step(row(1, attempt=2, loss=9.0), 32.0), "its own past is no longer there"
    bank.begin_attempt(3, 40.0)
    past = tuple(row(step, loss=2.0) for step in range(1, 61))
    bank.receipt(receipt(3, resume_step=60, history=past), 41.0)
    bank.step(row(61, attempt=3, loss=2.0), 42.0)
    assert bank.verdicts()[Kind.EXPRESSION][0] is Verdict.HEALTHY, "judged at once"


def test_in_the_grace_after_a_resume_it_waits_until_it_outlasts_it():
    bank = senses_with({"expr": "loss > 3"}, begun=False)
    bank.begin_attempt(2, 0.0)
    past = tuple(row(step, loss=2.0) for step in range(1, 61))
    bank.receipt(receipt(2, resume_step=60, history=past), 0.0)
    found: list[Finding] = []
    for step in range(61, 130):
        found += bank.step(row(step, attempt=2, loss=4.0), float(step))
    assert [(finding.onset_step, finding.detected_step) for finding in found] == [(61, 111)]


@pytest.mark.parametrize(
    ("effective", "tokens", "spec", "fires"),
    [
        ({}, None, {}, False),
        ({"warmup_steps": 5}, 100, {}, True),
        ({}, None, {"run": {"warmup_steps": "5 steps", "tokens_per_step": 100}}, True),
        ({"warmup_steps": 500}, 100, {"run": {"warmup_steps": "5 steps"}}, False),
        ({"warmup_steps": True}, 100, {}, False),
        ({"warmup_steps": "NaN"}, 100, {}, False),
    ],
)
def test_warmup_and_tokens_are_the_receipts_word_else_the_policys(effective, tokens, spec, fires):
    bank = senses_with({"expr": "step > 2 * warmup_steps && tokens > 1000"}, **spec)
    bank.receipt(Receipt(1, 0.0, 0, None, 1, {}, effective, tokens_per_step=tokens), 0.0)
    assert bool(feed(bank, [2.0] * 20)) is fires


def test_a_policy_without_expressions_has_no_such_detector():
    assert Kind.EXPRESSION not in build_detector_bank(policy_with()).verdicts()


def test_read_again_from_its_first_line_the_stream_gives_the_same_findings():
    losses = [2.0] * 30 + [4.0, nan] * 10 + [2.0] * 30
    rule = {"expr": "mean(loss, 5 steps) > 2.5", "for": "2 steps", "keep_firing_for": "3 steps"}
    assert feed(senses_with(rule), losses) == feed(senses_with(rule), losses) != []


def test_it_reads_all_lines_of_a_step():
    bank = senses_with({"expr": "val_loss > 3 && loss < 2.5", "for": "3 steps"}, {"expr": "mean(val_loss, 4 steps) > 3"})
    rows = [row(step, **line) for step in range(1, 9) for line in ({"loss": 2.0}, {"val_loss": 4.0})]
    found = [one for reading in rows for one in bank.step(reading, 1.0)]
    assert sorted((one.alert, one.onset_step) for one in found) == [("A", 1), ("B", 3)]
