"""An incident's report as it lies in the run directory, which others may write to: a plain file of bounded size, and no link."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import NoReturn

from sentinel.web.answers import RefusedRequest

REPORT_BYTES_MAX = 16 << 20


def read_plain_file(path: Path) -> bytes:
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        _no_report()
    with open(handle, "rb") as file:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode) or status.st_size > REPORT_BYTES_MAX:
            _no_report()
        return file.read(REPORT_BYTES_MAX)


def _no_report() -> NoReturn:
    raise RefusedRequest(404, "there is no report of this incident yet; it is written when the incident ends")
