"""One file tells a run or an incident: self-contained, safe whoever wrote what is in it, and never large."""

from __future__ import annotations

import re
import shutil
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sentinel.cli.root import app
from sentinel.client.run_layout import HEAD_NAME, JOURNAL_NAME, LEASE_NAME, attempts_folder
from sentinel.errors import UsageError
from sentinel.model import actions as a
from sentinel.model import facts as f
from sentinel.model import operator_requests as w
from sentinel.model.attempts import ResumePoint, SampleRange, SettingsInForce
from sentinel.model.findings import Finding, Kind
from sentinel.model.incidents import Band, Incident, IncidentState, Outcome, Remedy
from sentinel.model.price import Price
from sentinel.model.records import Attribution
from sentinel.report.html import evidence
from sentinel.report.html import page as templates
from sentinel.report.html.collected import collect
from sentinel.report.html.curves import RUN_ATTEMPTS_MAX, RUN_BYTES_MAX, bytes_of_each
from sentinel.report.html.story import story
from sentinel.report.html.writing import incident_report, report_command, run_report
from tests.sim.kit import simulate
from tests.unit.report.streamed_run import add_facts, write_steps, write_streamed
from tests.unit.told_run import at, told_on_gpus, write_run

HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)>\"'&{{7*7}}\x1b[31m\u202e"
SIZE_MAX = 3 << 20
VOID = {"meta", "br", "hr", "rect", "polyline", "line"}


class Read(HTMLParser):
    """Tags and attributes; that every tag is closed; the words between."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: list[tuple[str, str]] = []
        self.words: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += [(name, value or "") for name, value in attrs]
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += [(name, value or "") for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


def check_self_contained(text: str) -> Read:
    read = Read(text)
    assert not read.tags & {"script", "img", "iframe", "object", "embed", "link", "base", "form"}
    for name, value in read.attributes:
        assert name not in ("src", "href", "action", "srcset"), (name, value)
        assert not name.startswith("on"), (name, value)
    assert not re.search(r"url\(|@import", text)
    return read


def test_an_incident_is_told_whole(tmp_path: Path) -> None:
    run_dir = write_streamed(tmp_path / "demo")
    page = a.SendPage("page/2/1/trigger/ops", 2, "critical", "demo: spike since step 379", "the case", "trigger", "ops")
    late = a.SendPage("page/2/1/resolve/ops", 2, "critical", "demo: spike is over", "over", "resolve", "ops")
    add_facts(
        run_dir,
        [
            (151, f.ActionDecided(page)),
            (152, f.ActionConfirmed(page.key, "202 accepted")),
            (153, f.RequestAnswered("1", "anna", w.Acknowledge(2), True, "incident 2 is acknowledged")),
            (154, f.ActionDecided(late)),
            (155, f.ActionAbandoned(late.key, "the key is wrong")),
        ],
    )
    logs = run_dir / "incidents/0002/attempt-0002/logs"
    logs.mkdir(parents=True)
    (logs / "rank-00001.log").write_text("Traceback (most recent call last)\nNCCL error\n")
    text = incident_report(run_dir, 2)
    read = check_self_contained(text)
    for expected in (
        "Incident 2: spike since step 379", "loss 8.6 over 2.2", "New ground was made 14 s after the fault showed",
        "34 steps trained again", "roll back to step 350; skip samples", "above its band for 4 steps",
        "RECOVERED: loss within 2%", "5984..6720", "202 accepted", "not delivered: the key is wrong", "anna", "NCCL error",
        "GPU hours are not known: the trainer does not say",
        "finding spike (warning)", "plan: end every process of attempt 2; then start attempt 3",
    ):  # fmt: skip
        assert expected in read.text, expected
    assert "incident 1 " not in read.text, "what another incident is about stands in its own report"
    for metric in ("loss", "grad_norm", "lr"):
        assert f'aria-label="{metric} from step ' in text
    assert re.search(r'class="line cut" points="[\d., ]+"', text), "the abandoned branch is drawn as such"
    for mark in ("onset", "seen", "remedy"):
        assert f'<line class="{mark}"' in text


def test_a_run_is_told_with_all_its_incidents(tmp_path: Path) -> None:
    run_dir = write_streamed(tmp_path / "demo")
    text = run_report(run_dir)
    read = check_self_contained(text)
    for expected in ("Run demo", "2 spike recovered", "1 crash recovered", "Goodput", "step 350 of attempt 2", "up to 350"):
        assert expected in read.text, expected
    assert text.count("<details") == 2
    assert "GPU hours are unknown: the trainer does not say how many it trains on" in read.text


def test_what_it_cost_is_told_in_gpu_hours_and_money(tmp_path: Path) -> None:
    facts = told_on_gpus(8, Price(3.6, "USD"))
    run_dir = write_streamed(tmp_path / "demo", facts=facts)
    whole, one = check_self_contained(run_report(run_dir)).text, check_self_contained(incident_report(run_dir, 1)).text
    assert "Cost: 0.33 GPU hours, 1.20 USD, lost of it 0.07 GPU hours, 0.24 USD." in whole
    assert "10 s of training lost: 0.02 GPU hours, 0.08 USD; 32 steps trained again." in one


def test_an_attempt_has_one_colour_in_every_plot_and_in_the_key(tmp_path: Path) -> None:
    run_dir = write_streamed(tmp_path / "demo")
    for attempt, steps in ((2, range(101, 385)), (3, range(351, 601))):
        write_steps(run_dir, attempt, steps, loss_scale=1024.0)  # which attempt 1 does not tell
    write_steps(run_dir, 3, range(351, 601), loss_scale=1024.0, activation_norm=7.0)
    text = run_report(run_dir)
    key = dict(re.findall(r'<i class="(c\d)"></i>attempt (\d)<', text))
    assert key == {"c0": "1", "c1": "2", "c2": "3"}
    colours = {
        name: set(re.findall(r'class="line (c\d)"', text.partition(f'aria-label="{name} ')[2].partition("</svg>")[0]))
        for name in ("loss", "loss_scale", "activation_norm")
    }
    assert colours == {"loss": {"c0", "c1", "c2"}, "loss_scale": {"c1", "c2"}, "activation_norm": {"c2"}}


def test_a_run_of_which_nothing_is_left_but_the_journal_is_told_too(tmp_path: Path) -> None:
    run_dir = write_run(tmp_path / "demo", until=91)
    assert "show nothing around the onset" in incident_report(run_dir, 2)
    assert "How it stands now: open" in check_self_contained(incident_report(run_dir, 2)).text
    assert "No step was reported" in run_report(run_dir)
    with pytest.raises(UsageError, match="nothing is recorded yet"):
        run_report(write_run(tmp_path / "young", until=-1))


def test_whoever_writes_html_into_a_run_is_only_quoted(tmp_path: Path) -> None:
    run_dir = write_run(tmp_path / "demo", until=80)
    band = Band("loss", 2.2, 0.1, 40)
    incident = Incident(
        2, Kind.SPIKE, "warning", HOSTILE, "numeric", 2, 379, 380, 380, at(90), at(90.2), HOSTILE, value=HOSTILE,
        baseline=HOSTILE, blamed_rank=1, blamed_node=HOSTILE, band=band,
    )  # fmt: skip
    finding = Finding(Kind.SPIKE, "warning", 2, 379, 380, at(90), HOSTILE, HOSTILE, 8.6, 2.2)
    rung = Remedy(0, (HOSTILE,), HOSTILE, effect=HOSTILE)
    add_facts(
        run_dir,
        [
            (90.2, f.FindingRecorded(finding, 2, HOSTILE)),
            (90.2, f.IncidentOpened(incident)),
            (90.3, f.Noted(HOSTILE, HOSTILE)),
            (91, f.RungTaken(2, rung, True, 384)),
            (91, f.RungJudged(2, Outcome.FAILED, HOSTILE)),
            (91, f.ActionDecided(a.SendPage("page/2/1", 2, "critical", HOSTILE, HOSTILE, "trigger", HOSTILE))),
            (91, f.RequestAnswered("1", HOSTILE, w.Acknowledge(2), True, HOSTILE)),
            (91, f.AttemptLaunched(3, None, SettingsInForce(), HOSTILE)),
            (91, f.AttemptEnded(3, "crashed", HOSTILE, 384, at(90.9))),
            (91, f.RunEnded("failed", HOSTILE)),
        ],
    )
    write_steps(run_dir, 2, range(101, 385), spike=379, **{HOSTILE: 5.0})
    logs = run_dir / "incidents/0002/attempt-0002/logs"
    logs.mkdir(parents=True)
    (logs / "<img src=x onerror=alert(3)>.log").write_text(HOSTILE + "\n--hf-token hf_abcdefghijklmnopqrstuv\n")
    for text in (incident_report(run_dir, 2), run_report(run_dir)):
        read = check_self_contained(text)
        assert "<script>alert(1)</script>" in read.text, "it is quoted"
        assert "49" not in re.findall(r"&\{\{7\*7\}\}|&49", read.text), "no template in a value is carried out"
        assert "{{7*7}}" in read.text
        assert not re.search(r"[\x00-\x09\x0b-\x1f\u202e]", text)
        assert "hf_abc" not in text


def forget(run_dir: Path) -> None:
    """The journal is written anew, with all that would tell that it had been another."""
    for name in (JOURNAL_NAME, HEAD_NAME, LEASE_NAME):
        (run_dir / name).unlink(missing_ok=True)
    shutil.rmtree(attempts_folder(run_dir), ignore_errors=True)


def test_secrets_of_the_command_line_and_the_logs_are_masked(tmp_path: Path) -> None:
    run_dir = write_run(tmp_path / "demo", until=0)
    forget(run_dir)
    command = ("python", "train.py", "--wandb-key", "abc123secret", "--db=postgres://me:hunter2@host/x")
    created = f.RunCreated("demo", command, "/", "demo", "d" * 64, False)
    add_facts(run_dir, [(0, created), (1, f.AttemptLaunched(1, None, SettingsInForce(), "x"))])
    text = run_report(run_dir)
    assert "train.py" in text
    for secret in ("abc123secret", "hunter2"):
        assert secret not in text


def test_no_template_lets_a_value_through_unescaped() -> None:
    """The drawings are made of numbers and of class names of ours; nothing else is said to be safe."""
    found = [
        (path.name, match)
        for path in sorted(templates.TEMPLATES.iterdir())
        for match in re.findall(r"\{\{[^}]*\bsafe\b[^}]*\}\}|autoescape", path.read_text(encoding="utf-8"))
    ]
    assert found == [("parts.html", "{{ panel.svg|safe }}")]


def test_guilty_samples_are_listed_with_where_they_lie_and_their_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_dir = write_streamed(tmp_path / "demo")
    add_facts(run_dir, [(150.5, f.InspectionLaunched(2, 4))])
    folder = run_dir / "attempts/0004"
    folder.mkdir(parents=True)
    lines = ['{"kind": "start", "resume_step": 350}']
    for index in range(5950, 6050):
        loss = 9.5 if index == 6001 else 2.2 + index % 5 / 100
        place = f'"shard": "books-07.bin", "offset": {index * 128}'
        lines.append(f'{{"kind": "sample", "index": {index}, "loss": {loss}, "grad_norm": 0.5, {place}}}')
    (folder / "samples.jsonl").write_text("\n".join([*lines, '{"kind": "end", "samples": 100}']) + "\n")
    found = Attribution("guilty", "sample 6001 stands out", 4, SampleRange(5984, 6040), (SampleRange(6001, 6002),), 1, 100)
    add_facts(run_dir, [(151, f.Attributed(2, 1, found))])
    text = check_self_contained(incident_report(run_dir, 2)).text
    assert "sample 6001 stands out" in text
    assert "6001 9.5 0.5" in text
    assert f"books-07.bin at {6001 * 128}" in text
    assert "python -m trainer.show" in text
    monkeypatch.setattr(evidence, "show_sample", lambda run_dir, argv, cwd, attempt, sample: f"{attempt}/{sample} {HOSTILE}")
    shown = check_self_contained(incident_report(run_dir, 2, with_texts=True)).text
    assert "4/6001 <script>alert(1)</script>" in shown, "quoted"
    assert "python -m trainer.show" not in shown
    (folder / "samples.jsonl").unlink()
    assert "cannot be read any more" in incident_report(run_dir, 2)


def test_a_thousand_attempts_and_five_hundred_incidents_fit(tmp_path: Path) -> None:
    run_dir = write_run(tmp_path / "demo", until=24)
    facts: list[f.Fact] = []
    resume_words = "resume from the newest checkpoint " * 20
    for number in range(1, 501):
        attempt = 2 * number
        resume = ResumePoint(100 * number, f"checkpoints/step-{100 * number:08d}", "aa")
        crash = Incident(
            number, Kind.CRASH, "critical", "Crash", "restart", attempt - 1, None, 100 * number, 100 * number, at(24 + number),
            at(24.5 + number), f"rank 1 was killed: {'why ' * 100}",
        )  # fmt: skip
        facts += [
            f.AttemptEnded(attempt - 1, "crashed", "rank 1 was killed " * 20, 100 * number + 5, at(24 + number)),
            f.IncidentOpened(crash),
            *[f.RungTaken(number, Remedy(rung, ("resume",), resume_words, 100), True, 9) for rung in range(4)],
            f.AttemptLaunched(attempt, resume, SettingsInForce(), "resume " * 30),
            f.AttemptLaunched(attempt + 1, resume, SettingsInForce(), "resume " * 30),
            f.IncidentMoved(number, IncidentState.PROBATION, "the remedy is launched"),
            f.IncidentMoved(number, IncidentState.RECOVERED, "60 steps past the break " * 20),
        ]
    add_facts(run_dir, [(600.0, fact) for fact in facts])
    text = run_report(run_dir)
    assert len(text.encode()) < SIZE_MAX
    assert text.count("<details") == 500
    assert len(incident_report(run_dir, 250).encode()) < SIZE_MAX


def test_a_simulated_run_that_runs_out_of_remedies_is_told(tmp_path: Path) -> None:
    result = simulate("nan_state@step=39:always")
    (exhausted,) = [one for one in result.state.incidents if one.state is IncidentState.EXHAUSTED][:1]
    run_dir = write_run(tmp_path / "demo", until=-1)
    forget(run_dir)
    add_facts(run_dir, [(entry.at_s - at(0), entry.fact) for entry in result.entries])
    text = check_self_contained(incident_report(run_dir, exhausted.id)).text
    assert "Sentinel ran out of remedies and called a person" in text
    assert exhausted.page is not None
    seen = replace(exhausted, page=replace(exhausted.page, resolved="a person says so", resolved_by="ada", resolved_s=at(900)))
    assert story(seen, result.state)[-1].endswith("Its page was resolved by ada: a person says so.")
    for one in exhausted.tries:
        assert " ".join(one.reason.split()) in text
    assert "Nobody was paged" not in text
    check_self_contained(run_report(run_dir))


def test_what_a_person_gets_wrong_is_said(tmp_path: Path) -> None:
    run_dir = write_run(tmp_path / "demo")
    with pytest.raises(UsageError, match=r"no incident 7 \(there are: 1, 2\)"):
        report_command(run_dir, 7, None)
    with pytest.raises(UsageError, match="no such directory"):
        report_command(tmp_path / "nowhere", None, None)
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="name another place with --out"):
        report_command(run_dir, None, tmp_path / "file" / "report.html")


def test_the_command_says_where_it_wrote(tmp_path: Path) -> None:
    run_dir = write_streamed(tmp_path / "demo")
    done = CliRunner().invoke(app, ["report", str(run_dir), "2", "--out", str(tmp_path / "two.html")])
    assert (done.exit_code, done.stdout) == (0, f"{tmp_path / 'two.html'}\n")
    assert "Incident 2" in (tmp_path / "two.html").read_text()


def test_the_files_lie_where_the_page_says(tmp_path: Path) -> None:
    run_dir = write_streamed(tmp_path / "demo")
    assert report_command(run_dir, None, None) == run_dir / "report.html"
    assert report_command(run_dir, 2, None) == run_dir / "incidents/0002/report.html"
    out = tmp_path / "elsewhere" / "x.html"
    assert report_command(run_dir, 1, out) == out
    assert out.read_text().startswith("<!doctype html>")


def test_a_picture_of_many_attempts_reads_less_of_each_and_less_of_all() -> None:
    """Sixty-four streams of a million steps took four seconds to read and draw."""
    whole = [attempts * bytes_of_each(attempts) for attempts in (1, 8, 16, RUN_ATTEMPTS_MAX)]
    assert whole[:2] == [RUN_BYTES_MAX, RUN_BYTES_MAX]
    assert whole[3] < whole[2] < RUN_BYTES_MAX
    assert bytes_of_each(RUN_ATTEMPTS_MAX) > 100 * 250, "a hundred rows of each"


def test_the_report_of_one_incident_computes_no_ledger_of_the_others(tmp_path: Path) -> None:
    """Of a run of 500 incidents that was a thousand ledgers, and a third of its time."""
    run_dir = write_run(tmp_path / "run")
    assert set(collect(run_dir, (2,)).stretches) == {2}
    assert set(collect(run_dir).stretches) == {1, 2}
