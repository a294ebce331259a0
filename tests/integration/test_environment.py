"""A real supervisor over a program whose source is edited while it runs: the relaunch after a crash says which file changed."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

from tests.integration.forked_sentinel import run_sentinel
from tests.integration.supervised import HERE, Supervised, wait_for


def test_source_edited_under_a_run_is_named_when_it_is_relaunched(tmp_path: Path) -> None:
    script = tmp_path / "my_trainer.py"
    shutil.copy(HERE / "double_trainer.py", script)
    run = Supervised(tmp_path / "run", [sys.executable, str(script), "200", "0.01", "--kill", "120"]).start()
    wait_for("steps of the first attempt", lambda: run.last_step(1) > 20)
    script.write_text(script.read_text() + "\n# edited while it runs\n")
    assert run.wait() == 0, run.log
    crash, changed = run.incidents()
    assert (crash["kind"], crash["state"]) == ("crash", "recovered")
    assert (changed["kind"], changed["state"]) == ("environment_changed", "exhausted")
    assert f"{script.resolve()} changed" in changed["reason"]
    specs = [json.loads((run.run_dir / f"attempts/{n:04d}/spec.json").read_text())["environment"] for n in (1, 2)]
    assert specs[0]["code"][str(script.resolve())] != specs[1]["code"][str(script.resolve())]
    assert specs[0]["digests"]["code"] != specs[1]["digests"]["code"]
    assert specs[0]["distributions"] == specs[1]["distributions"]
    assert "pytest" in specs[1]["distributions"]
    status = run.status()["environment"]
    assert status["changes"] == [f"{script.resolve()} changed"]
    assert f"runs other than before: {script.resolve()} changed" in run_sentinel("lineage", str(run.run_dir)).stdout


def test_code_that_is_not_there_is_refused_before_anything_is_started(tmp_path: Path) -> None:
    run = Supervised(tmp_path / "run", [sys.executable, "-c", "0"], options=["--code", "no/such.py"]).start()
    assert run.wait() == 2
    assert "--code no/such.py: is not there" in run.log
    assert not (tmp_path / "run").exists()
