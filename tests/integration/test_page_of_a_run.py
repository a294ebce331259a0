"""The page of a run while it is supervised: a real `sentinel run` with a real trainer, looked at and asked over HTTP."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from tests.integration.forked_sentinel import run_sentinel
from tests.integration.supervised import Supervised, double, wait_for

TOKEN = "a-token-for-this-test-only"


class Page:
    def __init__(self, run: Supervised) -> None:
        (self.url,) = wait_for("the address", lambda: re.findall(r"^page: (http://\S+/)", run.log, re.MULTILINE))

    def get(self, path: str) -> Any:
        with urllib.request.urlopen(f"{self.url}{path}", timeout=30) as answer:
            return json.loads(answer.read())

    def post(self, path: str, token: str = TOKEN) -> tuple[int, Any]:
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {token}", "X-Sentinel-Who": "night shift"}
        request = urllib.request.Request(f"{self.url}{path}", b"{}", headers, method="POST")
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return answer.status, json.loads(answer.read())
        except urllib.error.HTTPError as refused:
            return refused.code, json.loads(refused.read())

    def answer(self, path: str) -> bool:
        """Whether it was granted, also where a busy machine answers late: then it is asked once more."""
        return bool(wait_for("an answer", lambda: (said := self.post(path))[0] == 200 and [said[1]["granted"]])[0])

    def status(self) -> Any:
        return self.get("api/runs/run")


def with_token(tmp_path: Path) -> list[str]:
    file = tmp_path / "token"
    file.write_text(TOKEN)
    file.chmod(0o600)
    return ["--listen", "127.0.0.1:0", "--token-file", str(file)]


def test_a_person_watches_a_run_and_pauses_it_from_the_page(tmp_path: Path) -> None:
    run = Supervised(tmp_path / "run", double(20_000, 0.01, kill=120), options=with_token(tmp_path)).start()
    page = Page(run)
    wait_for("an incident on the page", lambda: page.get("api/runs/run/incidents"))
    wait_for("the second attempt", lambda: page.status()["attempt"] == 2 and page.status()["newest"])
    first = wait_for(
        "both curves", lambda: len((said := page.get("api/runs/run/curves?metrics=loss"))["curves"]["loss"]) == 2 and said
    )
    cursor = first["cursor"]

    def news() -> Any:
        nonlocal cursor
        said = page.get(f"api/runs/run/curves?metrics=loss&since={cursor}")
        cursor = said["cursor"]
        return said if said["curves"] and not said["whole"] else None

    more = wait_for("new steps", news)
    assert set(more["curves"]["loss"]) == {"2"}, "of the attempt that lives"
    assert [a["is_over"] for a in more["attempts"]] == [True, False]

    with urllib.request.urlopen(f"{page.url}metrics", timeout=30) as answer:
        assert b'\nsentinel_attempt{run="run"} 2' in answer.read(), "for Prometheus, on the same port"

    assert page.post("api/runs/run/pause", "wrong")[0] == 401
    assert page.answer("api/runs/run/pause") is True
    wait_for("the pause", lambda: page.status()["state"] == "paused")
    assert page.answer("api/runs/run/incidents/1/approve") is False
    assert page.answer("api/runs/run/resume") is True
    wait_for("its end", lambda: page.status()["state"] != "paused")
    told = [event["text"] for event in page.get("api/runs/run/events")["events"]]
    assert any(text.startswith("night shift (browser at 127.0.0.1) asked to pause: granted") for text in told)
    assert TOKEN not in run.log

    (run.run_dir / "sentinel.db").rename(tmp_path / "aside")
    assert run.wait() == 1, "as without a page: it leaves, and training is left as it is"
    assert "journal" in run.log
    (tmp_path / "aside").rename(run.run_dir / "sentinel.db")
    done = run_sentinel("stop", str(run.run_dir), deadline_s=90)
    assert done.returncode == 0, done.stderr
    assert not run.living()


def test_supervisors_side_by_side_do_not_quarrel_about_the_usual_address(tmp_path: Path) -> None:
    runs = []
    for name in ("one", "two"):
        words = [
            sys.executable,
            "-m",
            "sentinel",
            "run",
            "--run-dir",
            str(tmp_path / name),
            "--policy",
            "demo",
            "--",
            *double(60),
        ]
        runs.append(subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True))
    said = [run.communicate(timeout=90)[1] for run in runs]
    assert [run.returncode for run in runs] == [0, 0], said
    shown = [text for text in said if "page: http://127.0.0.1:9464/" in text]
    missed = [
        text for text in said if "no page in the browser for this run: --listen 127.0.0.1:9464: another program listens" in text
    ]
    assert len(shown) <= 1
    assert len(shown) + len(missed) == 2


def test_a_person_sees_ranks_checkpoints_and_logs_on_the_page_and_stops_the_run_there(tmp_path: Path) -> None:
    run = Supervised(tmp_path / "run", double(20_000, 0.01), options=with_token(tmp_path)).start()
    page = Page(run)
    beat = wait_for("a heartbeat", lambda: page.get("api/runs/run/machines")["ranks"]["ranks"])[0]
    assert (beat["rank"], beat["tone"], beat["blamed"]) == (0, "", False)
    wait_for("a word on the GPUs", lambda: page.get("api/runs/run/machines")["gpus"]["age_s"] is not None)
    gpus = page.get("api/runs/run/machines")["gpus"]
    assert gpus["gpus"] or "nobody looks" not in gpus["missing"], "the supervisor writes down what it sees"
    kept = wait_for("a checkpoint", lambda: page.get("api/runs/run/checkpoints")["checkpoints"])
    assert kept[0]["trust"] in ("candidate", "verified", "proven")
    assert page.get("api/runs/run/log")["attempt"] == 1
    status, said = page.post("api/runs/run/stop")
    assert (status, said["granted"]) == (202, None)
    assert run.wait() == 130, "as after the command"
    assert "run stopped: stopped by SIGTERM" in run.log
    events = run_sentinel("events", str(run.run_dir))
    assert "night shift (browser at 127.0.0.1)" in events.stdout
    assert "asked from the page to stop the run after a checkpoint" in events.stdout
    assert not run.living()
