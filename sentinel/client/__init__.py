"""What any trainer imports to be supervised: emit streams, beat, obey overrides, leave a record. Standard library only.

    from sentinel.client import Session
    session = Session.from_environment()      # None without a supervisor: train as always

See `sentinel.client.session` for a whole trainer in ten lines and PROTOCOL.md, beside it, for the files behind it. A loop in
PyTorch has everything ready in `sentinel.client.torch`, which is not imported here.

A name's module is imported when the name is first asked for: a trainer that writes a stream pays for a stream, and a command of
Sentinel that masks a text pays for that.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # for type checkers and editors, which do not run `__getattr__`
    from sentinel.client.atomic_file import ensure_directory as ensure_directory
    from sentinel.client.atomic_file import fsync_directory as fsync_directory
    from sentinel.client.atomic_file import write_atomically as write_atomically
    from sentinel.client.overrides import REQUESTS as REQUESTS
    from sentinel.client.overrides import Overrides as Overrides
    from sentinel.client.overrides import OverridesError as OverridesError
    from sentinel.client.sample_log import SampleLog as SampleLog
    from sentinel.client.session import PHASES as PHASES
    from sentinel.client.session import Session as Session
    from sentinel.client.settings import LAPSING as LAPSING
    from sentinel.client.spec import Resume as Resume
    from sentinel.client.spec import Spec as Spec
    from sentinel.client.spec import SpecError as SpecError
    from sentinel.client.spec import read_spec as read_spec
    from sentinel.client.stream import END_REASONS as END_REASONS
    from sentinel.client.stream import Stream as Stream
    from sentinel.client.strict_json import as_float as as_float
    from sentinel.client.strict_json import dumps as dumps
    from sentinel.client.strict_json import loads as loads

_MODULE_OF = {
    "ensure_directory": "atomic_file",
    "fsync_directory": "atomic_file",
    "write_atomically": "atomic_file",
    "REQUESTS": "overrides",
    "Overrides": "overrides",
    "OverridesError": "overrides",
    "SampleLog": "sample_log",
    "PHASES": "session",
    "Session": "session",
    "LAPSING": "settings",
    "Resume": "spec",
    "Spec": "spec",
    "SpecError": "spec",
    "read_spec": "spec",
    "END_REASONS": "stream",
    "Stream": "stream",
    "as_float": "strict_json",
    "dumps": "strict_json",
    "loads": "strict_json",
}
__all__ = sorted(_MODULE_OF)


def __getattr__(name: str) -> Any:
    """A public name, kept here once its module is imported. Raises AttributeError."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
