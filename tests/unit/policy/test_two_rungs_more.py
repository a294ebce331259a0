"""A word of a rung is one field with its row, and with a new action three files.

In a copy of sentinel with two words more, one of settings and one of an action, and nothing else changed, every place knows them.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
RUNGS = "sentinel/policy/schema_rungs.py"
ACTIONS = "sentinel/model/actions.py"
HANDLERS = "sentinel/supervisor/handlers.py"

WORDS = '''    warmup_again: Annotated[
        Steps | None,
        Word(
            "treats",
            Sets(("lr_scale",), lambda _: {"lr_scale": 0.1}, until=lambda steps: steps),
            phrase="warm up again for {} steps",
        ),
    ] = None
    """A tenth of the learning rate for so many steps."""
    snapshot_logs: Annotated[
        Flag,
        Word(
            "treats",
            Acts((SnapshotLogs,), lambda _, case: (SnapshotLogs(f"logs/{case.key}", case.incident, case.attempt or 0),)),
            phrase="copy the logs",
        ),
    ] = False
    """Copy the attempt's logs before it is stopped."""
'''
ACTION = '''@recorded_as("SnapshotLogs")
@dataclass(frozen=True, slots=True)
class SnapshotLogs(Declared):
    """Copy the log folder of an attempt to that of the incident."""

    phrase: ClassVar = "copy the logs of attempt {action.attempt}"
    place: ClassVar = "before the stop"
    if_failed: ClassVar = "go on"

    key: str
    incident: int
    attempt: int


Action = (
    SnapshotLogs |
'''
HANDLER = '''        a.SnapshotLogs: lambda action: str(
            shutil.copytree(
                attempt_folder(run_dir, action.attempt) / "logs",
                incident_folder(run_dir, action.incident) / "logs",
                dirs_exist_ok=True,
            ).name
        ),
'''
IMPORT_ACTION = "from sentinel.model.actions import SnapshotLogs\nfrom sentinel.policy.rung_words import Acts\n"
IMPORT_LAYOUT = "from sentinel.client.run_layout import attempt_folder, incident_folder\n"
CHANGES = (
    (RUNGS, '    diagnose: Annotated[\n', f"{WORDS}    diagnose: Annotated[\n"),
    (RUNGS, "from sentinel.policy.rung_words import", f"{IMPORT_ACTION}from sentinel.policy.rung_words import"),
    (ACTIONS, "Action = (\n", ACTION),
    (HANDLERS, "        a.Capture: save_evidence,\n", f"        a.Capture: save_evidence,\n{HANDLER}"),
    (HANDLERS, "import signal\n", "import shutil\nimport signal\n"),
    (HANDLERS, "from sentinel.journal.lease", f"{IMPORT_LAYOUT}from sentinel.journal.lease"),
)  # fmt: skip
FIRST = """      - lr: 0.5x
        clip_norm: 0.5
        until: 60 steps
"""
MINE = """      - warmup_again: 60 steps
      - snapshot_logs: true
      - rollback: {before_onset: 20 steps}
        snapshot_logs: true
        warmup_again: 60 steps
"""


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What `pretend_rungs.py` prints inside the copy."""
    folder = tmp_path_factory.mktemp("two_rungs_more")
    shutil.copytree(ROOT / "sentinel", folder / "sentinel", ignore=shutil.ignore_patterns("__pycache__"))
    for path, old, new in CHANGES:
        text = (folder / path).read_text()
        assert text.count(old) == 1, (path, old)
        (folder / path).write_text(text.replace(old, new))
    live = (ROOT / "tests/sim/live.yaml").read_text()
    assert FIRST in live
    policy, logs = folder / "mine.yaml", folder / "run" / "attempts" / "0001" / "logs"
    policy.write_text(live.replace(FIRST, MINE, 1))
    logs.mkdir(parents=True)
    (logs / "rank-0.log").write_text("a line\n")
    command = [sys.executable, str(Path(__file__).with_name("pretend_rungs.py")), str(policy), str(folder / "run")]
    environment = os.environ | {"PYTHONPATH": f"{folder}{os.pathsep}{ROOT}"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_at_most_three_files_were_changed() -> None:
    assert len({path for path, _, _ in CHANGES}) == 3


def test_policies_know_the_words(known: dict[str, Any]) -> None:
    assert known["schema"]["warmup_again"]["description"] == "A tenth of the learning rate for so many steps."
    assert known["schema"]["snapshot_logs"]["type"] == "boolean"
    assert len(known["wrong"]) == 1
    assert "mine.yaml: fine." in known["check"]
    (live,) = (message for message in known["without live"] if "live_overrides" in message)
    assert live == "the trainer cannot change settings while it runs (capability 'live_overrides'): this rung is passed over"
    assert known["idle"] == []


def test_explain_says_what_they_do(known: dict[str, Any]) -> None:
    rungs = dict(known["explained"])
    assert rungs["warmup_again"] == "learning rate 0.1x; warm up again for 60 steps; until step 1060; live, without a relaunch"
    assert rungs["snapshot_logs"] == "copy the logs; live, without a relaunch"
    both = rungs["rollback + warmup_again + snapshot_logs"]
    assert both.startswith("roll back to the checkpoint of step 750")
    assert both.endswith("learning rate 0.1x; warm up again for 60 steps; copy the logs; until step 1060")


def test_a_simulated_run_takes_them(known: dict[str, Any]) -> None:
    assert known["broken"] == ""
    words = [tried[0] for tried in known["tries"]]
    assert words[:3] == [["warmup_again"], ["snapshot_logs"], ["rollback", "warmup_again", "snapshot_logs"]]
    assert [tried[2] for tried in known["tries"][:3]] == [True, True, False]
    assert known["lr"][0][0] == 0.1
    assert known["lr"][0][1][0][0] == "lr_scale"
    assert ["WriteOverrides"] in known["plans"]
    assert ["SnapshotLogs"] in known["plans"]
    assert ["Capture", "SnapshotLogs", "KillAttempt", "VerifyCheckpoint", "Quarantine", "StartAttempt"] in known["plans"]


def test_the_action_is_shown_journaled_and_carried_out(known: dict[str, Any]) -> None:
    assert known["words"] == "copy the logs of attempt 1"
    assert known["line"] == "  - copy the logs of attempt 1"
    assert known["journal"]
    assert known["handled"] == "logs"
    assert known["copied"] == ["incidents/0001/logs/rank-0.log"]


def test_a_plan_goes_on_without_an_action_that_it_can_do_without(known: dict[str, Any]) -> None:
    assert [tried[0] for tried in known["failing tries"]] == [tried[0] for tried in known["tries"]]
    assert known["failing notes"][0].startswith("could not copy the logs of attempt 1: SnapshotLogs: told to fail for good")
