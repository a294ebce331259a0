"""Sentinel as it is installed from a wheel, used in a folder whose packages are called as ours are."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from sentinel.client.run_layout import spec_path
from supply_chain.install import copy_sources
from tests.installed import ROOT, SETUPTOOLS_MIN, build_tree, build_wheel, environment, hostile_folder
from tests.integration.attached_trainer import write_data
from tests.integration.supervised import HERE
from tests.integration.test_attached_loop import POISON, grades

setuptools = pytest.importorskip("setuptools")
pytestmark = pytest.mark.skipif(
    int(setuptools.__version__.split(".")[0]) < SETUPTOOLS_MIN, reason=f"setuptools {setuptools.__version__} is older than 77"
)
ASKED = """
import sys
sys.path.insert(0, sys.argv[1])
from sentinel.cli.bundled_trainer import launch_words
from sentinel.paging.runbook import RUNBOOK
from sentinel.policy_files.loading import read_policy_file, shipped_policy_path
from sentinel_trainer import show
print(read_policy_file(shipped_policy_path("default")).path, RUNBOOK, " ".join(launch_words(2)), show.__file__, sep=chr(10))
"""
# On a busy machine a rank that nothing ails is silent for longer than the demonstration's six seconds.
PATIENT = """\
apiVersion: sentinel/v1
kind: RemediationPolicy
metadata: {name: patient}
extends: demo
spec:
  detectors:
    hang: {floor: 60s}
"""
ABSENT = ["torch", "numpy", "trainer", "policies", "cuda_ext"]
NAMES = ("trainer", "cuda_ext")
TOP = ["sentinel", "sentinel_kernels", "sentinel_trainer"]


def ran(words: list[str], cwd: Path, timeout_s: float = 60.0, **environ: str) -> str:
    """What it prints. PYTHONPATH is empty: only what is installed is found."""
    clean = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONDONTWRITEBYTECODE")}
    done = subprocess.run(words, cwd=cwd, env=clean | environ, capture_output=True, text=True, timeout=timeout_s, check=False)
    assert done.returncode == 0, f"{' '.join(words)}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def write_log(place: Path) -> Path:
    lines = [json.dumps({"step": step, "loss": 2.5 + step % 7 / 100, "grad_norm": 1.0}) for step in range(1, 401)]
    log = place / "loss.jsonl"
    log.write_text("\n".join(lines) + "\n")
    return log


def test_what_an_installation_holds_works_among_packages_of_our_names(tmp_path: Path) -> None:
    """The tree that a wheel is made of, on the path of an interpreter; the wheel itself is `test_installed_*`'s."""
    made = build_tree(copy_sources(tmp_path))
    assert sorted(path.name for path in made.iterdir()) == TOP
    for name in ("policies/default.yaml", "policies/drills/kill.yaml", "policies/schema.json", "deploy/RUNBOOK.md"):
        assert (made / "sentinel" / name).read_bytes() == (ROOT / name).read_bytes()
    there = hostile_folder(tmp_path / "project")
    told = ran([sys.executable, "-P", "-c", ASKED, str(made)], there).splitlines()
    assert told[0] == str(made / "sentinel" / "policies" / "default.yaml")
    assert told[1] == str(made / "sentinel" / "deploy" / "RUNBOOK.md")
    assert told[2].endswith(f"--no-python {sys.executable} -P -u -m sentinel_trainer")
    assert told[3] == str(made / "sentinel_trainer" / "show.py")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("wheel")
    return build_wheel(copy_sources(tmp_path_factory.mktemp("sources")), place)


@pytest.mark.slow
def test_installed_without_torch_the_supervisor_supervises(wheel: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        tops = {name.partition("/")[0] for name in archive.namelist()}
    assert sorted(tops) == [*TOP, next(top for top in tops if top.endswith(".dist-info"))]
    programs = environment(tmp_path / "venv", str(wheel), with_torch=False)
    python, sentinel = str(programs / "python"), str(programs / "sentinel")
    there = hostile_folder(tmp_path / "project")
    absent = f"from importlib.util import find_spec; print([name for name in {ABSENT} if find_spec(name)])"
    assert ran([python, "-P", "-c", absent], there) == "[]\n"
    for name in ("default", "demo", "cautious"):
        ran([sentinel, "policy", "check", name], there)
    ran([sentinel, "policy", "explain", "default"], there)
    assert "400" in ran([sentinel, "replay", str(write_log(tmp_path))], there)
    ran([sentinel, "drill", "kill"], there)
    run_dir = tmp_path / "run"
    script = "import json, os, pathlib; print(os.getcwd()); print('step 1 loss 2.0')"
    ran([sentinel, "run", "--policy", "default", "--run-dir", str(run_dir), "--", python, "-P", "-c", script], there, 120.0)
    assert json.loads(ran([sentinel, "status", "--json", str(run_dir)], there))["state"]
    refused = subprocess.run([sentinel, "demo"], cwd=there, capture_output=True, text=True, timeout=60, check=False)
    assert refused.returncode == 2
    assert "torch and numpy cannot be found; install it with: pip install 'training-sentinel[trainer]'" in refused.stderr


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_the_ten_line_loop_survives_every_fault_under_a_supervisor_without_torch(wheel: Path, tmp_path: Path) -> None:
    supervisor = environment(tmp_path / "supervisor", str(wheel), with_torch=False)
    trainer = environment(tmp_path / "trainer", str(wheel), with_torch=True)
    there, run_dir, data = hostile_folder(tmp_path / "project"), tmp_path / "run", tmp_path / "data.pt"
    write_data(data, POISON)
    faults = ["--kill", "30", "--nan", "260@3", "--hang", "400@4"]
    command = [str(trainer / "python"), "-P", str(HERE / "attached_trainer.py"), str(data), "500", *faults]
    sentinel = str(supervisor / "sentinel")
    patient = tmp_path / "patient.yaml"
    patient.write_text(PATIENT)
    options = ["--policy", str(patient), "--listen", "off", "--run-dir", str(run_dir)]
    ran([sentinel, "run", *options, "--", *command], there, 1000.0, OMP_NUM_THREADS="1")
    told = json.loads(ran([sentinel, "incidents", "--json", str(run_dir)], there))
    assert [(one["kind"], one["state"]) for one in told] == [
        ("crash", "recovered"), ("spike", "recovered"), ("non_finite", "recovered"), ("hang", "recovered"),
    ]  # fmt: skip
    assert {grade for one in told for grade in grades(one).values()} == {"read_back"}
    assert json.loads(ran([sentinel, "status", "--json", str(run_dir)], there))["state"] == "finished"


@pytest.mark.slow
def test_installed_with_torch_the_demonstration_trains_the_bundled_trainer(wheel: Path, tmp_path: Path) -> None:
    programs = environment(tmp_path / "venv", str(wheel), with_torch=True)
    there = hostile_folder(tmp_path / "project")
    run_dir, kernels = tmp_path / "run", {"SENTINEL_KERNELS": "torch"}
    demo = [str(programs / "sentinel"), "demo", "--run-dir", str(run_dir), "--steps", "24", "--preset", "micro", "--no-faults"]
    assert "finished" in ran(demo, there, 280.0, **kernels)
    command = json.loads(spec_path(run_dir, 1).read_text())["argv"]
    assert command[command.index("--no-python") :][1:5] == [str(programs / "python"), "-P", "-u", "-m"]
    python = str(programs / "python")
    text = ran([python, "-P", "-m", "sentinel_trainer.show", str(run_dir), "--sample", "3"], there, **kernels)
    assert text.startswith("sample 3: 129 bytes")
    assert "step" in ran([python, "-P", "-m", "sentinel_trainer.checkpoint", "list", str(run_dir)], there)
    assert ran([python, "-P", "-m", "sentinel_kernels", "--kernels", "torch"], there).startswith("torch: it was asked for")


@pytest.mark.slow
def test_installed_in_place_every_folder_keeps_its_name(tmp_path: Path) -> None:
    sources = copy_sources(tmp_path / "sources")
    programs = environment(tmp_path / "venv", "-e", str(sources), with_torch=True)
    asked = (
        "import trainer.show, cuda_ext; from sentinel.cli.bundled_trainer import check_trainer, launch_words; check_trainer(); "
        "from sentinel.paging.runbook import RUNBOOK; print(RUNBOOK, trainer.__file__, cuda_ext.__file__, launch_words(1)[-1])"
    )
    told = ran([str(programs / "python"), "-P", "-c", asked], tmp_path).split()
    assert told == [str(sources / "deploy/RUNBOOK.md"), *(str(sources / name / "__init__.py") for name in NAMES), "trainer"]
