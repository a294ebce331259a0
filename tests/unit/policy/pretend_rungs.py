"""Run inside a copy of sentinel whose language has two words more: prints as JSON what each place makes of them.

test_two_rungs_more.py makes the copy and runs this file.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from sentinel.channels import registry as _registry  # noqa: F401 - completes the language
from sentinel.journal.codec import decode_fact, encode_fact
from sentinel.model import actions as a
from sentinel.model import facts as f
from sentinel.policy.schema_problems import validate_rung
from sentinel.policy_files.check import check_files
from sentinel.policy_files.explain import Assumed, explain
from sentinel.policy_files.loading import load_policy
from sentinel.policy_files.schema_json import policy_json_schema
from sentinel.replay.findings import IDLE_WORDS
from sentinel.sim.faults import parse_fault
from sentinel.sim.run import SimulationResult, run_scenario
from sentinel.sim.scenarios import Scenario
from sentinel.sim.shape import Shape
from sentinel.supervisor.handlers import build_handlers
from sentinel.terminal.words import action_words, describe

SPIKE = "spike@step=120:length=60,height=3"


def simulated(policy: Path, *faults: str) -> SimulationResult:
    shape = Shape(steps=400, ranks=2, checkpoint_every=25)
    return run_scenario(Scenario(1, shape, tuple(parse_fault(text) for text in faults)), load_policy(policy), 3600.0)


def tries(found: SimulationResult) -> list[list[Any]]:
    taken = (one for incident in found.state.incidents for one in incident.tries)
    return [[list(one.remedy.words), one.remedy.reason, one.remedy.live, str(one.outcome)] for one in taken]


def main(policy: Path, run_dir: Path) -> dict[str, Any]:
    found = simulated(policy, SPIKE)
    failing = simulated(policy, SPIKE, "fails@action=SnapshotLogs:times=9,retry=0")
    snapshot: Any = next(e.fact.action for e in found.entries if isinstance(e.fact, f.ActionDecided) and snapshots(e.fact.action))
    none: Any = None
    held: Any = SimpleNamespace(hold=lambda: None)
    handlers = build_handlers(run_dir, none, held, none, none, frozenset())
    plans = [[type(x).__name__ for x in e.fact.actions] for e in found.entries if isinstance(e.fact, f.PlanAdopted)]
    decided = f.ActionDecided(snapshot)
    line = describe(decided, 0.0, found.state)
    return {
        "schema": {word: policy_json_schema()["$defs"]["Rung"]["properties"][word] for word in ("warmup_again", "snapshot_logs")},
        "wrong": [problem.message for problem in validate_rung({"warmup_again": "much"})[1]],
        "check": check_files([str(policy)]).text,
        "without live": [p.message for p in check_files([str(policy)], "skip").files[0].problems],
        "explained": explain(load_policy(policy), "spike", Assumed()).rungs,
        "idle": [word for word in ("warmup_again", "snapshot_logs") if word in IDLE_WORDS],
        "broken": str(found.broken),
        "tries": tries(found),
        "plans": plans,
        "lr": [[e.fact.action.overrides.lr_scale, e.fact.action.overrides.until] for e in found.entries if writes(e.fact)],
        "words": action_words(snapshot),
        "line": line.text if line else "",
        "journal": decode_fact(*encode_fact(decided)) == decided,
        "handled": handlers[type(snapshot)](snapshot),
        "copied": sorted(str(path.relative_to(run_dir)) for path in (run_dir / "incidents").rglob("*.log")),
        "failing tries": tries(failing),
        "failing notes": [e.fact.reason for e in failing.entries if isinstance(e.fact, f.Noted) and "could not" in e.fact.reason],
    }


def snapshots(action: a.Action) -> bool:
    return type(action).__name__ == "SnapshotLogs"


def writes(fact: f.Fact) -> bool:
    return isinstance(fact, f.ActionDecided) and isinstance(fact.action, a.WriteOverrides)


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]), Path(sys.argv[2]))))
