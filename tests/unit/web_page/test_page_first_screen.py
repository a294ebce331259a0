"""What a person sees who was woken and opens the page on a phone of 360 x 800, before scrolling: what broke, whether it
trains, what follows, what to do."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.web_page.browser import Page
from tests.unit.web_page.page_server import PageServer
from tests.unit.web_page.simulated_run import SimulatedRun

PHONE, WIDE = (360, 800), (2560, 1300)
SEEN = """
const [words, bottom] = arguments;
const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
let said = '';
while (walk.nextNode()) {
  const range = document.createRange();
  range.selectNodeContents(walk.currentNode);
  const box = range.getBoundingClientRect();
  if (box.height > 0 && box.bottom <= bottom) said += walk.currentNode.data + '\\n';
}
return words.filter((one) => !said.includes(one));
"""
RUN = "/srv/runs/llama-70b-night"
APPROVE = [
    {"command": f"sentinel approve 3 {RUN}", "what": "take the rung that waits"},
    {"command": f"sentinel deny 3 {RUN}", "what": "pass it over"},
    {"command": f"sentinel ack 3 {RUN}", "what": "you have seen it: it is not repeated"},
]


def see(page: Page, server: PageServer, size: tuple[int, int], *words: str) -> None:
    """All of it stands on the first screen."""
    page.open(server.address, size, dark=True)
    page.wait_for_text("#banner", words[-1])
    assert page.script("return scrollY") == 0
    assert page.script(SEEN, list(words), size[1]) == [], "below the first screen, or nowhere"
    top = "return document.querySelector(arguments[0]).getBoundingClientRect().top"
    assert page.script(top, "#figures") < page.script(top, "#banner section") < page.script(top, "#numbers")


def wide_and_narrow() -> Any:
    return pytest.mark.parametrize("size", [PHONE, pytest.param(WIDE, marks=pytest.mark.slow)], ids=["phone", "wide"])


@wide_and_narrow()
def test_a_suspected_hang(page: Page, server: PageServer, run: SimulatedRun, size: tuple[int, int]) -> None:
    run.state, run.reason = "stalled", "no step for 70 s (a step takes 0.2 s)"
    believed = "it counts as a hang once all ranks have been silent for 2 min"
    following = [believed, "then rung 1, resume", "nothing is asked of you yet"]
    run.needs = {
        "head": "A hang is suspected", "tone": "warn", "incident": None, "cause": run.reason, "tried": "",
        "trains": "No step is being made.", "next": following, "answers": [],
    }  # fmt: skip
    see(page, server, size, "stalled", "step 420", "A hang is suspected", run.reason, "No step is being made.", *following)
    assert page.text("body").count(run.reason) == 1, "the same sentence twice is read twice"
    assert page.find("#banner section.warn")


@wide_and_narrow()
def test_a_rung_that_waits_for_approval(page: Page, server: PageServer, run: SimulatedRun, size: tuple[int, int]) -> None:
    run.break_down(3, "spike", "loss 5.645 against a level of 2.28, z 141.4 (limit 8)", awaits_approval=0)
    following = [
        "rung 1 of playbook numeric would: roll back to the checkpoint of step 75, before the onset; skip samples 1536..2256",
        "rung 1 waits for you; without an answer it is passed over in 22 min",
    ]
    run.standing = [{"incident": 3, "next": following, "answers": APPROVE}]
    server.can_act = False
    broke = ("training", "Incident 3: spike", "loss 5.645", "A person was paged; nobody has acknowledged.")
    see(page, server, size, *broke, *following, *(one["command"] for one in APPROVE))


def test_what_is_waited_for_is_the_first_button(page: Page, server: PageServer, run: SimulatedRun) -> None:
    run.break_down(3, "spike", "loss 5.645", awaits_approval=0)
    run.standing = [{"incident": 3, "next": ["rung 1 waits for you"], "answers": APPROVE}]
    see(page, server, PHONE, "rung 1 waits for you", "approve", "deny", "acknowledge")
    assert page.text("#banner button").split("\n") == ["approve", "deny", "acknowledge", "resolve"]


@wide_and_narrow()
def test_a_run_that_failed(page: Page, server: PageServer, run: SimulatedRun, size: tuple[int, int]) -> None:
    run.state, run.reason, run.supervisor = "failed", "rung 4 of playbook restart calls a person", "gone"
    run.break_down(3, "hang", "4 ranks are silent", state="exhausted", verdict=run.reason)
    again = f"sentinel run --policy demo --run-dir {RUN}"
    run.needs = {
        "head": "The run has failed", "tone": "bad", "incident": 3, "cause": "hang: 4 ranks are silent",
        "tried": "3 repairs were tried; the last failed: no heartbeat since launch", "trains": "Nothing of it trains now.",
        "next": ["the run has failed: nothing trains until you start it again"],
        "answers": [{"command": again, "what": "when the cause is mended: go on from the newest good checkpoint"}],
    }  # fmt: skip
    told = {"stands": "no repair is left", "next": run.needs["next"], "answers": run.needs["answers"]}
    run.standing = [{"incident": 3} | told]
    broke = ("failed", "hang: 4 ranks are silent", "no heartbeat since launch")
    see(page, server, size, *broke, "Nothing of it trains now.", "until you start", again)
    assert page.text("#status").count("calls a person") == 0, "the cause, and not the rung"
    assert page.text("#banner").count(again) == 1
    assert "no repair is left" in page.text("#banner h2")
    assert "exhausted" not in page.text("#banner"), "a word of our own"


def test_patience_asks_for_nothing(page: Page, server: PageServer, run: SimulatedRun) -> None:
    run.break_down(3, "spike", "loss 5.5 against a level of 2.105", severity="warning", pages=[])
    tried = "rung 1 (patience: wait up to 40 steps) is being tried"
    following = ["training goes on (attempt 3)", tried, "if that fails: rung 2, rollback"]
    run.standing = [{"incident": 3, "next": following, "answers": []}]
    server.can_act = False
    see(page, server, PHONE, "Sentinel is dealing with it; nobody was paged.", *following)
    assert "ack" not in page.text("#banner").split(), "nobody was called: there is nothing to acknowledge"


@pytest.mark.parametrize(
    ("supervisor", "words"),
    [("gone", "the supervisor is gone"), ("stuck", "the supervisor stands still"), ("unknown", "cannot be seen from here")],
)
def test_an_incident_that_nobody_deals_with_is_not_said_to_be_in_hand(
    page: Page, server: PageServer, run: SimulatedRun, supervisor: str, words: str
) -> None:
    run.break_down(3, "spike", "loss 5.5", severity="warning", pages=[])
    run.supervisor = supervisor
    page.open(server.address, PHONE, dark=True)
    page.wait_for_text("#banner", words)
    assert "dealing with it" not in page.text("#banner")


def test_the_corner_takes_one_row_of_a_phone(page: Page, server: PageServer, run: SimulatedRun) -> None:
    server.runs["other"] = SimulatedRun("other")
    server.can_act = False
    page.open(f"{server.address}/#run=demo", PHONE, dark=True)
    page.wait_for_text("#runs summary", "2 runs")
    page.wait_for_text("#access", "read-only")
    assert page.script("return document.querySelector('.top').getBoundingClientRect().height") < 60
    assert page.text(".brand, #access").split("\n")[-1] == "read-only"


def test_the_list_of_runs_says_why_and_who_is_waited_for(page: Page, server: PageServer, run: SimulatedRun) -> None:
    other = SimulatedRun("asks")
    other.break_down(3, "spike", "loss 5.645 against a level of 2.28", awaits_approval=0)
    server.runs[other.name] = other
    page.open(server.address, PHONE, dark=True)
    page.wait_for_text("#fleet", "waits for your approval")
    assert page.script(SEEN, ["loss 5.645 against a level of 2.28", "paged"], 800) == []


DISK = "disk: 3.1 GiB are free on /ckpt, the next save takes 4 GiB, and there will be no room in 40 min"
GPU = "hardware: GPU 1 (H100): slowed down: HW thermal"


def warn(run: SimulatedRun, incident: int | None = None) -> None:
    run.machine_warnings = [
        {"about": "disk", "words": DISK, "incident": incident}, {"about": "hardware", "words": GPU, "incident": None},
    ]  # fmt: skip


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize(
    "size", [PHONE, *(pytest.param(one, marks=pytest.mark.slow) for one in ((1280, 800), WIDE))], ids=["phone", "desk", "wide"]
)
def test_a_disk_that_fills_up_and_a_sick_gpu(
    page: Page, server: PageServer, run: SimulatedRun, size: tuple[int, int], dark: bool
) -> None:
    """On a phone the cards of the GPUs and of the detectors begin folded, far below."""
    warn(run)
    page.open(server.address, size, dark=dark)
    page.wait_for_text("#trouble", GPU)
    assert page.script(SEEN, ["training", "step 420", DISK, GPU], size[1]) == []
    wide = "return document.documentElement.scrollWidth <= innerWidth"
    assert page.script(wide), "nothing is cut off at the side"


def test_a_warning_leads_to_what_it_is_about(page: Page, server: PageServer, run: SimulatedRun) -> None:
    warn(run)
    page.open(server.address, PHONE, dark=True)
    page.wait_for_text("#trouble", GPU)
    page.click_on("#trouble a[href='#gpus-fold']")
    page.wait_for_text("#gpus-body", "HW thermal")


def test_a_warning_beside_a_suspected_hang_leaves_room_for_it(page: Page, server: PageServer, run: SimulatedRun) -> None:
    run.state, run.reason = "stalled", "no step for 70 s (a step takes 0.2 s)"
    following = ["it counts as a hang once all ranks have been silent for 2 min", "then rung 1, resume"]
    run.needs = {
        "head": "A hang is suspected", "tone": "warn", "incident": None, "cause": run.reason, "tried": "",
        "trains": "No step is being made.", "next": following, "answers": [],
    }  # fmt: skip
    warn(run)
    see(page, server, PHONE, DISK, GPU, "A hang is suspected", run.reason, "No step is being made.", *following)


def test_a_warning_that_is_the_first_card_is_not_said_twice(page: Page, server: PageServer, run: SimulatedRun) -> None:
    run.break_down(3, "disk_filling", "there will be no room in 40 min", severity="warning")
    run.standing = [{"incident": 3, "next": ["training goes on (attempt 3)"], "answers": []}]
    warn(run, incident=3)
    see(page, server, PHONE, GPU, "there will be no room in 40 min", "training goes on (attempt 3)")
    assert DISK not in page.text("#trouble")
    run.standing.append({"incident": 4, "next": ["a person is called"], "answers": []})
    run.break_down(4, "spike", "loss 5.6")
    page.wait_for_text("#trouble", DISK)
    assert page.find("#trouble a[href='#incident-3']"), "its card is the second, below the first screen"


def test_the_list_of_runs_says_who_watches_only_of_what_goes_on(page: Page, server: PageServer, run: SimulatedRun) -> None:
    """Of a run that has ended the supervisor is gone as it should be."""
    run.supervisor = "gone"
    over = SimulatedRun("over")
    over.state, over.supervisor = "failed", "gone"
    server.runs[over.name] = over
    page.open(server.address, PHONE, dark=True)
    page.wait_for_text("#fleet", "over")
    assert page.text("#fleet li").count("supervisor gone") == 1


def test_a_question_dies_with_the_run_it_was_asked_of(page: Page, server: PageServer, run: SimulatedRun) -> None:
    run.break_down(3, "spike", "loss 5.645", awaits_approval=0)
    run.standing = [{"incident": 3, "next": ["the run was stopped: nothing trains"], "answers": []}]
    run.state, run.supervisor = "stopped", "gone"
    see(page, server, PHONE, "loss 5.645", "the run was stopped: nothing trains")
    assert page.text("#banner button").split("\n") == ["acknowledge", "resolve"], "a rung that nobody will take"


def test_a_run_that_asks_for_nobody_says_so(page: Page, server: PageServer, run: SimulatedRun) -> None:
    """Who was woken by a spike that was repaired meanwhile has not to guess it from silence."""
    run.nothing_asked = "nothing is asked of you"
    page.open(server.address, PHONE, dark=True)
    page.wait_for_text("#figures", run.nothing_asked)
    assert page.script(SEEN, [run.state, run.nothing_asked], PHONE[1]) == []


def test_the_list_of_runs_says_that_nobody_deals_with_an_incident(page: Page, server: PageServer, run: SimulatedRun) -> None:
    run.break_down(3, "hang", "2 of 8 ranks are silent")
    run.state, run.supervisor, run.unwatched = "recovering", "gone", "Nobody watches this run: its supervisor is gone"
    server.runs["other"] = SimulatedRun("other")  # one run alone is shown whole
    page.open(server.address, PHONE, dark=True)
    page.wait_for_text("#fleet li strong", run.unwatched)
