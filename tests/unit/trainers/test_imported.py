"""What a script imports is a hint to a person who has named no profile."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from sentinel.errors import UsageError
from sentinel.supervisor.config_writing import next_steps, write_config
from sentinel.trainers.imported import hint_of
from sentinel.trainers.probe.recognise import hint_at_start
from sentinel.trainers.probe.trial import plan_trial


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        (
            'import lightning as L\nadd("--cache-dir")\nadd("--output-dir")\nadd("--save-every")\nadd("--resume")',
            "train.py imports lightning: --trainer lightning:root_flag=--output-dir,resume_flag=--resume?",
        ),
        (
            "from pytorch_lightning import Trainer\nadd('--default_root_dir'); add('--ckpt_path')",
            "train.py imports pytorch_lightning: --trainer lightning?",
        ),
        (
            "from transformers import Trainer\np.add_argument('--out')\np.add_argument('--resume_from')",
            "train.py imports transformers: --trainer hf-trainer:root_flag=--out,resume_flag=--resume_from?",
        ),
        ("from transformers import Trainer", "train.py imports transformers: --trainer hf-trainer:root=DIR?"),
    ],
)
def test_the_profile_is_named_with_the_flags_of_the_script(tmp_path: Path, text: str, hint: str) -> None:
    (tmp_path / "train.py").write_text(text)
    assert hint_of(("torchrun", "--nproc-per-node", "2", "train.py", "--x"), str(tmp_path)).startswith(hint)


@pytest.mark.parametrize(
    "text",
    [
        "import torch",
        "from transformers import AutoModel  # in a loop of its own",
        "import lightning\nfrom sentinel.integrations.lightning import SentinelCallback",
    ],
)
def test_nothing_is_said_where_no_profile_is_meant(tmp_path: Path, text: str) -> None:
    (tmp_path / "train.py").write_text(text)
    assert hint_of(("python", "train.py"), str(tmp_path)) == ""


def test_init_and_the_start_of_a_run_say_it(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import lightning\nadd('--out'); add('--ckpt')")
    words = (sys.executable, "train.py", "--out", "o")
    written = write_config(tmp_path, words, None, None, None, force=False)
    hint = "train.py imports lightning: --trainer lightning:root_flag=--out,resume_flag=--ckpt?"
    assert any(line.startswith(f"name it under `trainer`, if it is: {hint}") for line in next_steps(written))
    with pytest.raises(UsageError, match=re.escape(f"name its profile with --trainer ({hint}")):
        plan_trial(words, str(tmp_path), None, tmp_path / "probe", as_it_is=False)


def test_a_start_without_a_profile_names_the_one_whose_flags_stand_in_the_command(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import torch")
    words = (sys.executable, "train.py", "--save", "o", "--lr", "1")
    assert hint_at_start(words, str(tmp_path)) == "--save, --lr in the command: --trainer megatron?"
    assert hint_at_start(words[:2], str(tmp_path)) == ""
    (tmp_path / "train.py").write_text("from sentinel.client.torch import attach")
    assert hint_at_start(words, str(tmp_path)) == ""


def test_a_loop_that_speaks_the_contract_is_not_asked_for_a_profile(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("from sentinel.client.torch import attach")
    words = (sys.executable, "train.py")
    said = next_steps(write_config(tmp_path, words, None, None, None, force=False))
    assert said[0].endswith("train.py imports sentinel: a loop that speaks its contract needs no trainer profile")
    assert said[-1] == "next: sentinel run starts it"
    with pytest.raises(UsageError, match=r"train\.py imports sentinel.*nothing was started; sentinel run --run-dir DIR -- "):
        plan_trial(words, str(tmp_path), None, tmp_path / "probe", as_it_is=False)


def test_a_script_that_cannot_be_read_gives_no_hint(tmp_path: Path) -> None:
    assert hint_of(("python", "absent.py"), str(tmp_path)) == ""
    assert hint_of(("bash", "-c", "true"), str(tmp_path)) == ""
