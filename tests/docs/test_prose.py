"""What the pages promise: every command, link, room, contract and runbook section they name is there."""

from __future__ import annotations

import dataclasses
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import typer

from sentinel.channels.registry import ROWS
from sentinel.channels.row import ChannelRow
from sentinel.cli.root import app
from sentinel.detectors.registry import DETECTORS, KINDS, RULED_KINDS, DetectorRow
from sentinel.launcher.registry import LAUNCHERS, LauncherRow
from sentinel.policy.expr import parse_expression
from sentinel.policy.expr_tree import FUNCTIONS, VARIABLES
from sentinel.policy.schema_paging import RouteSettings
from sentinel.policy_files.loading import load_policy, shipped_policies, shipped_policy_path
from sentinel.sim.cases import run_case_files

ROOT = Path(__file__).resolve().parents[2]
PAGES = (
    "README.md", "ARCHITECTURE.md", "CHANGELOG.md", "deploy/RUNBOOK.md", "policies/README.md", "sentinel/client/PROTOCOL.md",
    "sentinel/web/README.md", "sentinel/detectors/README.md", "sentinel/replay/README.md", "CONTRIBUTING.md",
)  # fmt: skip
PAGES += ("deploy/README.md", "deploy/prometheus/METRICS.md", "cuda_ext/README.md", "cuda_ext/LOG.md")
PAGES += tuple(path.relative_to(ROOT).as_posix() for path in sorted((ROOT / "docs").rglob("*.md")))


@pytest.mark.parametrize("page", PAGES)
def test_every_link_of_a_page_leads_somewhere(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#\s]+)", text):
        if not target.startswith("http"):
            assert ((ROOT / page).parent / target).exists(), f"{page} links to {target}"


@pytest.mark.parametrize("page", PAGES)
def test_every_link_to_a_section_names_one(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    for target, section in re.findall(r"\]\(([^)#\s]*)#([^)\s]+)\)", text):
        path = (ROOT / page).parent / target if target else ROOT / page
        if not target.startswith("http"):
            headings = re.findall(r"^#+ (.*)$", path.read_text(encoding="utf-8"), re.MULTILINE)
            slugs = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
            assert section in slugs, f"{page} links to {target}#{section}"


@pytest.mark.parametrize("name", shipped_policies())
def test_every_alert_of_a_shipped_policy_has_its_section_in_the_runbook(name: str) -> None:
    sections = set(re.findall(r"^## (\w+)$", (ROOT / "deploy/RUNBOOK.md").read_text(encoding="utf-8"), re.MULTILINE))
    for rule in load_policy(shipped_policy_path(name)).spec.rules:
        section = rule.on or "expression"
        assert rule.annotations.runbook_url == f"RUNBOOK.md#{section}"
        assert section in sections


def test_the_make_verbs_of_the_readme_exist() -> None:
    verbs = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    for page in PAGES:
        named = set(re.findall(r"(?:`|^    )make ([a-z-]+)", (ROOT / page).read_text(encoding="utf-8"), re.MULTILINE))
        assert named <= verbs, f"{page} names {named - verbs}"


def test_architecture_shows_the_contract_that_is_checked() -> None:
    config = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    (layers,) = [c["layers"] for c in config["tool"]["importlinter"]["contracts"] if c["type"] == "layers"]
    shown = "\n".join("    " + layer for layer in layers)
    assert shown in (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    for room in " | ".join(layers).split(" | "):
        place = ROOT / "sentinel" / room.strip("()")
        is_there = place.is_dir() or place.with_suffix(".py").is_file()
        assert is_there == (not room.startswith("(")), f"{room}: brackets mark the rooms that are not there yet"


def test_architecture_names_every_room() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    rooms = [p.name for p in (ROOT / "sentinel").iterdir() if p.is_dir() and p.name != "__pycache__"]
    rooms += [p.name for p in (ROOT / "sentinel").glob("*.py") if not p.name.startswith("__")]
    for room in rooms:
        assert re.search(rf"\b{re.escape(room)}", text), f"ARCHITECTURE.md does not mention sentinel/{room}"


def test_architecture_is_read_in_one_sitting() -> None:
    assert (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8").count("\n") <= 250, "a subject has a page in docs/design"


@pytest.mark.parametrize("page", [page for page in PAGES if page == "ARCHITECTURE.md" or page.startswith("docs/design/")])
def test_every_module_that_a_design_page_names_is_there(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    for name in re.findall(r"`([\w/*]+/[\w*]+\.py)`", text):
        assert [*ROOT.glob(name), *ROOT.glob(f"sentinel/{name}")], f"{page} names {name}"


def test_the_modules_to_start_with_are_there() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    for package, modules in re.findall(r"^\| `(\w+)` \|.*\| ((?:`\w+`(?:, )?)+) \|$", text, re.MULTILINE):
        for module in re.findall(r"\w+", modules):
            assert (ROOT / "sentinel" / package / f"{module}.py").is_file(), f"ARCHITECTURE.md names {module} of {package}"


@pytest.mark.parametrize("page", PAGES)
def test_every_expression_of_a_page_can_be_read(page: str) -> None:
    for text in re.findall(r"^ +expr: (.+)$", (ROOT / page).read_text(encoding="utf-8"), re.MULTILINE):
        assert parse_expression(text)


def test_the_page_of_the_language_names_every_function_and_variable() -> None:
    text = (ROOT / "policies/README.md").read_text(encoding="utf-8")
    for word in (*FUNCTIONS, *VARIABLES):
        assert re.search(rf"`{word}[`(]", text), word


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.kind)
def test_the_page_of_the_language_describes_every_channel(row: ChannelRow[Any]) -> None:
    """Its line in the table names its own settings; its short form stands where `--page` is explained."""
    text = (ROOT / "policies/README.md").read_text(encoding="utf-8")
    lines = re.findall(rf"^\| `{row.kind}` \|.*$", text, re.MULTILINE)
    assert len(lines) == 1, f"policies/README.md, Channels: the table needs one row '| `{row.kind}` | settings | what arrives |'"
    for name, field in row.settings.model_fields.items():
        is_named = name in RouteSettings.model_fields or re.search(rf"\b{field.alias or name}\b", lines[0])
        assert is_named, f"policies/README.md, Channels: the row of {row.kind} does not name its setting {field.alias or name}"
        if "Secret" in str(field.annotation):
            listed = re.search(r"[^.]*are\s+secrets", text)
            assert listed is not None
            assert f"`{name}`" in listed.group(), f"policies/README.md says which settings are secrets, and leaves out `{name}`"
    explained = text[text.index("`--page` on the command line") :].partition("\n\n")[0]
    if row.short_form is not None:
        place = f"policies/README.md, where `--page` is explained: --page {row.short_form.usage}"
        assert re.search(rf"`'?{row.kind}[`=]", explained), f"{place} is missing"
        assert row.short_form.variable in explained, f"{place} says nothing of {row.short_form.variable}"


@pytest.mark.parametrize("page", ["policies/README.md", "sentinel/detectors/README.md"])
@pytest.mark.parametrize("row", [row for row in DETECTORS if row.settings is not None], ids=lambda row: row.name)
def test_every_detector_has_its_row(row: DetectorRow, page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    assert re.search(rf"^\| `{row.name}` \|", text, re.MULTILINE), (
        f"{page}: the table of detectors needs a row '| `{row.name}` | …'"
    )


@pytest.mark.parametrize("kind", RULED_KINDS)
def test_the_page_of_the_language_lists_every_kind_that_a_rule_may_name(kind: str) -> None:
    text = (ROOT / "policies/README.md").read_text(encoding="utf-8")
    listed = text[text.index("\n      on: spike") :].partition("\n      for:")[0]
    assert re.search(rf"\b{kind}\b", listed), f"policies/README.md, rules: the list behind `on:` lacks {kind}"


@pytest.mark.parametrize("row", LAUNCHERS, ids=lambda row: row.kind)
def test_every_launcher_has_its_section_that_names_its_options(row: LauncherRow) -> None:
    text = (ROOT / "docs/launchers.md").read_text(encoding="utf-8")
    sections = dict(re.findall(r"^## `(\w+)`\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL))
    assert row.kind in sections, f"docs/launchers.md needs a section '## `{row.kind}`'"
    for option in dataclasses.fields(row.settings):
        assert f"`{option.name}`" in sections[row.kind], f"docs/launchers.md, {row.kind}: the option {option.name} is missing"


def test_the_case_file_on_the_page_of_the_language_passes(tmp_path: Path) -> None:
    text = (ROOT / "policies/README.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"^    policy: opt-175b .*\n(?:    .*\n)+", text, re.MULTILINE)
    path = tmp_path / "cases.yaml"
    path.write_text("\n".join(line[4:] for line in block.splitlines()), encoding="utf-8")
    report = run_case_files([path])
    assert report.ok, report.text


def test_the_shipped_cases_pass() -> None:
    """What the histories say to runs like those they were written after."""
    report = run_case_files(sorted((ROOT / "policies/cases").glob("*.yaml")))
    assert report.ok, report.text


def test_the_runbook_has_a_section_for_every_kind_that_says_what_it_means_what_is_done_and_what_you_do() -> None:
    text = (ROOT / "deploy/RUNBOOK.md").read_text(encoding="utf-8")
    sections = dict(re.findall(r"^## (\w+)\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL))
    assert not {*KINDS} - {*sections}, f"deploy/RUNBOOK.md needs a section '## KIND' for each of {sorted({*KINDS} - {*sections})}"
    assert not {*sections} - {*KINDS}, f"deploy/RUNBOOK.md: no finding is called {sorted({*sections} - {*KINDS})}"
    for kind, section in sections.items():
        openings = re.findall(r"^\*\*(It means|Sentinel|You)\*\*", section, re.MULTILINE)
        wanted = ["It means", "Sentinel", "You"]
        assert openings == wanted, f"deploy/RUNBOOK.md, {kind}: needs paragraphs that begin with **{'**, **'.join(wanted)}**"


def test_every_command_of_the_runbook_is_there() -> None:
    text = (ROOT / "deploy/RUNBOOK.md").read_text(encoding="utf-8")
    there = set(getattr(typer.main.get_command(app), "commands", {}))
    assert set(re.findall(r"(?:^    |`)sentinel (\w+)", text, re.MULTILINE)) <= there
