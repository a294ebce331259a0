"""The checker refuses what reads well and cannot work."""

from __future__ import annotations

import pytest

from sentinel.engine.evolve.pages import ROUTES_KEPT
from sentinel.policy.schema_paging import ROUTES_MAX
from tests.unit.policy.policies_in_words import GOOD, SMALL, data_with, located, numeric, policy_with, said

RULES = SMALL["spec"]["rules"]
ROLLBACK = {"rollback": {"before_onset": "100 steps"}}
PAGE = {"page": {}, "then": "stop_now"}
N = "spec.playbooks.numeric"


def test_a_sound_policy_has_no_problems():
    assert said(policy_with()) == []
    assert said(policy_with(), set()) == [
        ("warning", f"{N}[0].skip", "the trainer cannot skip samples (capability 'skip'): this rung is passed over"),
    ]
    assert said(policy_with(), {"skip"}) == []


@pytest.mark.parametrize(
    ("rung", "path", "message"),
    [
        ({"resume": {}, **ROLLBACK}, "[0].resume", "resume goes on from the newest checkpoint, rollback from an older one"),
        ({"resume": {}, "skip": {"from": "onset", "to": "detected"}}, "[0].skip", "a skip without a rollback"),
        ({"wait": {"for": "9 steps"}, "lr": "0.5x"}, "[0].wait", "waiting and lr contradict each other"),
        ({"hold": True, "resume": {}}, "[0].hold", "hold pauses training, and resume goes on with it"),
        ({"rollback": {"further": "2x"}}, "[0].rollback.further", "no rung before this one rolls back"),
        ({**ROLLBACK, "skip": {"wider": "2x"}}, "[0].skip.wider", "no rung before this one skips"),
        ({**ROLLBACK, "skip": {"from": "onset", "to": "onset - 5 steps"}}, "[0].skip.to", "the window ends before it begins"),
        ({**ROLLBACK, "skip": {"from": "detected", "to": "onset"}}, "[0].skip.to", "the window ends before it begins"),
        ({"reset_optimizer": True}, "[0].reset_optimizer", "reset_optimizer takes effect only at a relaunch"),
        ({"precision": "bf16"}, "[0].precision", "precision takes effect only at a relaunch"),
        ({**ROLLBACK, "precision": "bf16", "loss_scale": 1024}, "[0].loss_scale", "bf16 has no loss scale"),
        ({**ROLLBACK, "until": "900 steps"}, "[0].until", "'until' says when changed settings go back"),
        ({**ROLLBACK, "then": "hold"}, "[0].then", "'then' says what follows a page, and this rung pages nobody"),
        ({"diagnose": True}, "[0].diagnose", "a diagnosis repeats the failed stretch unchanged"),
        ({**ROLLBACK, "diagnose": True, "lr": "0.5x"}, "[0].diagnose", "a diagnosis repeats the failed stretch unchanged"),
        ({"lr": "0.5x", "reseed_data": True}, "[0].reseed_data", "reseed_data takes effect only at a relaunch"),
        (
            {**ROLLBACK, "skip": {"from": "onset", "to": "detected"}, "reseed_data": True},
            "[0].reseed_data",
            "in a new data order the samples around the onset lie anywhere",
        ),
        ({"exclude": {}}, "[0].exclude", "exclude takes effect only at a relaunch"),
    ],
)
def test_a_rung_that_contradicts_itself_is_refused(rung, path, message):
    severity, place, text = said(numeric(rung))[0]
    assert (severity, place) == ("error", N + path)
    assert text.startswith(message)


@pytest.mark.parametrize(
    ("rung", "path", "message"),
    [
        ({**ROLLBACK, "lr": "0.5x", "until": "20 steps"}, "[0].until", "the settings go back after 20 steps"),
        ({**ROLLBACK, "skip": {"from": "onset - 200 steps", "to": "detected"}}, "[0].skip.from", "the skip begins 200 steps"),
    ],
)
def test_a_doubtful_rung_is_a_warning(rung, path, message):
    severity, place, text = said(numeric(rung))[0]
    assert (severity, place) == ("warning", N + path)
    assert text.startswith(message)


@pytest.mark.parametrize(
    "rung",
    [
        {**ROLLBACK, "lr": "0.5x", "clip_norm": 0.3, "weight_decay": 0, "betas": [0.9, 0.95], "eps": 1e-8, "until": "900 steps"},
        {**ROLLBACK, "reset_optimizer": True, "precision": "fp16", "loss_scale": 1024, "checkpoint_every": "10 steps"},
        {"resume": {}, "page": {"severity": "info"}},
        {"embed_grad_scale": 0.1, "until": "900 steps"},
        {"hold": True},
    ],
)
def test_rungs_that_fit_together_pass(rung):
    assert said(numeric(rung)) == []


def test_weight_decay_of_zero_is_in_force():
    rung = numeric({**ROLLBACK, "weight_decay": 0}).spec.playbooks["numeric"][0]
    assert (rung.parts, rung.title) == (("rollback", "weight_decay"), "rollback + weight_decay")


def test_settings_without_a_relaunch_need_live_overrides():
    policy = numeric({"lr": "0.5x"})
    assert said(policy, {"skip", "live_overrides"}) == []
    assert said(policy, {"skip"})[0][:2] == ("warning", f"{N}[0].lr")
    assert said(numeric({**ROLLBACK, "lr": "0.5x"}), {"skip"}) == []


def playbook_of(*rungs):
    return said(policy_with(playbooks=SMALL["spec"]["playbooks"] | {"numeric": list(rungs)}))


def test_rungs_after_the_end_are_unreachable():
    message = "never reached: rung 1 pages and ends the playbook with 'then'"
    assert playbook_of(PAGE, ROLLBACK, PAGE) == [("error", f"{N}[1]", message), ("error", f"{N}[2]", message)]


def test_a_playbook_needs_a_last_resort():
    assert playbook_of(ROLLBACK) == [("error", f"{N}[0]", "no last resort: when this rung fails, nobody is called")]
    assert playbook_of({"page": {"severity": "info"}, "then": "hold"})[0][:2] == ("warning", f"{N}[0].page.severity")
    assert playbook_of({"page": {}})[0][:2] == ("warning", f"{N}[0].page")
    assert playbook_of({**ROLLBACK, **PAGE})[0][:2] == ("error", f"{N}[0].then")


def test_rules_name_playbooks_that_exist():
    rules = [RULES[0] | {"playbook": "numerik"}, *RULES[1:]]
    assert said(policy_with(rules=rules)) == [("error", "spec.rules[0].playbook", "there is no playbook 'numerik'")]


def test_alerts_and_kinds_stand_once():
    problems = said(policy_with(rules=[*RULES, RULES[0]]))
    assert [problem[:2] for problem in problems] == [("error", "spec.rules[5].alert"), ("error", "spec.rules[5].on")]


def test_a_rule_needs_a_detector_that_makes_its_finding():
    assert said(policy_with(detectors={"spike": "off"})) == [
        ("warning", "spec.rules[0].on", "'spike' is never found, because the detector 'spike' is switched off"),
    ]
    assert [problem[1] for problem in said(policy_with(detectors={"crash": False}))] == ["spec.rules[3].on", "spec.rules[4].on"]


def test_a_detector_without_a_rule_is_a_warning():
    message = "no rule is on 'crash': what the detector finds is recorded, and nothing is done"
    assert said(policy_with(rules=RULES[:-1])) == [("warning", "spec.rules", message)]
    assert said(policy_with(rules=RULES[1:], detectors={"spike": "off"})) == []


def test_a_serious_alert_without_a_playbook_is_refused():
    bare = {"alert": "Spike", "on": "spike"}
    assert said(policy_with(rules=[bare, *RULES[1:]]))[0][:2] == ("error", "spec.rules[0]")
    quiet = bare | {"labels": {"severity": "info"}}
    assert said(policy_with(rules=[quiet, *RULES[1:]])) == []
    assert said(policy_with(rules=[quiet | {"playbook": "numeric"}, *RULES[1:]]))[0][:2] == ("warning", "spec.rules[0].playbook")


def test_a_playbook_nobody_uses_is_a_warning():
    books = SMALL["spec"]["playbooks"] | {"spare": [PAGE]}
    assert said(policy_with(playbooks=books)) == [("warning", "spec.playbooks.spare", "no rule uses this playbook")]


@pytest.mark.parametrize(
    ("budget", "key"),
    [
        ({"without_progress": 50}, "without_progress"),
        ({"refill_after_progress": "1 step"}, "refill_after_progress"),
        ({"backoff": "0s..5m"}, "backoff"),
        ({"restarts": "1000 per 1m"}, "restarts"),
        ({"interventions": "1000 per 1m"}, "interventions"),
    ],
)
def test_a_budget_that_lets_a_loop_run_for_ever_is_refused(budget, key):
    problems = said(policy_with(budget=budget))
    assert [problem[:2] for problem in problems] == [("error", f"spec.budget.{key}")]


def test_a_page_must_reach_somebody():
    assert said(policy_with(paging={"routes": []})) == [("error", "spec.paging.routes", "a page would reach nobody")]


def test_more_routes_than_a_page_remembers_are_refused():
    """A route that a page has forgotten would be called anew at every turn."""
    ways = [{"terminal": {"name": f"way-{n}"}} for n in range(ROUTES_MAX + 1)]
    assert ROUTES_MAX <= ROUTES_KEPT / 2, "there is room for the routes of the policy before"
    with pytest.raises(ValueError, match=r"(?s)routes.*at most 16 items"):
        policy_with(paging={"routes": ways})
    assert not said(policy_with(paging={"routes": ways[1:]}))


def test_pages_that_reach_nobody_at_once_are_refused():
    waits = [{"terminal": {"after": "5m"}}, {"slack": {"webhook": {"env": "X"}, "after": "10m"}}]
    ((severity, path, text),) = said(policy_with(paging={"routes": waits}))
    assert (severity, path) == ("error", "spec.paging.routes")
    assert text.startswith("every route waits ('after')")


def test_a_severity_that_reaches_nobody_at_once_is_asked_about():
    routes = [{"terminal": {"severity": "critical"}}, {"slack": {"webhook": {"env": "X"}, "after": "10m"}}]
    tells = {"page": {"severity": "warning"}}
    numeric = [tells, *SMALL["spec"]["playbooks"]["numeric"]]
    found = said(policy_with(paging={"routes": routes}, playbooks=SMALL["spec"]["playbooks"] | {"numeric": numeric}))
    assert ("warning", "spec.paging.routes") in [problem[:2] for problem in found]
    assert any(text.startswith("a warning page would reach nobody at once") for _, _, text in found)


def test_a_page_every_few_seconds_is_refused():
    ((severity, path, message),) = said(policy_with(paging={"repeat_every": "10s"}))
    assert (severity, path) == ("error", "spec.paging.repeat_every")
    assert message.startswith("a page every 10 s wakes nobody better")


def test_the_level_is_shorter_than_the_window():
    problems = said(policy_with(detectors={"spike": {"window": "20 steps"}}))
    assert problems[0][:2] == ("error", "spec.detectors.spike.level")


def test_checking_leaves_the_data_alone():
    assert data_with() == SMALL


GUILTY = {**ROLLBACK, "skip": {"from": "onset - 20 steps", "to": "detected + 200 steps", "only": "guilty", "within": "5m"}}


def test_guilty_samples_need_a_trainer_that_can_look_at_them():
    assert said(numeric(GUILTY), {"skip", "attribution"}) == []
    assert said(numeric(GUILTY), {"skip"}) == [
        (
            "warning",
            f"{N}[0].skip.only",
            "the trainer cannot look at single samples (capability 'attribution'): this rung is passed over",
        )
    ]


def test_a_time_limit_without_anything_to_look_at_is_refused():
    found = located(GOOD.replace("100 steps}", "100 steps}\n      skip: {from: onset, to: detected, within: 5m}", 1))
    assert [problem.message for problem in found] == ["'within' says how long looking for the guilty may take"]
    (found,) = located(GOOD.replace("100 steps}", "100 steps}\n      skip: {from: onset, to: detected, only: bad}", 1))
    assert "'bad' is not 'guilty', the only value here" in found.message


def test_a_new_data_order_comes_after_the_rungs_that_skip():
    reseed = {"rollback": {"further": "2x"}, "reseed_data": True}
    plain = {**ROLLBACK, "skip": {"from": "onset", "to": "detected"}}
    assert said(numeric(plain, reseed), {"skip"}) == []
    wider = {**ROLLBACK, "skip": {"wider": "2x"}}
    (problem,) = said(numeric(plain, reseed, wider))
    assert problem[:2] == ("error", f"{N}[2].skip")
    assert "begins a new data order" in problem[2]
    (problem,) = said(numeric({**ROLLBACK, "reseed_data": True}), set())
    assert problem[2] == "the trainer cannot change its data order (capability 'skip'): this rung is passed over"
