"""A person answers from the page: with the token, after a second thought where it changes the run, and never without."""

from __future__ import annotations

import pytest
from selenium.webdriver.common.keys import Keys

from tests.unit.web_page.browser import Page
from tests.unit.web_page.page_server import TOKEN, PageServer
from tests.unit.web_page.simulated_run import SimulatedRun, remedy


def see_incident(page: Page, server: PageServer, run: SimulatedRun, **said: object) -> None:
    run.break_down(3, "divergence", "loss 4.2 has risen for 60 steps", **said)
    page.open(server.address)
    page.wait_for_text("#banner", "A person was paged; nobody has acknowledged.")


def enter_token(page: Page, token: str, who: str = "") -> None:
    page.until(lambda: page.find("#token[open]"), "the dialog for the token")
    page.one("#who-field").clear()
    page.one("#who-field").send_keys(who)
    page.one("#token-field").send_keys(token, Keys.ENTER)


def test_an_acknowledgement_needs_the_token_and_is_refused_with_a_wrong_one(
    page: Page, server: PageServer, run: SimulatedRun
) -> None:
    see_incident(page, server, run)
    page.click("acknowledge")
    enter_token(page, "not-the-token")
    page.wait_for_text("#answer", "Acknowledge incident 3: refused. the token is missing or is another one")
    assert server.asked == []
    page.click("acknowledge")
    enter_token(page, TOKEN, "Żaneta")
    page.wait_for_text("#answer", "Acknowledge incident 3: granted. acknowledge: noted")
    page.wait_for_text("#banner", "Acknowledged by Żaneta.")
    assert [verb for verb, _ in server.asked] == ["incidents/3/acknowledge"]
    assert page.text("#access") == "may act"
    assert TOKEN not in page.script("return document.documentElement.outerHTML + location.href + document.cookie")


def test_a_dialog_that_is_closed_asks_for_nothing(page: Page, server: PageServer, run: SimulatedRun) -> None:
    see_incident(page, server, run)
    page.click("acknowledge")
    page.until(lambda: page.find("#token[open]"), "the dialog for the token")
    page.press(Keys.ESCAPE)
    page.until(lambda: not page.find("#token[open]"), "the dialog closed")
    assert not page.find("#answer:not([hidden])")
    assert page.script("return document.activeElement.textContent") == "acknowledge", "the focus is back where it was"


def test_an_approval_is_asked_about_again_and_sent_once(page: Page, server: PageServer, run: SimulatedRun) -> None:
    waiting = remedy(0, ["rollback"], outcome="pending", chosen="roll back to step 400")
    see_incident(page, server, run, awaits_approval=0, remedies=[waiting])
    page.script(f"sessionStorage.setItem('sentinel-token', '{TOKEN}')")
    page.click("approve")
    page.wait_for_text("#ask-words", "Rung 1 (rollback: roll back to step 400) waits for approval. Sentinel carries it out")
    page.click("Cancel")
    page.until(lambda: not page.find("#ask[open]"), "the dialog closed")
    server.gate.clear()
    page.click("approve")
    page.click("Approve")
    page.until(lambda: page.find("[data-key=approve-3][disabled]"), "the button waiting")
    waiting_words = page.text("#answer")
    server.gate.set()
    assert waiting_words == "Approve: asking …"
    page.wait_for_text("#answer", "Approve incident 3: granted.")
    assert [verb for verb, _ in server.asked] == ["incidents/3/approve"]
    assert server.fields == [{"rung": 0}], "the one that was told of, whichever waits by now"
    page.until(lambda: page.find("[data-key=approve-3]:not([disabled])"), "the button again")


def test_pausing_remedies_is_asked_about_again_and_resuming_is_not(page: Page, server: PageServer, run: SimulatedRun) -> None:
    page.open(server.address)
    page.click("pause remedies")
    enter_token(page, TOKEN)
    page.wait_for_text("#ask-words", "Training of demo goes on and is watched; no remedy is carried out")
    page.click("Pause")
    page.wait_for_text("#figures .chip", "paused")
    page.click("resume remedies")
    page.wait_for_text("#figures .chip", "training")
    assert [verb for verb, _ in server.asked] == ["pause", "resume"]


@pytest.mark.parametrize(
    ("press", "fold", "names", "answer", "asked"),
    [
        ("[data-key=hold]", "more", "Sentinel stays; nothing trains until somebody resumes it.", "Hold", ("hold", {})),
        ("[data-key=stop]", "more", "trains it until somebody starts sentinel run again.", "Stop", ("stop", {})),
        ("[data-key=rollback-350]", "checkpoints-fold", "at or below step 350", "Roll back", ("rollback", {"to_step": 350})),
    ],
    ids=["hold", "stop", "roll back"],
)
def test_what_changes_the_run_says_what_will_happen_and_is_sent_once_it_is_confirmed(
    page: Page, server: PageServer, press: str, fold: str, names: str, answer: str, asked: tuple[str, dict[str, int]]
) -> None:
    page.open(server.address, (360, 800))
    page.script(f"sessionStorage.setItem('sentinel-token', '{TOKEN}')")
    unfold = "(document.getElementById(arguments[0]) ?? document.querySelector(`[data-key=${arguments[0]}]`)).open = true"
    page.wait_for_text("#numbers", "more")
    page.script(unfold, fold)
    page.click_on(press)
    page.wait_for_text("#ask-words", names)
    page.click("Cancel")
    page.until(lambda: not page.find("#ask[open]"), "the dialog closed")
    assert server.asked == [], "nothing was asked for"
    page.script(unfold, fold)
    page.click_on(press)
    page.click(answer)
    page.wait_for_text("#answer", "granted")
    assert [verb for verb, _ in server.asked] == [asked[0]]
    assert server.fields[-1].items() >= asked[1].items()


def test_a_server_without_a_token_shows_the_command_instead_of_buttons(page: Page, server: PageServer, run: SimulatedRun) -> None:
    server.can_act = False
    typed = [{"command": f"sentinel {verb} 3 /runs/demo", "what": "it is answered"} for verb in ("ack", "resolve")]
    run.standing = [{"incident": 3, "next": [], "answers": typed}]
    see_incident(page, server, run)
    page.wait_for_text("#banner", "This server takes no answers (it has no token). In a terminal:")
    assert page.text("#banner .commands code").split("\n") == ["sentinel ack 3 /runs/demo", "sentinel resolve 3 /runs/demo"]
    assert page.find("#banner button, #numbers button") == []
    assert page.text("#access") == "read-only: this server has no token"
    assert not page.find("#token-button:not([hidden])")


def test_a_server_that_shows_nothing_without_the_token_asks_for_it_once(page: Page, server: PageServer) -> None:
    server.needs_token = True
    page.open(server.address)
    enter_token(page, TOKEN)
    page.wait_for_text("#figures", "step 420 of 600")
    page.until(lambda: not page.find("#connection:not([hidden])"), "no complaint any more")
    assert not page.find("#token[open]")


def test_a_report_that_a_tab_without_the_token_would_not_get_is_saved(page: Page, server: PageServer) -> None:
    server.needs_token = True  # also on a loopback name: a server for the network is reached by it too
    page.open(server.address)
    enter_token(page, TOKEN)
    page.wait_for_text("#incident-list", "report of incident 2")
    page.click_on("#incident-2 a")
    page.wait_for_text("#answer", "incident-2.html was saved")
    assert len(page.chrome.window_handles) == 1


def test_the_token_can_be_entered_before_it_is_needed_and_forgotten_again(page: Page, server: PageServer) -> None:
    page.open(server.address)
    page.click("enter token")
    enter_token(page, TOKEN)
    page.wait_for_text("#access", "may act")
    page.click("forget token")
    page.wait_for_text("#access", "read-only")
    assert page.script("return sessionStorage.getItem('sentinel-token')") is None


def test_a_dialog_that_was_closed_does_not_come_back_by_itself(page: Page, server: PageServer) -> None:
    server.needs_token = True
    page.open(server.address)
    page.until(lambda: page.find("#token[open]"), "the dialog for the token")
    page.press(Keys.ESCAPE)
    asked = len(server.paths)
    page.until(lambda: len(server.paths) > asked + 1, "two more rounds")
    assert not page.find("#token[open]")
    page.click("enter token")
    enter_token(page, TOKEN)
    page.wait_for_text("#figures", "step 420 of 600")


def test_who_stands_by_is_named_with_its_machine(page: Page, server: PageServer, run: SimulatedRun) -> None:
    run.standbys = [
        {"host": "n2", "pid": 7, "lacks": "", "silent_s": None}, {"host": "n3", "pid": 8, "lacks": "no agent", "silent_s": 90.0},
    ]  # fmt: skip
    page.open(server.address)
    page.wait_for_text("#numbers", "standby\nn2; n3, not heard of lately: no agent")


def test_a_supervisor_that_is_gone_is_said_and_cannot_be_paused(page: Page, server: PageServer, run: SimulatedRun) -> None:
    run.supervisor = "gone"
    page.open(server.address)
    page.wait_for_text("#numbers", "supervisor\ngone")
    assert page.find("#numbers button") == []


def test_a_step_that_is_overdue_is_said_with_the_silence_of_each_rank(page: Page, server: PageServer, run: SimulatedRun) -> None:
    run.state, run.reason = "stalled", "no step for 70 s (a step takes 0.2 s)"
    silent = {"step": 41, "phase": "data", "host": "a"}
    run.ranks = [{"rank": rank, "silent_s": 60.0 + rank, **silent} for rank in range(10)]
    page.open(server.address)
    page.wait_for_text("#figures", "no step for 70 s (a step takes 0.2 s)")
    page.wait_for_text("#numbers", "rank 9 silent for 69 s (step 41, data), rank 8 silent for 68 s")
    page.wait_for_text("#numbers", "and 2 more")


def test_the_header_says_what_the_run_costs_and_when_it_ends(page: Page, server: PageServer) -> None:
    page.open(server.address)
    page.wait_for_text("#numbers", "cost\n51,234 GPU hours, 128,086 USD\nlost of it\n1,123 GPU hours, 2,808 USD")
    page.wait_for_text("#numbers", "until its end\n0.10 GPU hours, 0.25 USD more")
    page.wait_for_text("#numbers", "end\nin 10 days 10 h (9 days 6 h to 15 days 15 h), ")


LINES = """
const line = parseFloat(getComputedStyle(document.querySelector('#numbers dd')).lineHeight);
return Object.fromEntries([...document.querySelectorAll('#numbers .figures > div')].map((cell) => [
  cell.querySelector('dt').textContent, Math.round(cell.querySelector('dd').getBoundingClientRect().height / line)]));
"""


def test_a_figure_is_a_line_of_a_phone_and_the_end_two(page: Page, server: PageServer) -> None:
    page.open(server.address, (360, 800))
    page.wait_for_text("#numbers", "until its end")
    lines = page.script(LINES)
    assert lines.pop("end") <= 2
    assert set(lines) >= {"cost", "lost of it", "until its end", "time"}
    assert set(lines.values()) == {1}


def test_an_incident_says_what_it_cost(page: Page, server: PageServer, run: SimulatedRun) -> None:
    run.incidents[-1]["cost_words"] = "10.0 s, 0.02 GPU hours, 0.08 USD"
    page.open(server.address)
    page.wait_for_text("#incident-2", "34 steps lost · cost 10.0 s, 0.02 GPU hours, 0.08 USD")
