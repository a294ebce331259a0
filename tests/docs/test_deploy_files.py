"""The files of deploy/: each is looked at by its tool's own checker where that is installed, and by what can be
read from it here."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from sentinel.cli.root import app
from sentinel.detectors.registry import KINDS
from sentinel.metrics.families import FAMILIES
from sentinel.paging.asked import RUN_URL_VARIABLE

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
DASHBOARD: dict[str, Any] = json.loads((DEPLOY / "grafana/sentinel.json").read_text(encoding="utf-8"))
RULES: list[dict[str, Any]] = yaml.safe_load((DEPLOY / "prometheus/rules.yml").read_text(encoding="utf-8"))["groups"][0]["rules"]
COMPOSE: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yml").read_text(encoding="utf-8"))
COMMANDS = typer.main.get_command(app)
UNITS = ("sentinel@.service", "sentinel-web.service")
DOCKERFILES = sorted((DEPLOY / "docker").glob("Dockerfile.*"))
SERIES = {f"{one.name}{end}" for one in FAMILIES for end in (("_bucket", "_sum", "_count") if one.type == "histogram" else ("",))}


def check(words: list[str], cwd: Path = DEPLOY) -> str:
    """Run a checker that is a package of its own; what it printed."""
    found = shutil.which(words[0], path=f"{os.environ['PATH']}:{Path(sys.executable).parent}")
    if found is None:
        pytest.skip(f"{words[0]} is not installed (deploy/README.md says where it comes from)")
    done = subprocess.run([found, *words[1:]], capture_output=True, text=True, timeout=60, cwd=cwd)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def queries() -> list[tuple[str, str]]:
    """Panel or annotation, and its query with Grafana's variables filled in."""
    asked = [(panel["title"], target["expr"]) for panel in DASHBOARD["panels"] for target in panel.get("targets", [])]
    asked += [(one["name"], one["expr"]) for one in DASHBOARD["annotations"]["list"]]
    return [(name, expr.replace("$__rate_interval", "5m").replace("$run", ".*")) for name, expr in asked]


def test_promtool_takes_the_rules() -> None:
    assert f"{len(RULES)} rules found" in check(["promtool", "check", "rules", "prometheus/rules.yml"])


def test_the_rules_fire_when_they_should_and_only_then() -> None:
    """The cases stand in rules_test.yml."""
    assert "SUCCESS" in check(["promtool", "test", "rules", "rules_test.yml"], DEPLOY / "prometheus")


def test_every_rule_has_a_case_that_fires_it() -> None:
    cases = yaml.safe_load((DEPLOY / "prometheus/rules_test.yml").read_text(encoding="utf-8"))["tests"]
    fired = {one["alertname"] for case in cases for one in case["alert_rule_test"] if one.get("exp_alerts")}
    assert fired == {rule["alert"] for rule in RULES}


def test_every_alert_says_what_to_do() -> None:
    rows = re.findall(r"^\| `(Sentinel\w+)` \| \S", (DEPLOY / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert rows == [rule["alert"] for rule in RULES]


def test_who_is_told_that_a_loop_hangs_is_told_after_systemd_has_had_its_time_to_mend_it() -> None:
    keys = dict(re.findall(r"^(\w+)=(.*)$", (DEPLOY / "systemd/sentinel@.service").read_text(encoding="utf-8"), re.MULTILINE))
    spans = [keys[name] for name in ("WatchdogSec", "TimeoutAbortSec", "RestartSec")]
    mended_s = sum(int(span.removesuffix("min").removesuffix("s")) * (60 if span.endswith("min") else 1) for span in spans)
    (gone,) = [rule for rule in RULES if rule["alert"] == "SentinelGone"]
    (after,) = re.findall(r"sentinel_heartbeat_timestamp_seconds > (\d+)", gone["expr"])
    lease_s, start_s = 10, 30  # a heartbeat may be so old when the loop hangs, and a supervisor takes so long to take a run over
    assert mended_s + lease_s + start_s <= int(after) + int(gone["for"].removesuffix("s"))


def test_promtool_takes_the_configuration() -> None:
    assert "SUCCESS" in check(["promtool", "check", "config", "prometheus/prometheus.yml"])


def test_amtool_takes_the_configuration_of_alertmanager() -> None:
    assert "SUCCESS" in check(["amtool", "check-config", "alertmanager/alertmanager.yml"])


BATCH = ("run.sbatch", "steps.sbatch")


@pytest.mark.parametrize(
    ("labels", "receiver"),
    [
        (["alertname=SentinelIncident", "severity=critical", "run=big"], "person"),
        (["alertname=SentinelGone", "severity=critical"], "person"),
        (["alertname=SentinelIncident", "severity=info"], "nobody"),
    ],
    ids=lambda value: str(value),
)
def test_alertmanager_sends_what_matters_to_a_person(labels: list[str], receiver: str) -> None:
    told = check(["amtool", "config", "routes", "test", "--config.file=alertmanager/alertmanager.yml", *labels])
    assert told.split()[0] == receiver


def test_promtool_takes_every_query_of_the_dashboard(tmp_path: Path) -> None:
    rules = [{"record": f"panel:{number}", "expr": expr} for number, (_, expr) in enumerate(queries())]
    assert len(rules) > 25
    (tmp_path / "queries.yml").write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}))
    assert f"{len(rules)} rules found" in check(["promtool", "check", "rules", str(tmp_path / "queries.yml")])


def test_rules_and_dashboard_ask_for_families_that_there_are_by_labels_they_have() -> None:
    labels = {one.name: {"run", "instance", "job", *one.labels} for one in FAMILIES}
    asked = [(rule["alert"], rule["expr"]) for rule in RULES] + queries()
    for name, expr in asked:
        named = set(re.findall(r"\bsentinel_\w+", expr))
        assert named <= SERIES, f"{name} asks for {named - SERIES}"
        for series, matchers in re.findall(r"(sentinel_\w+)\{([^}]*)\}", expr):
            family = re.sub("_(bucket|sum|count)$", "", series) if series not in labels else series
            assert set(re.findall(r"(\w+)\s*[=!]", matchers)) <= labels[family], f"{name}: {series}{{{matchers}}}"
        assert "$" not in expr, f"{name}: a variable nobody fills in: {expr}"
    shown = {series for _, expr in queries() for series in re.findall(r"\bsentinel_\w+", expr)}
    assert {"sentinel_loss", "sentinel_run_state", "sentinel_account_seconds", "sentinel_pages_total"} <= shown


def test_the_dashboard_can_be_linked_to_and_used_with_any_data_source() -> None:
    assert DASHBOARD["uid"] == "training-sentinel"
    assert [variable["name"] for variable in DASHBOARD["templating"]["list"]] == ["datasource", "run"]
    panels = DASHBOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    for panel in panels:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        for target in panel.get("targets", []):
            assert target["datasource"]["uid"] == panel["datasource"]["uid"] == "${datasource}"
    boxes = [(p["gridPos"]["x"], p["gridPos"]["y"], p["gridPos"]["w"], p["gridPos"]["h"]) for p in panels]
    for number, (x, y, w, h) in enumerate(boxes):
        for ox, oy, ow, oh in boxes[number + 1 :]:
            assert x + w <= ox or ox + ow <= x or y + h <= oy or oy + oh <= y, "two panels lie on each other"


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """The units with a program that is there in the place of sentinel's: that it is missing here says nothing about them."""
    for unit in UNITS:
        text = (DEPLOY / "systemd" / unit).read_text(encoding="utf-8")
        (tmp_path / unit).write_text(text.replace("/opt/sentinel/bin/sentinel", "/bin/true"))
    return tmp_path


def test_systemd_takes_the_units(installed: Path) -> None:
    told = check(["systemd-analyze", "verify", *(str(installed / unit) for unit in UNITS)])
    assert told == "", "an unknown key is only a warning"


@pytest.mark.parametrize(("unit", "most"), [("sentinel@.service", 5.6), ("sentinel-web.service", 2.0)])
def test_systemd_finds_the_units_no_more_exposed_than_they_have_to_be(installed: Path, unit: str, most: float) -> None:
    """The supervisor's is what training must be left: devices, namespaces, the network."""
    told = check(["systemd-analyze", "security", "--offline=yes", "--no-pager", str(installed / unit)])
    (score,) = re.findall(r"Overall exposure level for \S+: ([\d.]+)", told)
    assert float(score) <= most


def test_the_unit_ends_sentinel_and_never_the_training() -> None:
    keys = dict(re.findall(r"^(\w+)=(.*)$", (DEPLOY / "systemd/sentinel@.service").read_text(encoding="utf-8"), re.MULTILINE))
    assert (keys["Type"], keys["KillMode"], keys["OOMPolicy"]) == ("notify", "process", "continue")
    assert (keys["KillSignal"], keys["RestartKillSignal"]) == ("SIGTERM", "SIGKILL")
    assert {"1", "2", "130"} == set(keys["RestartPreventExitStatus"].split()), "a failed run waits for a person's answer"
    assert keys["RestartForceExitStatus"] == "75", "what was suspended goes on"
    assert not {"PrivateTmp", "PrivateDevices", "MemoryDenyWriteExecute", "RestrictNamespaces", "ProtectClock"} & set(keys)
    variables = set(re.findall(r"\$\{?(\w+)", keys["ExecStart"]))
    example = (DEPLOY / "systemd/run.env.example").read_text(encoding="utf-8")
    assert variables == set(re.findall(r"^(\w+)=", example, re.MULTILINE))


def test_a_page_links_to_the_service_that_shows_every_run_also_one_that_has_failed() -> None:
    """The supervisor serves nothing (`--listen off`), and ends with its run."""
    unit, web = ((DEPLOY / "systemd" / name).read_text(encoding="utf-8") for name in UNITS)
    (url,) = re.findall(rf"^Environment={RUN_URL_VARIABLE}=http://(\S+)/$", unit, re.MULTILINE)
    assert url in re.findall(r"^ExecStart=\S+ web /var/lib/sentinel/runs --listen (\S+)$", web, re.MULTILINE)
    assert "--listen off" in unit
    assert unit.index(f"Environment={RUN_URL_VARIABLE}") < unit.index("EnvironmentFile="), "run.env may name another"
    assert "sentinel-web.service" in str(re.findall(r"^Wants=.*$", unit, re.MULTILINE))
    assert RUN_URL_VARIABLE in (DEPLOY / "systemd/run.env.example").read_text(encoding="utf-8")
    demo, shows = COMPOSE["services"]["demo"], COMPOSE["services"]["web"]["command"]
    assert demo["environment"][RUN_URL_VARIABLE] == f"${{{RUN_URL_VARIABLE}:-http://{shows[-1]}/}}"
    assert shows[1] == str(Path(demo["command"][2]).parent), "the directory of all runs"
    for script in BATCH:
        assert RUN_URL_VARIABLE in (DEPLOY / "slurm" / script).read_text(encoding="utf-8"), script


@pytest.mark.parametrize(("code", "requeued"), [(75, "17\n"), (0, ""), (1, ""), (2, ""), (130, "")])
@pytest.mark.parametrize("script", BATCH)
def test_the_batch_script_passes_a_warning_on_and_puts_its_job_back_at_75_alone(
    tmp_path: Path, script: str, code: int, requeued: str
) -> None:
    """The stand-in for sentinel warns the script, as Slurm does, and leaves when the warning has come through."""
    stands_in = {
        "sentinel": f"trap 'kill $!; exit {code}' USR1\ntail -f /dev/null &\nkill -USR1 $PPID\nwait $!\n",
        "scontrol": '[ "$1" = requeue ] && echo "$2" >> "$REQUEUED"\n',
    }
    for name, body in stands_in.items():
        (tmp_path / name).write_text(f"#!/bin/bash\n{body}", encoding="utf-8")
        (tmp_path / name).chmod(0o755)
    noted = tmp_path / "requeued"
    noted.touch()
    environ = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "SLURM_JOB_ID": "17", "SLURM_JOB_NAME": "big"}
    done = subprocess.run(
        ["bash", str(DEPLOY / "slurm" / script)], env={**environ, "REQUEUED": str(noted)}, check=False, timeout=60
    )
    assert (done.returncode if code <= 128 else 130, noted.read_text(encoding="utf-8")) == (code, requeued)


@pytest.mark.parametrize("script", BATCH)
def test_the_batch_script_puts_its_job_back_where_the_warning_ended_a_sentinel_that_had_not_begun(
    tmp_path: Path, script: str
) -> None:
    """Before Python runs any of sentinel's code, SIGUSR1 ends the process: code 138."""
    noted = tmp_path / "requeued"
    stands_in = {"sentinel": "kill -USR1 $$\n", "scontrol": f'[ "$1" = show ] || echo "$*" >> {noted}\n'}
    for name, body in stands_in.items():
        (tmp_path / name).write_text(f"#!/bin/bash\n{body}", encoding="utf-8")
        (tmp_path / name).chmod(0o755)
    environ = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "SLURM_JOB_ID": "17", "SLURM_JOB_NAME": "big"}
    done = subprocess.run(["bash", str(DEPLOY / "slurm" / script)], env=environ, check=False, timeout=60)
    assert (done.returncode, noted.read_text(encoding="utf-8")) == (138, "requeue 17\n")


@pytest.mark.parametrize("script", BATCH)
def test_the_batch_script_knows_how_sentinel_left_whatever_signals_come_at_that_moment(tmp_path: Path, script: str) -> None:
    """A warning and a preemption at once. bash's `wait` loses the status then, and the job would not be put back."""
    noted = tmp_path / "requeued"
    signals = "trap '' USR1 TERM; (for _ in $(seq 30); do kill -USR1 $PPID; kill -TERM $PPID; done) & exit 75\n"
    stands_in = {"sentinel": signals, "scontrol": f'[ "$1" = requeue ] && echo "$2" >>{noted}\n', "srun": "exec sleep 60\n"}
    for name, body in stands_in.items():
        (tmp_path / name).write_text(f"#!/bin/bash\n{body}", encoding="utf-8")
        (tmp_path / name).chmod(0o755)
    environ = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "SLURM_JOB_ID": "17", "SLURM_JOB_NAME": "big"}
    for _ in range(3):
        words = ["bash", str(DEPLOY / "slurm" / script)]
        done = subprocess.run(words, env=environ | {"LOOK_EVERY": "0.05"}, check=False, timeout=60, capture_output=True)
        assert done.returncode == 75
    assert noted.read_text(encoding="utf-8") == "17\n" * 3


# Of squeue, one answer after the other; what is asked of it besides the nodes is the time.
ASKED = """case $* in *endtime*) echo "${{ENDS-17 2026-11-27T10:00:00}}"; exit;; esac
line=$(head -1 {answers}); sed -i 1d {answers}
case $line in fails) exit 1;; empty) ;; *) echo "$line" | tr ';' '\\n';; esac
"""
EXPANDED = """[ "$1" = show ] || {{ echo scontrol $* >>{noted}; exit; }}
[ "$3" = "n[" ] && exit 1; echo "$3" | tr , '\\n'
"""


def run_standby(folder: Path, answers: str, sentinel: str, **environ: str) -> tuple[int, str, str]:
    """Its status, what it printed, and what it did to the job."""
    told, noted = folder / "answers", folder / "noted"
    told.write_text(answers, encoding="utf-8")
    stands_in = {"squeue": ASKED.format(answers=told), "scontrol": EXPANDED.format(noted=noted), "sentinel": sentinel}
    stands_in |= {"scancel": f"echo scancel $* >>{noted}\n"}
    for name, body in stands_in.items():
        (folder / name).write_text(f"#!/bin/bash\n{body}", encoding="utf-8")
        (folder / name).chmod(0o755)
    variables = {name: value for name, value in os.environ.items() if not name.startswith("SLURM_")}
    variables |= {"PATH": f"{folder}:{os.environ['PATH']}", "SLURM_JOB_ID": "17", "SLURMD_NODENAME": "n2", "TZ": "UTC"}
    variables |= {"BATCH_HOST": "n1", "STANDBY_EVERY": "0"} | environ
    words = ["bash", str(DEPLOY / "slurm/standby.sh"), "sentinel", "run"]
    done = subprocess.run(words, env=variables, check=False, timeout=60, capture_output=True, text=True)
    return done.returncode, done.stdout, noted.read_text(encoding="utf-8").strip()


@pytest.mark.parametrize(("code", "follows"), [(0, "scancel 17"), (75, "scontrol requeue 17"), (1, "scancel 17")])
def test_the_standby_goes_on_when_the_controller_says_that_the_node_is_lost(tmp_path: Path, code: int, follows: str) -> None:
    """Not when it fails, answers nothing, cannot be understood, or speaks of the other tasks of an array, too."""
    answers = "fails\nempty\n17 n[\n17 n1,n2\n18 n4;17 n1,n2\n18 n4\n18 n1;17 n2\n"
    status, printed, noted = run_standby(tmp_path, answers, f"wc -l <{tmp_path}/answers; exit {code}\n")
    assert (status, noted) == (code, follows)
    assert printed.splitlines()[1] == "0", "it was started before the last answer"


def test_a_standby_that_is_refused_ends_no_job(tmp_path: Path) -> None:
    """The node is lost to the controller, and whoever supervises there still renews the lease of the run."""
    sentinel = f"echo x >>{tmp_path}/starts; [ $(wc -l <{tmp_path}/starts) -lt 3 ] && exit 2; exit 75\n"
    status, printed, noted = run_standby(tmp_path, "17 n2\n17 n2\n17 n1,n2\n17 n2\n", sentinel)
    assert (status, noted) == (75, "scontrol requeue 17")
    assert printed.count("sentinel left with 2") == 2


@pytest.mark.parametrize(
    ("variables", "told"),
    [
        ({}, "1795773600"),
        ({"SLURM_JOB_END_TIME": "1795770000"}, "1795770000"),
        ({"ENDS": ""}, ""),
        ({"ENDS": "17 N/A"}, ""),
        ({"ENDS": "17"}, ""),
    ],
    ids=["asked", "known", "no answer", "no limit", "nothing said of it"],
)
def test_a_standby_knows_the_time_limit(tmp_path: Path, variables: dict[str, str], told: str) -> None:
    """The warning goes to the batch script alone, and Slurm 22.05 has no variable for it."""
    _, printed, _ = run_standby(tmp_path, "17 n2\n", "echo $SLURM_JOB_END_TIME\n", **variables)
    assert printed.splitlines()[1] == told


def login_call(folder: Path, sentinel: str, **more: str) -> tuple[list[str], dict[str, str]]:
    """The words and the environment of login.sh beside stand-ins, which note in `noted` what is asked of Slurm. Jobs are numbered
    from 17 on."""
    noted = folder / "noted"
    noted.touch()
    state = 'case $* in *endtime*) echo "17 2026-11-27T10:00:00";; *numnodes*) echo "17 3";; *) echo "17 RUNNING";; esac\n'
    stands_in = {
        "salloc": f'echo "salloc $*" >>{noted}; echo "salloc: Granted job allocation $((16 + $(grep -c salloc {noted})))" >&2\n',
        "squeue": state, "srun": "exec sleep 60\n", "scancel": f'echo "scancel $*" >>{noted}\n', "sentinel": sentinel,
    }  # fmt: skip
    for name, body in (stands_in | more).items():
        (folder / name).write_text(f"#!/bin/bash\n{body}", encoding="utf-8")
        (folder / name).chmod(0o755)
    variables = {name: value for name, value in os.environ.items() if not name.startswith("SLURM_")}
    variables |= {"PATH": f"{folder}:{os.environ['PATH']}", "TZ": "UTC", "HOLD_EVERY": "0.05", "LOOK_EVERY": "0.02"}
    return ["bash", str(DEPLOY / "slurm/login.sh"), "--nodes=3", "--", "sentinel", "run"], variables


def run_login(folder: Path, sentinel: str, **more: str) -> tuple[int, list[str], list[str]]:
    """login.sh beside stand-ins: its status, what it printed, and what it asked of Slurm."""
    words, variables = login_call(folder, sentinel, **more)
    done = subprocess.run(words, env=variables, check=False, timeout=60, capture_output=True, text=True)
    noted = (folder / "noted").read_text(encoding="utf-8").splitlines()
    return done.returncode, [*done.stdout.splitlines(), *done.stderr.splitlines()], noted


ALLOCATED = "salloc --no-shell --no-kill --nodes=3"


@pytest.mark.parametrize("code", [0, 1, 2, 3])
def test_on_a_login_node_the_job_is_given_back_when_sentinel_has_left(tmp_path: Path, code: int) -> None:
    told = f'echo "$* in $SLURM_JOB_ID of $SLURM_JOB_NUM_NODES until $SLURM_JOB_END_TIME"; exit {code}\n'
    status, printed, noted = run_login(tmp_path, told)
    assert (status, noted) == (code, [ALLOCATED, "scancel 17"])
    held = "job 17 is held, until 2026-11-27 10:00:00"
    assert printed == [held, "run in 17 of 3 until 1795773600", f"sentinel left with {code}"]


@pytest.mark.parametrize("leaves", [75, 138])
def test_on_a_login_node_the_next_job_is_asked_for_when_sentinel_wants_to_be_started_again(tmp_path: Path, leaves: int) -> None:
    status, _, noted = run_login(tmp_path, f"[ $SLURM_JOB_ID = 17 ] && exit {leaves}; exit 0\n")
    assert (status, noted) == (0, [ALLOCATED, "scancel 17", ALLOCATED, "scancel 18"])


def test_on_a_login_node_sentinel_hears_of_it_when_its_job_is_over(tmp_path: Path) -> None:
    """And not while the controller answers nothing."""
    over = f"""case $* in *state*) echo x >>{tmp_path}/asked;; esac
[ $(cat {tmp_path}/asked | wc -l) -lt 3 ] && exit 1; echo "17 TIMEOUT"\n"""
    (tmp_path / "asked").touch()
    waits = "[ $SLURM_JOB_ID = 18 ] && exit 0; trap 'kill $!; exit 75' USR1; tail -f /dev/null & wait $!\n"
    status, printed, noted = run_login(tmp_path, waits, squeue=over, srun="exit 1\n")
    assert (status, noted) == (0, [ALLOCATED, "scancel 17", ALLOCATED, "scancel 18"])
    assert "job 17 is over" in printed


def test_on_a_login_node_what_slurm_refuses_is_told_and_nothing_is_started(tmp_path: Path) -> None:
    refused = "echo 'salloc: error: Requested node configuration is not available' >&2; exit 1\n"
    status, printed, noted = run_login(tmp_path, f"touch {tmp_path}/begun\n", salloc=refused)
    assert (status, printed, noted) == (1, ["salloc: error: Requested node configuration is not available"], [])
    assert not (tmp_path / "begun").exists()


def test_on_a_login_node_a_command_is_needed() -> None:
    words = ["bash", str(DEPLOY / "slurm/login.sh"), "--nodes=3"]
    done = subprocess.run(words, check=False, timeout=60, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (2, "usage: login.sh SALLOC_OPTIONS... -- sentinel run --launcher slurm ...\n")


def started() -> dict[str, list[str]]:
    """What the units and the containers start sentinel with."""
    words: dict[str, list[str]] = {name: COMPOSE["services"][name]["command"] for name in ("demo", "web")}
    for unit in UNITS:
        text = (DEPLOY / "systemd" / unit).read_text(encoding="utf-8")
        (line,) = re.findall(r"^ExecStart=/opt/sentinel/bin/sentinel (.*)$", text, re.MULTILINE)
        words[unit] = line.split()
    return words


@pytest.mark.parametrize("who", [*UNITS, "demo", "web"])
def test_what_is_started_is_a_command_with_these_options(who: str) -> None:
    name, *words = started()[who]
    known = getattr(COMMANDS, "commands", {})
    options = {option for parameter in known[name].params for option in parameter.opts}
    assert {word for word in words if re.fullmatch("--[a-z-]+", word)} <= options


@pytest.mark.parametrize("path", sorted(DEPLOY.rglob("*.yml")), ids=lambda path: str(path.relative_to(DEPLOY)))
def test_every_yaml_file_can_be_read(path: Path) -> None:
    assert isinstance(yaml.safe_load(path.read_text(encoding="utf-8")), dict)


def test_compose_is_what_its_specification_says() -> None:
    assert "ok" in check(["check-jsonschema", "--builtin-schema", "vendor.compose-spec", "compose.yml"])


def test_what_compose_mounts_and_builds_is_there() -> None:
    volumes = set(COMPOSE["volumes"])
    for name, service in COMPOSE["services"].items():
        for mount in service.get("volumes", []):
            source = mount.split(":")[0]
            assert (DEPLOY / source).exists() if source.startswith(".") else source in volumes, f"{name}: {mount}"
        built = service.get("build")
        if built:
            text = (DEPLOY / built["context"] / built["dockerfile"]).read_text(encoding="utf-8")
            assert f" AS {built.get('target', Path(built['dockerfile']).suffix[1:])}\n" in text
        else:
            assert re.fullmatch(r"[\w./-]+:v?\d+\.\d+\.\d+", service["image"]), f"{name}: {service['image']} is not pinned"
    assert {"demo", "web", "prometheus", "alertmanager", "grafana", "tensorboard"} == set(COMPOSE["services"])


@pytest.mark.parametrize("name", ["demo", "web", "tensorboard"])
def test_whichever_container_is_first_makes_the_volume_of_the_runs_theirs_and_not_roots(name: str) -> None:
    """A new volume gets the owner that its place has in the image; without one it is root's, and nobody here is root."""
    built = COMPOSE["services"][name]["build"]
    text = (DEPLOY / built["context"] / built["dockerfile"]).read_text(encoding="utf-8")
    stage = text.split(f" AS {built.get('target', Path(built['dockerfile']).suffix[1:])}\n")[1].split("\nFROM ")[0]
    assert "install -d -o sentinel -g sentinel -m 0750 /runs" in stage
    assert re.findall(r"^USER (.*)$", stage, re.MULTILINE) == ["10001:10001"], "the same user in all three"


def test_nothing_of_compose_listens_to_other_machines() -> None:
    """They share the host's network, so each has to be told."""
    for name, service in COMPOSE["services"].items():
        assert service["network_mode"] == "host"
        assert "ports" not in service
        said = " ".join([*map(str, service.get("command", [])), *map(str, service.get("environment", {}).values())])
        text = (DEPLOY / "docker/Dockerfile.sentinel").read_text(encoding="utf-8") if name == "tensorboard" else said
        assert "127.0.0.1" in text or name == "demo", name
        assert "0.0.0.0" not in said


@pytest.mark.parametrize("path", DOCKERFILES, ids=lambda path: path.name)
def test_an_image_is_pinned_built_in_stages_and_run_by_nobody_special(path: Path) -> None:
    """What a linter would say first; no checker of Dockerfiles needs to be there."""
    text = path.read_text(encoding="utf-8")
    stages = re.findall(r"^FROM (\S+)(?: AS (\w+))?$", text, re.MULTILINE)
    assert len(stages) >= 2
    assert all(re.fullmatch(r"[\w./-]+:[\w.-]*\d[\w.-]*", image) for image, _ in stages), stages
    last = text[text.rindex("\nFROM ") :]
    for word in ("USER 10001:10001", "HEALTHCHECK", "ENTRYPOINT ["):
        assert word in last, f"{path.name}: its last stage has no {word}"
    assert last.rindex("RUN ") < last.index("USER ")
    kept = {line[1:] for line in (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines() if line.startswith("!")}
    copied = {word for line in re.findall(r"^COPY (?!--from)(.+)$", text, re.MULTILINE) for word in line.split()[:-1]}
    assert copied <= kept, f"{copied - kept} would not be sent to the build"
    for name in copied:
        assert (ROOT / name).exists()


@pytest.mark.parametrize("path", DOCKERFILES, ids=lambda path: path.name)
def test_hadolint_finds_nothing(path: Path) -> None:
    check(["hadolint", str(path)])


def test_alerts_are_none_of_the_incidents_of_a_run() -> None:
    """An alert of Prometheus tells of sentinel or of what nobody repaired; a kind of incident has its own page."""
    for rule in RULES:
        assert rule["alert"].startswith("Sentinel")
        assert rule["labels"]["severity"] in ("warning", "critical")
        assert rule["annotations"]["summary"]
        assert rule["alert"] not in {f"Sentinel{kind}" for kind in KINDS}
