"""The page while things change under it: incidents that open, servers that vanish, texts that want to be markup."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from selenium.webdriver.common.by import By

from tests.unit.web_page.browser import Page
from tests.unit.web_page.page_server import TOKEN, PageServer
from tests.unit.web_page.simulated_run import LAYERS, START_S, SimulatedRun, incident, remedy

HOSTILE = '<img src=x onerror="document.body.id=1"><script>document.body.id=2</script>&amp;'
ODD = "<img src=x onerror=alert(1)>&amp;"


def test_an_incident_appears_and_ends_without_a_reload(page: Page, server: PageServer, run: SimulatedRun) -> None:
    page.open(server.address)
    page.wait_for_text("#figures", "step 420 of 600")
    page.script("window.stillHere = true")
    assert page.chrome.title == "training · demo · Sentinel"
    opened = run.break_down(3, "spike", "loss 9.1 is 40 deviations above 2.0")
    page.wait_for_text("#banner", "Incident 3: spike since step 408, open")
    page.wait_for_text("#event-list li:first-child", "INCIDENT 3 spike (critical): loss 9.1 is 40 deviations above 2.0")
    assert page.chrome.title == "● training · demo · Sentinel"
    page.until(lambda: page.find("#incident-3[open]"), "its place among the incidents")
    opened |= {"state": "recovered", "verdict": "60 steps past step 420", "closed_elapsed_s": 260.0}
    run.tell("incident 3 RECOVERED: 60 steps past step 420", "good", 3)
    page.until(lambda: not page.find("#banner section"), "the banner gone")
    page.wait_for_text("#incident-3", "recovered")
    assert page.script("return window.stillHere") is True


def test_an_open_incident_whose_page_a_person_resolved_says_so(page: Page, server: PageServer, run: SimulatedRun) -> None:
    run.break_down(3, "spike", "loss 9.1", page={"resolved": "a person says so", "resolved_by": "ada"})
    page.open(server.address)
    words = "A person was paged; the page was resolved by ada: a person says so. Sentinel goes on dealing with it."
    page.wait_for_text("#banner", words)
    assert not page.find("#banner button[data-key='resolve-3']")


def test_what_is_read_or_tabbed_through_stays_while_the_page_goes_on(page: Page, server: PageServer, run: SimulatedRun) -> None:
    page.open(server.address)
    page.click_on("#incident-1 > summary")
    page.click_on("#incident-2 > summary")
    run.break_down(3, "spike", "loss 9.1 is 40 deviations above 2.0")
    page.wait_for_text("#banner", "Incident 3")
    assert page.find("#incident-1[open]")
    assert not page.find("#incident-2[open]")
    page.script("document.querySelector('[data-key=resolve-3]').focus()")
    run.incidents[-1]["reason"] = "loss 9.9 is 44 deviations above 2.0"
    run.tell("still there", about=3)
    page.wait_for_text("#banner", "loss 9.9")
    assert page.script("return document.activeElement.dataset.key") == "resolve-3"


def test_text_that_wants_to_be_markup_stays_text(page: Page, server: PageServer, run: SimulatedRun) -> None:
    server.runs = {HOSTILE: run}
    run.name = run.reason = run.trouble = HOSTILE
    run.names = [ODD, "loss", f"{ODD}/a", f"{ODD}/b", *LAYERS]
    run.attempts[0].why, run.attempts[0].outcome = HOSTILE, f"{HOSTILE}: {HOSTILE}"
    run.incidents = [incident(1, HOSTILE, state=HOSTILE, reason=HOSTILE, blamed_node=HOSTILE, acknowledged_by=HOSTILE)]
    run.break_down(2, HOSTILE, HOSTILE, verdict=HOSTILE)
    page.open(server.address)
    for place in ("#run-name", "#figures", "#banner", "#incident-list", "#event-list", "#tree", "#trouble"):
        page.wait_for_text(place, HOSTILE)
    page.click_on("#choose summary")
    page.wait_for_text("#choices", f"{ODD} per layer")
    page.chrome.find_element(By.XPATH, "//label[starts-with(., '<img') and not(contains(., 'per layer'))]").click()
    page.wait_for_text(".plot figcaption b", ODD)
    assert page.find("img, body script, body[id]") == []
    assert [entry for entry in page.logs("browser") if "404" not in entry["message"]] == []


def test_nothing_that_a_run_wrote_turns_the_order_of_words_around(page: Page, server: PageServer, run: SimulatedRun) -> None:
    """What comes behind such a character is shown from right to left: also the question beside it, and what would happen."""
    turn = "\u202e\u2066gnirts\u200f"
    waiting = remedy(0, ["rollback"], outcome="pending", chosen=f"roll back {turn} to step 400")
    run.break_down(3, "spike", f"loss {turn} rises", awaits_approval=0, remedies=[waiting])
    page.open(server.address)
    page.script(f"sessionStorage.setItem('sentinel-token', '{TOKEN}')")
    page.wait_for_text("#banner", "loss gnirts rises")
    page.click("approve")
    page.wait_for_text("#ask-words", "Rung 1 (rollback: roll back gnirts to step 400) waits for approval.")
    assert not page.script(r"return /[\u200e\u200f\u202a-\u202e\u2066-\u2069]/.test(document.documentElement.textContent)")


def test_a_lost_connection_is_said_and_what_was_known_stays(page: Page, server: PageServer, run: SimulatedRun) -> None:
    page.open(server.address)
    page.wait_for_text("#figures", "step 420 of 600")
    server.silent = True
    page.wait_for_text("#connection", "Connection lost since ")
    page.wait_for_text("#connection", ", showing the state of ")
    assert "step 420 of 600" in page.text("#figures")
    server.silent = False
    run.advance(5)
    page.click("try now")
    page.wait_for_text("#figures", "step 425 of 600")
    page.until(lambda: not page.find("#connection:not([hidden])"), "no complaint any more")


def test_one_answer_that_fails_leaves_the_others_alone(page: Page, server: PageServer, run: SimulatedRun) -> None:
    server.broken = {"curves"}
    page.open(server.address)
    page.wait_for_text("#connection", "curves could not be read: <b>disk</b>")
    page.wait_for_text("#incident-list", "#2 spike")
    run.advance(3)
    page.wait_for_text("#figures", "step 423 of 600")
    assert "The server cannot tell all since" in page.text("#connection")
    server.broken = set()
    page.until(lambda: page.find(".plot canvas") and not page.find("#connection:not([hidden])"), "the curves after all")


def test_a_server_without_runs_says_so(page: Page, server: PageServer) -> None:
    server.runs = {}
    page.open(server.address)
    page.wait_for_text("#fleet", "No run is known here yet\n\nA run appears here as soon as it begins.")
    assert page.script("return document.querySelector('.columns').checkVisibility()") is False, "no empty sections about none"


def test_one_of_several_runs_is_chosen_and_stands_in_the_address(page: Page, server: PageServer) -> None:
    other = SimulatedRun("big run/é")
    other.advance(80)
    other.break_down(3, "hang", "2 of 8 ranks are silent")
    server.runs[other.name] = other
    page.open(f"{server.address}/#run=demo")
    page.wait_for_text("#runs summary", "2 runs 1 paged")
    page.click_on("#runs summary")
    page.chrome.find_element(By.PARTIAL_LINK_TEXT, "big run/é").click()
    page.wait_for_text("#run-name", "big run/é")
    page.wait_for_text("#banner", "Incident 3: hang")
    page.chrome.refresh()
    page.wait_for_text("#figures", "step 500 of 600")


def test_a_run_that_failed_says_its_cause_what_trains_and_what_to_type_in_this_order(
    page: Page, server: PageServer, run: SimulatedRun
) -> None:
    run.state, run.supervisor = "failed", "gone"
    run.break_down(3, "non_finite", "loss is NaN at step 408", state="exhausted", verdict="rung 1 of tell calls a person")
    answers = [{"command": "sentinel run --run-dir /runs/demo", "what": "go on"}]
    cause, trains = "non_finite: loss is NaN at step 408", "Nothing of it trains now."
    run.needs = {"head": "The run has failed", "incident": 3, "cause": cause, "trains": trains, "answers": answers}
    page.open(server.address)
    page.wait_for_text("#banner", "The run has failed")
    told = page.text("#banner section")
    places = [told.index(words) for words in ("The run has failed", cause, trains, answers[0]["command"])]
    assert places == sorted(places)
    assert "no repair is left" in page.text("#incident-3 .chip")
    assert "the newest, non_finite: no repair is left" in page.text("#numbers")
    assert "exhausted" not in page.text("body"), "a word of our own"


def test_the_root_of_several_runs_lists_them_worst_first(page: Page, server: PageServer) -> None:
    other = SimulatedRun("night")
    other.break_down(3, "hang", "2 of 8 ranks are silent")
    server.runs[other.name] = other
    page.open(server.address)
    page.wait_for_text("#fleet", "2 runs")
    names = "return [...document.querySelectorAll('.fleet b')].map((one) => one.textContent);"
    assert page.script(names) == ["night", "demo"]
    assert "incident 3: hang since step 408: 2 of 8 ranks are silent; called: phone" in page.text("#fleet")
    assert page.script("return document.querySelectorAll('.fleet svg.spark path').length;") == 2
    assert not page.script("return document.getElementById('status').offsetParent"), "no run is shown before one is chosen"
    page.chrome.find_element(By.PARTIAL_LINK_TEXT, "night").click()
    page.wait_for_text("#run-name", "night")
    page.click_on("#runs summary")
    page.chrome.find_element(By.PARTIAL_LINK_TEXT, "all runs").click()
    page.wait_for_text("#fleet", "2 runs")


def test_a_run_that_nobody_knows_is_said_to_be_none(page: Page, server: PageServer) -> None:
    """Also where there is but one: its buttons must not be taken for the other's."""
    page.open(f"{server.address}/#run=nosuch")
    page.wait_for_text("#fleet", "There is no run “nosuch” here")
    page.chrome.find_element(By.PARTIAL_LINK_TEXT, "demo").click()
    page.wait_for_text("#run-name", "demo")


def test_of_two_runs_of_one_name_a_link_leads_to_its_own(page: Page, server: PageServer, run: SimulatedRun) -> None:
    other = SimulatedRun("demo~2")
    other.directory, other.began, other.place, run.place = "demo", run.began + 777, "/runs/b", "/runs/a"
    server.runs[other.name] = other
    page.open(f"{server.address}/#run=demo&began={other.began}")
    page.wait_for_text("#run-name", "demo~2")
    del server.runs[other.name]
    page.wait_for_text("#connection", "The server cannot tell all")
    assert page.text("#run-name") == "demo~2", "never the other in its place"
    server.runs[other.name] = other
    page.open(f"{server.address}/#run=demo&began={run.began}")
    page.until(lambda: page.text("#run-name") == "demo", "the other one")
    page.open(f"{server.address}/#run=demo&began=5")
    page.wait_for_text("#fleet", "There is no run “demo, begun")
    assert "in /runs/a" in page.text("#fleet")
    assert "in /runs/b" in page.text("#fleet")


def test_a_run_that_is_not_listed_any_more_is_not_replaced_by_another(page: Page, server: PageServer) -> None:
    server.runs["other"] = SimulatedRun("other")
    page.open(f"{server.address}/#run=demo")
    page.wait_for_text("#run-name", "demo")
    page.wait_for_text("#runs summary", "2 runs")
    del server.runs["demo"]
    page.wait_for_text("#connection", "The server cannot tell all")
    page.wait_for_text("#runs summary", "1 run")
    assert page.text("#run-name") == "demo"
    page.click_on("#runs summary")
    page.chrome.find_element(By.PARTIAL_LINK_TEXT, "other").click()
    page.wait_for_text("#run-name", "other")


def test_a_link_within_the_page_opens_what_it_leads_to_and_leaves_the_run_in_the_address(
    page: Page, server: PageServer, run: SimulatedRun
) -> None:
    page.open(f"{server.address}/#run=demo")
    page.wait_for_text("#incident-list", "#2 spike")
    is_open = "return document.getElementById('incident-1').open;"
    assert not page.script(is_open)
    page.script("const a = document.createElement('a'); a.href = '#incident-1'; document.body.append(a); a.click();")
    assert page.script(is_open)
    assert page.script("return [location.hash, document.activeElement.tagName];") == ["#run=demo", "SUMMARY"]


def test_decisions_that_are_not_all_there_are_not_called_every_one(page: Page, server: PageServer, run: SimulatedRun) -> None:
    page.open(server.address)
    page.wait_for_text("#incident-list", "#2 spike")
    words = "return [...document.querySelectorAll('#incident-list details summary')].map((s) => s.textContent).join('|');"
    assert page.script(words).count("every decision") == 2
    for number in range(510):
        run.tell(f"line {number}", about=2 if number == 509 else None, elapsed_s=240.0)
    page.chrome.refresh()
    page.wait_for_text("#event-list", "line 509")
    said = page.script(words)
    assert "every decision" not in said
    assert "the newest decisions; its report has all (1 line)" in said


def test_the_list_of_events_can_be_frozen(page: Page, server: PageServer, run: SimulatedRun) -> None:
    page.open(server.address)
    page.wait_for_text("#event-list", "RECOVERED")
    page.click("freeze")
    run.tell("a checkpoint was committed")
    page.wait_for_text("#pause-events", "frozen, 1 new")
    assert "a checkpoint was committed" not in page.text("#event-list")
    page.click_on("#pause-events")
    page.wait_for_text("#event-list li:first-child", "a checkpoint was committed")


@pytest.fixture
def in_utc(page: Page) -> Iterator[None]:
    page.chrome.execute_cdp_cmd("Emulation.setTimezoneOverride", {"timezoneId": "UTC"})
    yield
    page.chrome.execute_cdp_cmd("Emulation.setTimezoneOverride", {"timezoneId": ""})


@pytest.mark.usefixtures("in_utc")
def test_what_happened_is_shown_when_it_happened_and_not_by_when_somebody_looks(
    page: Page, server: PageServer, run: SimulatedRun
) -> None:
    """The run began on 14 November 2023 at 22:13:20 UTC."""
    page.open(server.address)
    page.wait_for_text("#event-list li:last-child", "run demo: policy default")
    assert page.text("#event-list li:last-child time").endswith(" 22:13:20")
    find_crash = "return [...document.querySelectorAll('#event-list li')].find((e) => /crash/.test(e.innerText)).innerText"
    assert "22:13:50" in page.script(find_crash)
    assert page.text("#incident-1 summary").count("22:13:50") == page.text("#incident-1 summary").count("22:14:20") == 1
    assert page.text("#numbers dd").splitlines()[0].endswith(" 22:13:20")
    run.tell("a checkpoint was committed", elapsed_s=3600.0)
    page.wait_for_text("#event-list li:first-child", "a checkpoint was committed")
    assert page.text("#event-list li:first-child time").endswith(" 23:13:20")


@pytest.mark.usefixtures("in_utc")
def test_the_time_of_a_run_that_has_ended_stands_still(page: Page, server: PageServer, run: SimulatedRun) -> None:
    run.state, run.reason, run.supervisor, run.wall_s = "finished", "the trainer finished at step 420", "gone", 95.0
    run.ended_at_s = START_S + 95.0
    page.open(server.address)
    page.wait_for_text("#figures", "the trainer finished at step 420")
    page.wait_for_text("#numbers dd", "95 s from ")
    took = page.text("#numbers dd").splitlines()[0]
    assert " 22:13:20 to " in took
    assert took.endswith(" 22:14:55")
    assert "gone: the run has ended" in page.text("#numbers")
    assert page.find("#numbers button") == []


def test_a_report_that_is_not_there_yet_is_a_sentence(page: Page, server: PageServer) -> None:
    page.open(server.address)
    page.wait_for_text("#incident-list", "report of incident 2")
    server.silent = True
    page.script("document.querySelector('#incident-2 a').click()")
    page.wait_for_text("#answer", "Report of incident 2: the server cannot be reached")
