"""A trainer that prints why it dies, under a real supervisor: the incident says so, and what cannot help is not tried."""

from __future__ import annotations

import json
from pathlib import Path

from tests.integration.supervised import Supervised, double


def test_a_cuda_out_of_memory_is_named_and_resumed(tmp_path: Path) -> None:
    run = Supervised(tmp_path / "run", double(120, oom=60)).start()
    assert run.wait() == 0, run.log
    (incident,) = run.incidents()
    assert (incident["kind"], incident["state"], incident["blamed_rank"]) == ("crash", "recovered", 0)
    assert "out of memory on rank 0: CUDA out of memory. Tried to allocate 2.50 GiB" in json.dumps(incident)
    assert sorted(run.surviving()) == list(range(1, 121))


def test_a_missing_module_is_a_broken_job_at_once(tmp_path: Path) -> None:
    run = Supervised(tmp_path / "run", double(50, missing=True)).start()
    assert run.wait() != 0, run.log
    (incident,) = run.incidents()
    assert (incident["kind"], incident["state"]) == ("broken_job", "exhausted")
    assert "import or configuration error" in json.dumps(incident)
    assert "ModuleNotFoundError: No module named 'flash_attention_of_nobody'" in json.dumps(incident)
    assert len(run.attempts()) == 1, "it was tried again"
