"""What the trainer's pages say can be typed as it stands: every setting, preset, command, code and file they name is there."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
import typer

from sentinel.cli.root import app
from trainer import exits, sample
from trainer.checkpoint import __main__ as checkpoint_commands
from trainer.command_line import parse_arguments
from trainer.config.loading import describe_settings, fixed_settings, load_config, preset_names
from trainer.config.sections import Config
from trainer.data.__main__ import arguments_parser
from trainer.preflight import examine

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "trainer/README.md"
PAGES = [PAGE, ROOT / "trainer/data/README.md"]
OTHERS = [ROOT / "README.md", ROOT / "CHANGELOG.md", ROOT / "docs/commands.md"]  # they name settings and commands
SETTINGS = set(re.findall(r"^(\S+)  \(", describe_settings(), re.MULTILINE))
SECTIONS = {name.split(".")[0] for name in SETTINGS if "." in name}
PYTHON_M = r"^    (?:torchrun .*?-m|python -m) (trainer(?:\.\w+)?)( [^\n#]*)?"


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def text_of(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def settings_named(text: str) -> set[str]:
    """Words like optim.lr, and whatever stands before the = behind --set."""
    dotted = re.findall(rf"(?<![\w./-])((?:{'|'.join(sorted(SECTIONS))})\.[a-z]\w*)\b(?![/(])", text)
    told = {name for name in dotted if not name.endswith((".py", ".md", ".bin", ".json", ".jsonl", ".yaml"))}
    return told | set(re.findall(r"--set '?([a-z][\w.]*)=", text))


def commands_of(page: Path) -> Iterator[tuple[str, list[str]]]:
    """(trainer or a room of it, its arguments) of each command in an indented block."""
    for room, words in re.findall(PYTHON_M, text_of(page), re.MULTILINE):
        yield room, shlex.split(words)


@pytest.mark.parametrize("page", [*PAGES, *OTHERS], ids=relative)
def test_every_setting_a_page_names_exists(page: Path) -> None:
    named = settings_named(text_of(page))
    assert named or page not in PAGES
    assert named <= SETTINGS, f"{relative(page)} names {sorted(named - SETTINGS)}"


def test_a_setting_that_is_none_would_be_found() -> None:
    text = "`optim.lrr`, `--set no.such=1 optim.lr=2`, [a page](data/README.md), `trainer.data.loader`, stability.gates, data.py"
    assert settings_named(text) - SETTINGS == {"optim.lrr", "no.such", "stability.gates"}


def test_every_measure_for_stability_is_on_the_page() -> None:
    sections = ("init", "stability", "schedule", "numerics", "optim")
    options = {name for name in SETTINGS if name.split(".")[0] in sections} - {"init.seed", "optim.eps"}
    assert options <= settings_named(text_of(PAGE)), options - settings_named(text_of(PAGE))


@pytest.mark.parametrize("page", [*PAGES, *OTHERS], ids=relative)
def test_every_preset_a_page_names_exists(page: Path) -> None:
    text = text_of(page)
    named = set(re.findall(r"--preset ([\w.-]*\w)", text)) | set(re.findall(r"^preset: (\S+)$", text, re.MULTILINE))
    assert named - {"NAME"} <= set(preset_names())


def test_the_table_of_presets_is_complete_and_true() -> None:
    (table,) = re.findall(r"^\| preset \|.*\n\|[-|]+\n((?:\|.*\n)+)", text_of(PAGE), re.MULTILINE)
    named = [name for row in table.splitlines() for name in re.findall(r"`([^`]+)`", row.split("|")[1])]
    assert sorted(named) == preset_names()
    assert parse_arguments([]).recipe in named, "the default"


@pytest.mark.parametrize("page", PAGES, ids=relative)
def test_every_command_of_a_page_can_be_read(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for block in re.findall(r"```yaml\n(.*?)```", text_of(PAGE), re.DOTALL):
        (tmp_path / "mine.yaml").write_text(block, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    parsers = {"trainer.checkpoint": checkpoint_commands._parser(), "trainer.sample": sample._parser()}
    parsers["trainer.data"] = arguments_parser()
    found = list(commands_of(page))
    assert found
    for room, words in found:
        assert parse_arguments(words) if room == "trainer" else parsers[room].parse_args(words)


def test_every_command_of_sentinel_on_the_page_can_be_read() -> None:
    root = typer.main.get_command(app)
    lines = re.findall(r"^    sentinel (\w+) (.+)$|`sentinel (\w+) (runs[^`]+)`", text_of(PAGE), re.MULTILINE)
    assert len(lines) >= 3
    for indented, words, inline, more in lines:
        command = getattr(root, "commands", {})[indented or inline]
        with click.Context(root):
            context = command.make_context(indented or inline, shlex.split(words or more))
        trained = context.params.get("command") or []
        if "trainer" in trained:
            assert parse_arguments(trained[trained.index("trainer") + 1 :])


def test_the_yaml_on_the_page_lies_over_its_preset_and_under_set(tmp_path: Path) -> None:
    (block,) = re.findall(r"```yaml\n(.*?)```", text_of(PAGE), re.DOTALL)
    (path := tmp_path / "mine.yaml").write_text(block, encoding="utf-8")
    config = load_config(file=path, sets=["optim.lr=2e-4"])
    assert (config.model.layers, config.data.seq_len, config.optim.lr) == (12, 512, 2e-4)
    assert config.schedule == load_config("gpt2-124m").schedule
    (path := tmp_path / "bare.yaml").write_text("optim: {lr: 3e-4}\n", encoding="utf-8")
    assert load_config(file=path).model == Config().model, "without a preset: over the defaults"


def test_what_preflight_prints_on_the_page_is_what_it_prints() -> None:
    (words,) = [words for room, words in commands_of(PAGE) if room == "trainer" and "--check" in words]
    launch = parse_arguments(words)
    assert launch.ranks is not None
    told = examine(launch, launch.ranks, device=None, corpus_tokens=4_000_000).as_text()
    assert f"```text\n{told}\n```" in text_of(PAGE), f"trainer/README.md shows another than\n{told}"


def test_the_defaults_on_the_page_are_the_defaults() -> None:
    shown = re.findall(r"^\| `([\w.]+)`(?:, `[\w.]+`)* \(([^)]+)\)", text_of(PAGE), re.MULTILINE)
    assert len(shown) >= 5
    for name, told in shown:
        section, field = name.split(".")
        value = getattr(getattr(Config(), section), field)
        assert told == ("on" if value is True else str(list(value) if isinstance(value, tuple) else value)), name


def test_what_the_page_calls_fixed_is_fixed() -> None:
    fixed = fixed_settings()
    assert {"data.seed", "data.seq_len", "data.batch_size", "init.seed", "model.width"} <= set(fixed)
    assert not [name for name in fixed if name.split(".")[0] not in ("model", "init", "data", "schedule")]


def test_the_exit_codes_of_the_page_are_those_of_the_trainer() -> None:
    codes = {int(code) for code in re.findall(r"^\| (\d+) \|", text_of(PAGE), re.MULTILINE)}
    assert codes == {value for name, value in vars(exits).items() if name.isupper() and isinstance(value, int)}


def test_every_link_and_file_of_the_pages_is_there() -> None:
    for page in PAGES:
        text = text_of(page)
        for target in re.findall(r"\]\(([^)#\s]+)\)", text):
            assert (page.parent / target).exists(), f"{relative(page)} links to {target}"
        for named in re.findall(r"`((?:tests|trainer|sentinel)/[\w./-]+\.\w+)`", text):
            assert (ROOT / named).is_file(), f"{relative(page)} names {named}"


def test_the_make_verbs_of_the_page_exist() -> None:
    verbs = set(re.findall(r"^([a-z-]+):", text_of(ROOT / "Makefile"), re.MULTILINE))
    assert set(re.findall(r"`make ([a-z-]+)`", text_of(PAGE))) <= verbs
