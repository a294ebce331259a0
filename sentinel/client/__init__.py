"""What any trainer imports to be supervised: emit streams, beat, obey overrides, leave a record. Standard library only.

    from sentinel.client import Session
    session = Session.from_environment()      # None without a supervisor: train as always

See `sentinel.client.session` for a whole trainer in ten lines and PROTOCOL.md, beside it, for the files behind it. A loop in
PyTorch has everything ready in `sentinel.client.torch`, which is not imported here.
"""

from sentinel.client.atomic_file import ensure_directory, fsync_directory, write_atomically
from sentinel.client.overrides import REQUESTS, Overrides, OverridesError
from sentinel.client.sample_log import SampleLog
from sentinel.client.session import PHASES, Session
from sentinel.client.settings import LAPSING
from sentinel.client.spec import Resume, Spec, SpecError, read_spec
from sentinel.client.stream import END_REASONS, Stream
from sentinel.client.strict_json import as_float, dumps, loads

__all__ = [
    "END_REASONS",
    "LAPSING",
    "PHASES",
    "REQUESTS",
    "Overrides",
    "OverridesError",
    "Resume",
    "SampleLog",
    "Session",
    "Spec",
    "SpecError",
    "Stream",
    "as_float",
    "dumps",
    "ensure_directory",
    "fsync_directory",
    "loads",
    "read_spec",
    "write_atomically",
]
