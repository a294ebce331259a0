"""One unchanged trainer under its profile, hurt once, supervised by a real `sentinel run`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from tests.integration.supervised import Supervised

HERE = Path(__file__).resolve().parent


def hurt(script: str, *arguments: object, **faults: object) -> list[str]:
    """The command of a script of this folder, which strikes these faults once each."""
    words = ["env", f"FAULTS={json.dumps(faults)}", sys.executable, str(HERE / script)]
    return [*words, *map(str, arguments)]


def supervise(place: Path, trainer: str, command: list[str], policy: str = "demo", deadline_s: float = 240.0) -> Supervised:
    """Run it to its end."""
    run = Supervised(place, command, policy, ["--trainer", trainer]).start()
    assert run.wait(deadline_s) == 0, run.log
    assert run.status()["state"] == "finished"
    assert not run.living()
    return run


def give_up(place: Path, trainer: str, command: list[str], policy: str = "demo", deadline_s: float = 900.0) -> Supervised:
    """Run it until Sentinel calls a person and ends it: it has no means for what befalls it."""
    run = Supervised(place, command, policy, ["--trainer", trainer]).start()
    assert run.wait(deadline_s) == 1, run.log
    assert run.status()["state"] == "failed"
    assert not run.living()
    return run


def passed_over(incident: dict[str, Any]) -> list[str]:
    """Why rungs were not taken."""
    return [remedy["reason"] for remedy in incident["remedies"] if remedy["outcome"] == "passed_over"]


def proofs(incident: dict[str, Any]) -> dict[str, str]:
    """Setting → grade, over the remedies of an incident."""
    return {proof["key"]: proof["grade"] for remedy in incident["remedies"] for proof in remedy.get("proofs", ())}


def told(folder: Path) -> list[list[str]]:
    """The arguments of each start of a stand-in, as it wrote them down."""
    return [json.loads(line) for line in (folder / "commands.jsonl").read_text().splitlines()]
