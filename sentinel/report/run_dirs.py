"""What is the directory of a run, and what is not."""

from __future__ import annotations

from pathlib import Path

from sentinel.client.run_layout import JOURNAL_NAME, RUN_FILE_NAME
from sentinel.errors import UsageError


def check_run_dir(run_dir: Path) -> None:
    """Raises UsageError with a clear sentence for what is not the directory of a run."""
    try:
        names = {entry.name for entry in run_dir.iterdir()}
    except FileNotFoundError:
        raise UsageError(f"{run_dir}: there is no such directory; name the directory of a run, such as runs/demo") from None
    except NotADirectoryError:
        raise UsageError(f"{run_dir}: is a file; name the directory of a run") from None
    except OSError as error:
        raise UsageError(f"{run_dir}: cannot be read: {error.strerror}; check the rights of this user") from error
    if JOURNAL_NAME in names:
        return
    if RUN_FILE_NAME in names:
        raise UsageError(f"{run_dir}: holds a {RUN_FILE_NAME} but no journal ({JOURNAL_NAME}); restore it from a copy")
    raise UsageError(f"{run_dir}: is not the directory of a run: it holds no journal ({JOURNAL_NAME}); `sentinel run` makes one")
