"""The command line other work builds on: every command with its exact options, every help text there, every JSON key.

A change here is a change of what people's scripts rely on.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import click
import pytest
import typer
from typer.testing import CliRunner

from sentinel.cli.root import app, main
from tests.unit.told_run import write_run

ROOT = typer.main.get_command(app)

COMMANDS: dict[tuple[str, ...], tuple[set[str], list[str]]] = {
    ("demo",): (
        {"--run-dir", "--steps", "--seed", "--precision", "--policy", "--no-faults", "--fault", "--preset", "--page", "--listen"},
        [],
    ),
    ("run",): (
        {
            "--policy",
            "--run-dir",
            "--observe-only",
            "--without",
            "--with",
            "--code",
            "--tensorboard",
            "--page",
            "--listen",
            "--token-file",
            "--trainer",
            "--config",
            "--mirror",
        },
        ["command"],
    ),
    ("node-check",): (
        {"--device", "--gpus", "--memory", "--pairs", "--reads", "--socket", "--timeout"},
        ["command"],
    ),
    ("preflight",): (
        {"--run-dir", "--launcher", "--launcher-option", "--checkpoint-bytes", "--port", "--python", "--timeout", "--json"},
        [],
    ),
    ("restore",): ({"--from", "--checkpoint", "--dry-run"}, ["run_dir"]),
    ("mirror", "push"): ({"--to", "--follow", "--anew"}, ["run_dir"]),
    ("mirror", "status"): ({"--json"}, ["run_dir"]),
    ("mirror", "verify"): ({"--to"}, ["run_dir"]),
    ("web",): ({"--listen", "--token-file"}, ["paths"]),
    ("page", "test"): ({"--policy", "--route", "--severity", "--page"}, []),
    ("status",): ({"--json"}, ["run_dir"]),
    ("doctor",): ({"--json"}, ["run_dir"]),
    ("incidents",): ({"--json"}, ["run_dir"]),
    ("incidents show",): ({"--json", "--samples"}, ["number", "run_dir"]),
    ("top",): ({"--once"}, ["run_dir"]),
    ("logs",): ({"--rank", "--attempt", "--tail", "--follow"}, ["run_dir"]),
    ("events",): ({"--json", "--since", "--incident", "--follow"}, ["run_dir"]),
    ("chronicle",): ({"--out"}, ["run_dir"]),
    ("policy", "check"): ({"--capabilities", "--trainer", "--json"}, ["files"]),
    ("policy", "explain"): (
        {"--finding", "--onset", "--detected", "--checkpoint-every", "--samples-per-step", "--trainer", "--json"},
        ["file"],
    ),
    ("policy", "test"): ({"--policy", "--json"}, ["files"]),
    ("policy", "schema"): (set(), []),
    ("init",): ({"--trainer", "--policy", "--run-dir", "--force"}, ["command"]),
    ("probe",): (
        {"--trainer", "--steps", "--time", "--checkpoint-every", "--resume", "--run-dir", "--keep", "--as-it-is", "--json"},
        ["command"],
    ),
    ("trainers", "list"): ({"--json"}, []),
    ("trainers", "show"): ({"--json"}, ["profile"]),
    ("trainers", "check"): ({"--json"}, ["profiles"]),
    ("trainers", "schema"): (set(), []),
    ("checkpoints", "list"): ({"--json"}, ["run_dir"]),
    ("checkpoints", "verify"): ({"--json"}, ["run_dir", "steps"]),
    ("stop",): (set(), ["run_dir"]),
    ("ack",): ({"--timeout"}, ["number", "run_dir"]),
    ("resolve",): ({"--timeout"}, ["number", "run_dir"]),
    ("note",): ({"--timeout"}, ["text", "run_dir"]),
    ("tensorboard",): ({"--out", "--format"}, ["run_dir"]),
    ("replay",): ({"--policy", "--format", "--json", "--plot", "--follow"}, ["paths"]),
    ("watch",): ({"--policy", "--format", "--json"}, ["paths"]),
    ("hardware",): ({"--policy", "--json"}, []),
    ("report",): ({"--out"}, ["run_dir", "incident"]),
    ("drill",): ({"--seed", "--seeds", "--until", "--policy", "--real", "--run-dir", "--json"}, ["file"]),
}
STATUS = ("run", "state", "attempt", "step", "goodput", "open_incident", "pages")
STATES = {
    "starting", "training", "stalled", "recovering", "probation", "paused", "held", "observing", "finished", "failed", "stopped",
    "suspended", "unobserved", "unseen",
}  # fmt: skip
INCIDENT = (
    "id", "kind", "severity", "state", "onset_step", "detected_step", "time_to_detect_s", "time_to_recover_s", "steps_lost",
    "reason", "remedies", "pages", "page",
)  # fmt: skip
REMEDY = ("rung", "rollback_to_step", "skip", "lr_scale", "clip_norm", "attempt", "outcome", "reason")


def find_command(names: tuple[str, ...]) -> click.Command:
    command: click.Command = ROOT
    for name in names:
        found = getattr(command, "commands", {}).get(name)
        assert found is not None, f"sentinel {' '.join(names)} is not there"
        command = found
    return command


@pytest.mark.parametrize("names", COMMANDS, ids=" ".join)
def test_a_command_has_its_options_and_arguments(names: tuple[str, ...]) -> None:
    options, arguments = COMMANDS[names]
    command = find_command(names)
    assert {name for parameter in command.params for name in parameter.opts if name.startswith("--")} >= options
    assert [parameter.name for parameter in command.params if parameter.param_type_name == "argument"] == arguments


@pytest.mark.parametrize("names", COMMANDS, ids=" ".join)
def test_everything_a_command_takes_is_explained(names: tuple[str, ...]) -> None:
    command = find_command(names)
    assert command.help
    assert command.help.strip().endswith((".", "!")), command.help
    for parameter in command.params:
        assert getattr(parameter, "help", ""), f"{parameter.name} of sentinel {' '.join(names)} has no help"


def test_exit_codes_stand_in_the_help_of_run() -> None:
    text = find_command(("run",)).help or ""
    for code in ("0 the run finished", "1 it failed", "2 usage", "130 stopped"):
        assert code in " ".join(text.split())


def test_status_has_the_keys_people_build_on(tmp_path: Path) -> None:
    run_dir = write_run(tmp_path / "run", until=91)
    printed = CliRunner().invoke(app, ["status", str(run_dir), "--json"])
    status = json.loads(printed.stdout)
    assert not set(STATUS) - set(status)
    assert status["state"] in STATES
    assert set(INCIDENT) <= set(status["open_incident"])


def test_incidents_have_the_keys_people_build_on(tmp_path: Path) -> None:
    printed = CliRunner().invoke(app, ["incidents", str(write_run(tmp_path / "run")), "--json"])
    incidents = json.loads(printed.stdout)
    assert isinstance(incidents, list)
    for incident in incidents:
        assert set(INCIDENT) <= set(incident)
        assert incident["state"] in ("open", "probation", "recovered", "exhausted")
        for remedy in incident["remedies"]:
            assert set(REMEDY) <= set(remedy)


WRONG: list[list[str]] = [
    ["status", "no-such-run"],
    ["doctor", "no-such-run"],
    ["incidents", "no-such-run"],
    ["stop", "no-such-run"],
    ["ack", "1", "no-such-run"],
    ["resolve", "1", "no-such-run"],
    ["note", "no-such-run", "a word"],
    ["note", "no-such-run", "two\nlines"],
    ["tensorboard", "no-such-run"],
    ["top", "no-such-run"],
    ["logs", "no-such-run"],
    ["logs", "no-such-run", "--rank", "-1"],
    ["events", "no-such-run"],
    ["chronicle", "no-such-run"],
    ["report", "no-such-run"],
    ["report", "no-such-run", "3"],
    ["report", ".", "three"],
    ["checkpoints", "list", "no-such-run"],
    ["checkpoints", "verify", "no-such-run", "100"],
    ["policy", "check", "no-such-policy.yaml"],
    ["policy", "check", "default", "--capabilities", "levitation"],
    ["policy", "explain", "no-such-policy.yaml"],
    ["policy", "explain", "default", "--finding", "no-such-finding"],
    ["policy", "test", "no-such-cases.yaml"],
    ["trainers", "check", "no-such-profile.yaml"],
    ["trainers", "show", "no-such-profile"],
    ["probe", "--", "no-such-program"],
    ["init", "--", "no-such-program"],
    ["run", "--config", "no-such-file.yaml"],
    ["run"],
    ["run", "--policy", "no-such-policy.yaml", "--", "true"],
    ["demo", "--fault", "burn@step=3"],
    ["drill", "--real"],
    ["drill", "kill", "--real", "--seed", "3"],
    ["drill", "kill", "--run-dir", "x"],
    ["drill", "kill", "--policy", "no-such-policy.yaml"],
    ["drill", "kill", "--real", "--policy", "no-such-policy.yaml"],
    ["demo", "--no-faults", "--fault", "crash@step=3"],
    ["replay"],
    ["replay", "--format", "no-such-format", "x.csv"],
    ["replay", "--policy", "no-such-policy.yaml", "x.csv"],
    ["replay", "--follow", "--plot", "plots", "x.csv"],
    ["web"],
    ["web", "no-such-run"],
    ["web", ".", "--listen", "0.0.0.0:0"],
    ["run", "--listen", "nowhere", "--", "true"],
    ["run", "--page", "pigeon=coop", "--", "true"],
    ["demo", "--page", "alertmanager"],
    ["page", "test", "--route", "no-such-route"],
    ["page", "test", "--page", "webhook=nowhere"],
    ["no-such-command"],
]
# Each of these once as a program of its own: the doors are the same for all.
WRONG_TO_THE_PROGRAM = [["status", "no-such-run"], ["run"], ["policy", "check", "no-such-policy.yaml"], ["no-such-command"]]


def assert_a_sentence(code: object, told: str, where: Path) -> None:
    assert code == 2
    assert told.strip()
    assert "Traceback" not in told
    assert not (where / "runs" / "demo").exists()


@pytest.mark.parametrize("words", WRONG, ids=" ".join)
def test_what_a_person_gets_wrong_ends_with_2_and_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], words: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["sentinel", *words])
    with pytest.raises(SystemExit) as left:
        main()
    assert_a_sentence(left.value.code, capfd.readouterr().err, tmp_path)


@pytest.mark.parametrize("words", WRONG_TO_THE_PROGRAM, ids=" ".join)
def test_so_it_does_where_the_program_is_started(tmp_path: Path, words: list[str]) -> None:
    assert words in WRONG
    done = subprocess.run([sys.executable, "-m", "sentinel", *words], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert_a_sentence(done.returncode, done.stderr, tmp_path)


def test_the_trainer_explains_itself() -> None:
    done = subprocess.run([sys.executable, "-m", "trainer", "--help"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0
    assert "--fault" in done.stdout
