"""Run inside a copy of sentinel whose table has one row more, `dropout`: prints as JSON what each place makes of it.

test_one_row_more.py makes the copy and runs this file; no other file of sentinel is changed.
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from sentinel.actions.control_file import write_overrides
from sentinel.cli.root import app
from sentinel.client import Session, dumps, loads, read_spec
from sentinel.errors import UsageError
from sentinel.journal.codec import decode_fact, encode_fact
from sentinel.launcher.spec_file import write_spec
from sentinel.model import facts as f
from sentinel.model.actions import WriteOverrides
from sentinel.model.attempts import AttemptSpec, SettingsInForce
from sentinel.model.operator_requests import ChangeSettings
from sentinel.model.readings import Receipt
from sentinel.operator.requests import read_settings
from sentinel.plan.overrides import judge_effective, judge_receipt
from sentinel.policy.schema_problems import validate_rung
from sentinel.policy_files.loading import load_policy
from sentinel.policy_files.schema_json import policy_json_schema
from sentinel.report.chronicle.effects import changes_between
from sentinel.report.documents import incident_document
from sentinel.report.lineage import Lineage
from sentinel.report.schedule import SettingsHistory, schedule_rows
from sentinel.report.settings import setting_text, settings_asked
from sentinel.run_files.attempt_files import AttemptFiles
from sentinel.sim.faults import parse_fault
from sentinel.sim.run import run_scenario
from sentinel.sim.scenarios import Scenario
from sentinel.sim.shape import Shape
from sentinel.telemetry.inbox import Inbox, post

ASKED: Any = replace(SettingsInForce("ov-1.change"), dropout=0.3)


def policy_and_command(folder: Path) -> dict[str, Any]:
    wrong = validate_rung({"dropout": 1.5})[1][0]
    settings, keys, until = read_settings(["dropout=0.3", "until=50 steps"], live=True)
    try:
        read_settings(["dropout=2"], live=True)
        refusal = ""
    except UsageError as error:
        refusal = str(error)
    post(folder, "a person", ChangeSettings(settings, keys, until), 1)
    (heard,) = Inbox(folder).poll(0.0)
    return {
        "schema": policy_json_schema()["$defs"]["Rung"]["properties"]["dropout"],
        "wrong rung": [wrong.path, wrong.message, wrong.remedy],
        "set": [settings.dropout, keys, until],
        "set refused": refusal,
        "help": CliRunner().invoke(app, ["set", "--help"]).output,
        "inbox": [heard.request.settings.dropout, heard.request.keys],
    }


def files_and_receipts(folder: Path) -> dict[str, Any]:
    files = AttemptFiles.of(folder, 1)
    write_spec(files, AttemptSpec(1, ("true",), str(folder), None, SettingsInForce()))
    session = Session(folder, read_spec(files.spec))
    write_overrides(folder, WriteOverrides("key", 1, ASKED))
    heard = session.poll_overrides()
    write_spec(files, AttemptSpec(1, ("true",), str(folder), None, ASKED))
    good, bad = (Receipt(1, 0.0, 0, None, 1, {}, {"dropout": value}) for value in (0.3, 0.1))
    return {
        "overrides.json": [loads((folder / "overrides.json").read_bytes())["dropout"], heard.dropout, "dropout" in heard.given],
        "spec.json": read_spec(files.spec).overrides.dropout,
        "receipt": [judge_receipt(ASKED, None, good), judge_receipt(ASKED, None, bad)],
        "answer": judge_effective(ASKED, {"dropout": 0.1}),
    }


def simulated(policy: Path) -> dict[str, Any]:
    """A rung of it tried in the simulator: what was asked, what the simulated trainer answers, what is kept of the remedy."""
    shape = Shape(steps=400, step_s=0.4, startup_s=2.0, checkpoint_every=20)
    result = run_scenario(Scenario(seed=1, shape=shape, faults=(parse_fault("unstable@step=100"),)), load_policy(policy), 600.0)
    facts = [entry.fact for entry in result.entries]
    taken = next(fact for fact in facts if isinstance(fact, f.RungTaken))
    kind, body = encode_fact(taken)
    plain = json.loads(body)
    del plain["remedy"]["dropout"]
    written = [fact.action for fact in facts if isinstance(fact, f.ActionDecided) and isinstance(fact.action, WriteOverrides)]
    return {
        "broken": result.broken,
        "remedy": [taken.remedy.reason, taken.remedy.dropout],
        "incidents": incident_document(result.state.incidents[0])["remedies"][0]["dropout"],
        "journal": [decode_fact(kind, body) == taken, decode_fact(kind, json.dumps(plain)).remedy.dropout],
        "written": [dict(written[0].overrides.until).keys() >= {"dropout"}, dict(written[0].overrides.owners)["dropout"]],
        "answered": [fact.step for fact in facts if isinstance(fact, f.OverridesAnswered)] != [],
        "mismatch": [str(i.kind) for i in result.state.incidents if "not run as asked" in i.reason],
    }


def main(folder: Path, policy: Path) -> None:
    lineage, schedule = Lineage(), SettingsHistory()
    for fact in (f.AttemptLaunched(1, None, ASKED, "why"), f.ReceiptSeen(1, 0, 2)):
        lineage.take(fact)
        schedule.take(fact)
    cost = schedule.document(lineage.branches(100), None)
    shown = {
        "schedule": [cost["steps_under"], schedule_rows(cost)[0][1]],
        "chronicle": changes_between(SettingsInForce(), ASKED),
        "report": [settings_asked(ASKED), setting_text("dropout", 0.3)],
    }
    print(dumps(policy_and_command(folder) | files_and_receipts(folder) | simulated(policy) | shown))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
