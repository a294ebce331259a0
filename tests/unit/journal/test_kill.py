"""A supervisor killed with SIGKILL while it writes loses nothing it was told is safe, and leaves no half batch."""

from __future__ import annotations

import os
import random
import select
import signal
import subprocess
import sys
from pathlib import Path
from typing import Literal

import pytest

from sentinel.journal.store import Journal
from sentinel.model.facts import StepsLost

WRITER = """
import os, sys
from pathlib import Path
from sentinel.journal.store import Journal
from sentinel.model.facts import StepsLost

journal = Journal.open(Path(sys.argv[1]), mode=sys.argv[2])
epoch = journal.claim_epoch()
for batch in range(1_000_000):
    size = batch % 4 + 1
    entries = journal.append(float(batch), [StepsLost(batch, size)] * size, epoch)
    os.write(1, b"%d\\n" % entries[-1].seq)
"""


def write_until_killed(path: Path, mode: str, batches: int) -> int:
    """Kill the writer after it acknowledged `batches`; the last entry number it acknowledged at all."""
    with subprocess.Popen([sys.executable, "-c", WRITER, str(path), mode], stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        said = b""
        while said.count(b"\n") < batches:
            assert select.select([writer.stdout], [], [], 30)[0], "the writer is stuck"
            chunk = os.read(writer.stdout.fileno(), 4096)
            assert chunk, "the writer ended by itself"
            said += chunk
        writer.send_signal(signal.SIGKILL)
        said += writer.stdout.read()
        assert writer.wait(30) == -signal.SIGKILL
    return int(said[: said.rindex(b"\n")].split(b"\n")[-1])


@pytest.mark.parametrize(("mode", "rounds"), [("wal", 12), ("delete", 6)])
def test_no_acknowledged_fact_is_lost_to_kill_9(tmp_path: Path, mode: Literal["wal", "delete"], rounds: int) -> None:
    path = tmp_path / "sentinel.db"
    dice = random.Random(7)
    for killed in range(1, rounds + 1):
        acknowledged = write_until_killed(path, mode, dice.randrange(1, 60))
        if mode == "wal":  # what `sentinel status` sees after a crash; a torn rollback journal only a writer can mend
            with Journal.open(path, read_only=True) as reader:
                assert sum(1 for _ in reader.read_entries()) >= acknowledged
        with Journal.open(path, mode=mode) as journal:
            entries = list(journal.read_entries())
            assert journal.epoch() == killed
        assert [entry.seq for entry in entries] == list(range(1, len(entries) + 1))
        assert len(entries) >= acknowledged
        last = entries[-1].fact
        assert isinstance(last, StepsLost)
        tail = [entry.fact for entry in entries if entry.epoch == killed]
        assert tail[-last.steps :] == [last] * last.steps, "half a batch"
