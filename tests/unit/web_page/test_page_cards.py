"""The cards below the curves: ranks, GPUs, checkpoints and logs, folded on a phone, red where a hang is, with their acts."""

from __future__ import annotations

from selenium.webdriver.common.keys import Keys

from tests.unit.web_page.browser import PHONE, Page
from tests.unit.web_page.page_server import TOKEN, PageServer
from tests.unit.web_page.simulated_run import SimulatedRun


def hang(run: SimulatedRun) -> None:
    """Rank 3 has stood still since step 420, and the others wait for it."""
    run.state, run.reason = "stalled", "no step for 70 s (a step takes 0.2 s)"
    run.suspected = run.reason
    run.beats = [
        {"rank": rank, "step": run.step, "phase": "forward" if rank == 3 else "all_reduce", "silent_s": 70.0, "host": "node-1"}
        | ({"blamed": True, "tone": "bad"} if rank == 3 else {"blamed": False, "tone": "warn"})
        for rank in (3, 0, 1, 2, 4, 5, 6, 7)
    ]


def test_the_cards_tell_what_the_terminal_tells(page: Page, server: PageServer) -> None:
    page.open(server.address)
    page.wait_for_text("#ranks-head", "8: 8 forward; step 420")
    page.wait_for_text("#ranks-body tbody tr:first-child", "node-1")
    page.wait_for_text("#gpus-head", "2, up to 91 °C, 1 in trouble")
    page.wait_for_text("#gpus-body tr.warn", "slowed down: HW thermal")
    page.wait_for_text("#checkpoints-head", "3, newest of step 400: candidate")
    page.wait_for_text("#checkpoints-body", "Mirrored to s3://bucket/demo: step 350; behind for 42 s.")
    page.wait_for_text("#checkpoints-body tbody tr:nth-child(2)", "1.5 GiB")
    assert not page.find("#ranks-body tr.warn, #ranks-body tr.bad"), "a silence has no colour while nothing is suspected"
    assert not any(path.endswith("/log") for path in server.paths), "a folded log is not asked for"
    page.click_on("#log-fold summary")
    page.wait_for_text("#log-body pre[aria-label^='Log of rank 3 (blamed)']", "<b>File</b> train.py")


def test_a_rank_that_hangs_is_red_on_a_phone_and_its_card_opens(page: Page, server: PageServer, run: SimulatedRun) -> None:
    page.open(server.address, PHONE)
    page.wait_for_text("#ranks-head", "8 forward")
    assert not page.find("details.fold[open]"), "a phone shows their titles only"
    hang(run)
    page.wait_for_text("#ranks-body tr.bad", "silent for 70 s")
    page.wait_for_text("#ranks-body tr.bad", "blamed")
    assert len(page.find("#ranks-body tr.warn")) == 7
    page.wait_for_text("#ranks-body", "A hang is suspected: no step for 70 s")


def test_what_was_folded_stays_so(page: Page, server: PageServer) -> None:
    page.open(server.address)
    page.wait_for_text("#ranks-head", "8 forward")
    page.click_on("#ranks-fold summary")
    page.until(lambda: "false" in str(page.script("return sessionStorage.getItem('sentinel-folded')")), "the choice kept")
    page.chrome.refresh()
    page.wait_for_text("#ranks-head", "8 forward")
    assert not page.find("#ranks-fold[open]")
    assert page.find("#checkpoints-fold[open]")


def test_a_log_shows_its_end_and_leaves_who_reads_further_up_where_they_are(
    page: Page, server: PageServer, run: SimulatedRun
) -> None:
    run.printed = 200
    page.open(server.address)
    page.click_on("#log-fold summary")
    page.wait_for_text("#log-body", "step 199")
    log = "document.querySelector('#log-body pre[data-log$=\"rank-3.err\"]')"
    assert page.script(f"const log = {log}; return log.scrollTop + log.clientHeight >= log.scrollHeight - 4"), "its end"
    page.script(f"{log}.scrollTop = 100")
    run.printed = 230
    page.wait_for_text("#log-body", "step 229")
    assert page.script(f"return {log}.scrollTop") == 100


def test_a_rollback_names_what_will_happen_and_says_the_step(page: Page, server: PageServer) -> None:
    page.open(server.address)
    page.script(f"sessionStorage.setItem('sentinel-token', '{TOKEN}')")
    page.click_on("[data-key='rollback-350']")
    page.wait_for_text("#ask-words", "starts from the newest good checkpoint at or below step 350")
    page.wait_for_text("#ask-words", "(70 steps or more) is thrown away")
    page.click("Cancel")
    page.until(lambda: not page.find("#ask[open]"), "the dialog closed")
    assert server.asked == []
    page.click_on("[data-key='rollback-350']")
    page.click("Roll back")
    page.wait_for_text("#answer", "Rollback: granted.")
    assert (server.asked[0][0], server.fields[0]) == ("rollback", {"to_step": 350})


def test_holding_and_stopping_say_what_they_do(page: Page, server: PageServer) -> None:
    page.open(server.address)
    page.script(f"sessionStorage.setItem('sentinel-token', '{TOKEN}')")
    acts = (("hold training", "Hold", "until somebody resumes it"), ("stop the run", "Stop", "Sentinel leaves"))
    for words, verb, said in acts:
        page.click_on(".more summary")
        page.click(words)
        page.wait_for_text("#ask-words", said)
        page.click(verb)
        page.wait_for_text("#answer", f"{verb}: granted.")
        page.press(Keys.ESCAPE)
    assert [verb for verb, _ in server.asked] == ["hold", "stop"]


def test_nothing_can_be_rolled_back_where_nobody_may_act(page: Page, server: PageServer) -> None:
    server.can_act = False
    page.open(server.address)
    page.wait_for_text("#checkpoints-head", "newest of step 400")
    assert not page.find("[data-key^='rollback-'], .more")


def test_what_the_rules_author_wrote_stands_at_the_incident(page: Page, server: PageServer, run: SimulatedRun) -> None:
    found = run.break_down(3, "divergence", "loss 4.2 has risen for 60 steps")
    found |= {"notes": ["Look at the <b>data</b> first"], "runbook": "https://wiki/spikes", "labels": {"team": "data"}}
    page.open(server.address)
    page.wait_for_text("#banner .note", "Look at the <b>data</b> first")
    page.wait_for_text("#incident-3", "team: data")
    assert page.one("#incident-3 a[href^='https']").get_attribute("href") == "https://wiki/spikes"
    found["runbook"] = "javascript:alert(1)"
    run.tell("changed", "plain")
    page.until(lambda: page.text("#incident-3 code") == "javascript:alert(1)", "an address of another kind is no link")
