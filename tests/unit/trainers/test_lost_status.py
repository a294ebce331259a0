"""Whether a script of the shell leaves with 0 whatever its trainer left with: told only where its text shows it."""

from __future__ import annotations

from pathlib import Path

import pytest

from sentinel.trainers.loading import load_profile
from sentinel.trainers.lost_status import lost_status
from sentinel.trainers.shell_script import fit_to_command, lost_status_of

START = "python train.py --save out"
LOST = {
    "a pipe": (f"set -e\n{START} 2>&1 | tee -a log\n", "line 2 pipes the trainer into tee without pipefail"),
    "a pipe with both": (f"{START} |& tee log", "line 1 pipes the trainer into tee without pipefail"),
    "a pipe in a loop": (f"for n in 1 2; do {START} | tee log; done", "line 1 pipes the trainer into tee without pipefail"),
    "or true": (f"set -euo pipefail\n{START} || true", "line 2 hides the trainer's exit status behind '|| true'"),
    "or a word of it": (f'{START} || echo "failed"', "line 1 hides the trainer's exit status behind '|| echo'"),
    "a line behind it": (
        f"{START} > log 2>&1\necho ended\ndate\n",
        "line 3 follows the trainer's whatever that left with (no 'set -e')",
    ),
}
KEPT = {
    "nothing else": START,
    "pipefail": f"set -o pipefail\n{START} | tee log",
    "pipefail with others": f"set -euo pipefail\n{START} | tee log\necho ended",
    "its own look": f"{START} | tee log\nexit ${{PIPESTATUS[0]}}",
    "the status kept": f"{START}\nstatus=$?\necho ended\nexit $status",
    "errexit": f"set -e\n{START}\necho ended",
    "errexit by name": f"set -o errexit\n{START}\necho ended",
    "exec": f"exec {START}\necho never",
    "or exit": f"{START} || exit 1",
    "or another that is asked": f"{START} || true && exit 1",
    "a trap": f"trap clean EXIT\n{START} | tee log",
    "a condition": f"if {START}; then echo ended; fi",
    "a function": f"main() {{\n{START}\n}}\nmain\necho ended",
    "a log through a substitution": f"exec > >(tee log) 2>&1\n{START}",
    "one line of two": f"{START} | tee log\n{START}",
    "no trainer": "make all | tee log",
    "an open quote": f'{START} "$@ | tee log',
}


@pytest.mark.parametrize(("text", "why"), LOST.values(), ids=LOST)
def test_it_is_lost(text: str, why: str) -> None:
    assert lost_status(text) == why


@pytest.mark.parametrize("text", KEPT.values(), ids=KEPT)
def test_it_is_not_seen_to_be_lost(text: str) -> None:
    assert lost_status(text) == ""


@pytest.mark.parametrize(
    ("command", "is_lost"),
    [
        (("bash", "go.sh"), True),
        (("bash", "-x", "go.sh"), True),
        (("bash", "-o", "pipefail", "go.sh"), False),
        (("bash", "-ec", f"{START} | tee log"), False),
        (("bash", "-c", f"{START} | tee log"), True),
        (("python", "train.py"), False),
        (("bash", "away.sh"), False),
    ],
)
def test_by_the_command(tmp_path: Path, command: tuple[str, ...], is_lost: bool) -> None:
    (tmp_path / "go.sh").write_text(f"{START} | tee log\n")
    assert bool(lost_status_of(command, str(tmp_path))) is is_lost


def test_it_is_said_at_the_start_and_what_is_added_only_where_something_is(tmp_path: Path) -> None:
    (tmp_path / "go.sh").write_text(f"{START} | tee log\n")
    (remark,) = fit_to_command(load_profile("exit-only"), ("bash", "go.sh"), str(tmp_path)).remarks
    assert "go.sh, line 1 pipes the trainer into tee without pipefail" in remark
    assert remark.endswith("write 'set -eo pipefail' as its first line")
