"""README shows the difference between the two example programs as it is, and the page about it names every call."""

from __future__ import annotations

import difflib
import inspect
import subprocess
import sys
from pathlib import Path

import torch

from sentinel.client.settings import SETTINGS
from sentinel.client.torch import Run
from sentinel.client.torch.answering import Answers
from sentinel.client.torch.live import LiveSettings
from sentinel.client.torch.sampling import Sampler
from sentinel.client.torch.tuning import Tuning

ROOT = Path(__file__).resolve().parents[2]
PLAIN, OWN = (ROOT / "docs/examples" / name for name in ("plain_loop.py", "own_loop.py"))


def body(path: Path) -> list[str]:
    lines = path.read_text(encoding="utf-8").splitlines()
    return lines[lines.index("import sys") :]


def test_the_readme_shows_the_difference_between_the_two_programs() -> None:
    difference = list(difflib.unified_diff(body(PLAIN), body(OWN), n=2, lineterm=""))[2:]
    wanted = "\n".join(line.rstrip() for line in difference)
    assert f"```diff\n{wanted}\n```" in (ROOT / "README.md").read_text(encoding="utf-8")


def test_ten_lines_make_the_difference() -> None:
    added = [line for line in difflib.ndiff(body(PLAIN), body(OWN)) if line.startswith("+ ") and line[2:].strip()]
    assert len(added) == 10


def test_every_call_stands_on_the_page() -> None:
    page = (ROOT / "docs/own-loop.md").read_text(encoding="utf-8")
    calls = [name for name, _ in inspect.getmembers(Run, inspect.isfunction) if not name.startswith("_")]
    assert calls
    assert [name for name in calls if f"`run.{name}(" not in page] == []


def test_the_settings_that_an_attached_loop_cannot_have_stand_on_the_page() -> None:
    """Those that it refuses although it samples, clips, and steps an AdamW inside of `settings`."""
    tuning = Tuning([torch.optim.AdamW([torch.nn.Parameter(torch.zeros(1))])], watches=False)
    sampler = Sampler(size=64, data_seed=1, share=(0, 1))
    sampler.take(1)
    loop = Answers(lambda *_: None, lambda _: None, tuning, LiveSettings(), sampler, 1)
    loop.clipped, loop.tuned = 1.0, True
    *first, last = (f"`{key}`" for key in SETTINGS if key not in loop.can)
    sentence = f"it has no setting {', '.join(first)} or {last}."
    page = " ".join((ROOT / "docs/own-loop.md").read_text(encoding="utf-8").split())
    assert sentence in page, f"docs/own-loop.md, What happens at each fault: write '{sentence}'"


def test_both_programs_run_without_a_supervisor(tmp_path: Path) -> None:
    torch.save(torch.arange(64).repeat(4, 1)[:, :9], tmp_path / "data.pt")
    environment = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", "OMP_NUM_THREADS": "1"}
    started = [
        subprocess.Popen([sys.executable, str(program), "data.pt", "3"], cwd=tmp_path, env=environment, stderr=subprocess.PIPE)
        for program in (PLAIN, OWN)
    ]
    ended = [(program.communicate(timeout=120)[1], program.returncode) for program in started]
    assert ended == [(b"", 0), (b"", 0)]
    assert [path.name for path in tmp_path.iterdir()] == ["data.pt"]
