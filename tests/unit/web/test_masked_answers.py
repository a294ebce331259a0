"""No answer of the site holds a secret, whatever an older journal holds; and what a page needs is still there."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from sentinel.metrics.exposition import exposition
from sentinel.model import facts as f
from sentinel.web.answers import encode
from sentinel.web.routes import ROUTES
from sentinel.web.site import SiteServices
from tests.unit import told_run
from tests.unit.web.web_kit import BEARER, TOKEN, served, write_told

LISTED, SHAPED = "listed-secret-0001", "hf_abcdefghijklmnop0123"


def leaking(until: float) -> list[tuple[float, f.Fact]]:
    """The told run, as a version wrote it that masked nothing."""
    said = f"401 for {LISTED} with {SHAPED}"
    facts = TOLD(until)
    created = facts[0][1]
    assert isinstance(created, f.RunCreated)
    begun = replace(created, command=("train.py", "--hf-token", SHAPED, f"--x={LISTED}"))
    more = [(0.05, f.Noted("login", said)), (0.06, f.SourceChanged("kernel_log", False, said))]
    return [(0, begun), *facts[1:3], *more, *facts[3:]]


TOLD = told_run.told


def test_no_route_shows_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(told_run, "told", leaking)
    run_dir = write_told(tmp_path)
    assert SHAPED.encode() in (run_dir / "sentinel.db").read_bytes()
    monkeypatch.setenv("WANDB_API_KEY", LISTED)
    seen = b""
    with served(tmp_path, token=TOKEN, services=SiteServices(exposition)) as site:
        for route in ROUTES:
            if route.method == "GET" and "FILE" not in route.path:
                path = route.path.replace("NAME", "demo").replace("/N/", "/1/").replace("/N", "/1")
                path += "?metrics=loss" if path.endswith("/curves") and "demo" in path else ""
                answer = site.get(path, BEARER)
                assert answer.status in (200, 404), (path, answer.body)
                seen += answer.body
    assert b"401 for *** with ***" in seen
    assert LISTED.encode() not in seen
    assert SHAPED.encode() not in seen


def test_an_answer_keeps_what_only_sounds_like_a_secret() -> None:
    document = {"tokens_per_s": 12.5, "reason": "max_tokens 4096, tokenizer gpt2", "curves": {"loss": [[1, 2.5], [2, 2.25]]}}
    assert json.loads(encode(document)) == document
