"""What pages need to know is sentinel's own: the training it launches does not inherit it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from sentinel.channels.opening import secret_variables
from sentinel.launcher.local import LocalLauncher
from sentinel.model.attempts import AttemptSpec, SettingsInForce
from sentinel.policy.schema_paging import Paging
from tests.integration.supervised import wait_for

PAGING = {
    "routes": [
        {"terminal": {}},
        {"pagerduty": {"routing_key": {"env": "PAGER_KEY"}}},
        {"webhook": {"url": "http://127.0.0.1:1/", "secret": {"file": "/etc/secret"}}},
    ],
    "dead_man": {"url": {"env": "DEAD_MAN_URL"}},
}
TELLS = "import json, os; open('seen.new', 'w').write(json.dumps(sorted(os.environ))); os.rename('seen.new', 'seen.json')"


def test_the_secrets_of_pages_are_not_handed_on_to_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    withheld = secret_variables(Paging.model_validate(PAGING))
    assert withheld == {"PAGER_KEY", "DEAD_MAN_URL"}
    for name in (*withheld, "WANDB_API_KEY"):
        monkeypatch.setenv(name, "s3cret-s3cret")
    spec = AttemptSpec(1, (sys.executable, "-I", "-S", "-c", TELLS), str(tmp_path), None, SettingsInForce())
    LocalLauncher(tmp_path, withheld=withheld).ensure_started(spec)
    seen = tmp_path / "seen.json"
    wait_for("its environment", seen.exists)
    names = set(json.loads(seen.read_text()))
    assert not names & withheld
    assert {"WANDB_API_KEY", "SENTINEL_RUN_DIR"} <= names, "everything else is as it was"
