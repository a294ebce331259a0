"""A rank that waits in the kernel, in a folder of a filesystem that does not answer: no signal ends it, SIGKILL included."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.hanging_folder import HangingFolder, why_not
from tests.integration.supervised import Supervised, double, wait_for


@pytest.mark.slow
@pytest.mark.skipif(bool(why_not()), reason=why_not())
def test_a_rank_blocked_in_the_kernel_is_blamed_and_waited_for(tmp_path: Path) -> None:
    """No second attempt is launched beside it; when the filesystem answers again, it dies and the run goes on."""
    with HangingFolder(tmp_path / "slow", {"shard": b"tokens"}) as folder:
        folder.hang()
        run = Supervised(tmp_path / "run", double(200, 0.01, read=60)).start()
        try:
            wait_for("a journal", lambda: run.facts())
            wait_for("an incident", lambda: run.incidents())
            wait_for("the end of the attempt to be asked for", lambda: "end every process of attempt 1" in run.log)
            (incident,) = run.incidents()
            assert (incident["kind"], incident["blamed_rank"]) == ("hang", 0)
            assert "rank 0 is blocked in the kernel" in incident["reason"]
            assert run.attempts() == [1]
            assert run.living()
        finally:
            folder.go_on()
        assert run.wait() == 0, run.log
    assert [(one["kind"], one["state"]) for one in run.incidents()] == [("hang", "recovered")]
    assert sorted(run.surviving()) == list(range(1, 201))
