"""On a full disk every word that cannot be written is lost, and nothing else: keepers, the narrator and pages go on."""

from __future__ import annotations

import errno
import io
from pathlib import Path

import pytest

from sentinel.channels.terminal import Terminal
from sentinel.client import spare_place
from sentinel.client.spare_place import SparePlace
from sentinel.launcher import keeper
from sentinel.model.attempts import ExitReport
from sentinel.run_files.attempt_files import AttemptFiles
from sentinel.terminal.plain import LineWriter
from tests.unit.channels.notices import notice

FULL = OSError(errno.ENOSPC, "no space left on device")


class AlwaysFull(io.StringIO):
    def write(self, text: str) -> int:
        raise FULL


def test_a_keeper_whose_log_is_full_too_still_writes_its_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path / "none"))
    monkeypatch.setattr(spare_place, "PLACES", ())
    files, write, left = AttemptFiles.of(tmp_path, 1), keeper.write_report, [FULL, FULL]
    files.make_folders()

    def write_later(*arguments: object) -> None:
        if left:
            raise left.pop()
        write(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(keeper, "write_report", write_later)
    monkeypatch.setattr(keeper, "REPORT_RETRY_S", 0.0)
    monkeypatch.setattr("sys.stderr", AlwaysFull())
    assert keeper._write_surely(files, SparePlace(tmp_path, 1), ExitReport(0, (), None, "ended"))
    assert files.exit.exists()


class OnceFull(io.StringIO):
    def write(self, text: str) -> int:
        if not self.getvalue() and "first" in text:
            raise FULL
        return super().write(text)


def test_the_narrator_goes_on_after_a_line_that_could_not_be_written() -> None:
    out = OnceFull()
    writer = LineWriter(out)
    writer.put("first")
    writer.put("second")
    writer.close()
    assert out.getvalue() == "second\n"


def test_a_page_that_cannot_be_kept_is_printed_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "incidents").touch()
    out = io.StringIO()
    said = Terminal(tmp_path, out).deliver(notice("trigger", title="run: crash"))
    assert said.startswith("printed, but not kept")
    assert "PAGE (critical) run: crash" in out.getvalue()


def test_a_page_that_cannot_be_printed_is_kept_and_one_that_can_be_neither_fails(tmp_path: Path) -> None:
    page = notice("trigger", title="run: crash")
    assert Terminal(tmp_path, AlwaysFull()).deliver(page).startswith("kept, but not printed")
    assert (tmp_path / "incidents" / "0004" / "page.json").exists()
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="no space"):
        Terminal(tmp_path / "file", AlwaysFull()).deliver(page)
