"""A glance at what was added to an attempt's stream: nothing but steps with finite numbers, or more than that?

Steps with finite numbers can wait a fraction of a second; what is no number, a receipt, an event and an end cannot. The glance
reads the bytes and parses nothing: it is there to spare the loop a turn. It knows the lines of `sentinel.client.session` and the
spellings of PROTOCOL.md. Lines of another make are never taken for such steps; a number too large for a float (1e999) is.

    glance = StreamGlance(run_dir)
    if not glance.count_finite_steps(attempt): ...      # it cannot wait
"""

from __future__ import annotations

import os
from io import FileIO
from pathlib import Path

from sentinel.client.regular_file import regular
from sentinel.client.run_layout import stream_path

STEP = b'{"kind":"step"'
NO_NUMBERS = (b"NaN", b"Infinity")
BYTES_MAX = 64 * 1024  # more than that is no glance: somebody catches up


class StreamGlance:
    """Of one run directory; used by one thread."""

    def __init__(self, run_dir: Path) -> None:
        self._run_dir = run_dir
        self._attempt: int | None = None
        self._file: FileIO | None = None

    def count_finite_steps(self, attempt: int) -> int:
        """How many steps were added since the last glance, where whole lines were, and each is a step with finite numbers. 0
        where that is not certain: at the first glance, behind a file that was cut or replaced, and where nothing can be read."""
        try:
            if attempt != self._attempt or self._file is None:
                self.close()
                self._attempt = attempt
                self._file = FileIO(str(stream_path(self._run_dir, attempt)), opener=regular)
                self._file.seek(0, os.SEEK_END)
                return 0
            text = self._file.read(BYTES_MAX) or b""
        except OSError:
            self.close()
            return 0
        if not text.endswith(b"\n") or len(text) == BYTES_MAX or any(word in text for word in NO_NUMBERS):
            self.close()  # nothing, or half a line: begun anew at its end
            return 0
        lines = text.count(b"\n")
        is_steps_alone = text.startswith(STEP) and text.count(b"\n" + STEP) == lines - 1
        return lines if is_steps_alone else 0

    def close(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            file.close()
