"""Which Python runs a command, and what is installed for it: asked of that interpreter itself, in a process with a deadline.

Nothing heavy is imported there: the directories of installed distributions are read, so a torch that cannot be imported any more
is still named, and no GPU is touched.
"""

from __future__ import annotations

import json
import os
import re
import select
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from sentinel.client.regular_file import regular
from sentinel.model.amounts import time_words

ASK_S = 10.0  # reading a few hundred directories takes a tenth of a second; a shared filesystem under load takes seconds
KILLED_S = 1.0
ANSWER_BYTES_MAX = 4 << 20
DISTRIBUTIONS_MAX = 2000
_HEAD_CHARS = 8192  # of METADATA: its lines of names stand above a description of any length
_PYTHON = re.compile(r"python(\d+(\.\d+)?)?t?$")
_SHEBANG = re.compile(rb"^#!\s*(\S+)(?:[ \t]+([^\r\n]+))?")

# sys.path without its first entry: for `-c` that is the working directory, whose json.py would be imported instead of Python's.
# A launch waits for the answer, so importlib.metadata is asked only where it knows more than what lies in the directories of the
# path: importing it takes longer than all else here. Of each distribution two lines are read by hand: its `metadata` parses the
# whole description.
_QUESTION = f"""
import sys
here = [entry for entry in sys.path if entry]
sys.path[:] = here
import json, os, re
def head_of(folder):
    for name in ("METADATA", "PKG-INFO"):
        try:
            with open(os.path.join(folder, name), encoding="utf-8") as file:
                text = file.read({_HEAD_CHARS})
                text = text if "\\n\\n" in text else text + file.read()
        except (FileNotFoundError, NotADirectoryError):
            continue
        if text:
            return text.partition("\\n\\n")[0]
    return ""
def named_in(head):
    lines = [re.search("^" + key + r":[ \\t]*(\\S.*?)[ \\t]*$", head, re.M) for key in ("Name", "Version")]
    return (lines[0][1], lines[1][1]) if all(lines) else None
def in_folders():
    for finder in sys.meta_path:
        if hasattr(finder, "find_distributions") and getattr(finder, "__name__", "") != "PathFinder":
            return None
    pairs = []
    for entry in here:
        try:
            names = os.listdir(entry)
        except FileNotFoundError:
            continue
        except OSError:
            return None
        if entry.lower().rstrip(os.sep).endswith(".egg"):
            return None
        for name in names:
            if name.lower().endswith((".dist-info", ".egg-info")):
                pair = named_in(head_of(os.path.join(entry, name)))
                if pair is None:
                    return None
                pairs.append(pair)
    return pairs
def by_metadata():
    from importlib import metadata
    for one in metadata.distributions():
        head = (one.read_text("METADATA") or one.read_text("PKG-INFO") or "").partition("\\n\\n")[0]
        pair = named_in(head) or ((one.metadata["Name"], str(one.version)) if one.metadata is not None else (None, ""))
        if pair[0]:
            yield pair
try:
    pairs = in_folders()
except (OSError, ValueError):
    pairs = None
found = {{}}
for name, version in by_metadata() if pairs is None else pairs:
    if len(found) < {DISTRIBUTIONS_MAX}:
        found.setdefault(name, version)
kinds = {{"cpython": "CPython", "pypy": "PyPy"}}
kind = kinds.get(sys.implementation.name) or __import__("platform").python_implementation()
print(json.dumps([kind, sys.version.split()[0], found, here, [os.path.dirname(os.__file__)]]))
"""


@dataclass(frozen=True, slots=True)
class Interpreter:
    """`roots`: directories of `sys.path` that hold neither the standard library nor installed distributions."""

    name: str
    distributions: tuple[tuple[str, str], ...]
    roots: tuple[str, ...]
    is_capped: bool


def find_interpreter(argv: Sequence[str], cwd: str) -> str | None:
    """The Python that the command runs, as a path: a word that names one, or the interpreter in the first line of a script (as
    of torchrun). None when neither is there, as in a shell script."""
    for word in argv:
        if _PYTHON.match(os.path.basename(word)) and (path := _which(word, cwd)) is not None:
            return path
    program = _which(argv[0], cwd) if argv else None
    return None if program is None else _of_script(program, cwd)


def _which(word: str, cwd: str) -> str | None:
    return shutil.which(os.path.join(cwd, word) if os.sep in word else word)


def _of_script(program: str, cwd: str) -> str | None:
    try:
        with open(program, "rb", opener=regular) as file:
            found = _SHEBANG.match(file.readline(512))
    except OSError:
        return None
    if found is None:
        return None
    words = [os.fsdecode(found[1]), *os.fsdecode(found[2] or b"").split()]
    named = next((word for word in words if _PYTHON.match(os.path.basename(word))), None)
    return None if named is None else _which(named, cwd)


def ask_interpreter(path: str, cwd: str, environment: Mapping[str, str], deadline_s: float = ASK_S) -> Interpreter | str:
    """Ask it; or the sentence that says why that is not known. Never raises, and never waits longer than the deadline."""
    try:
        asked = subprocess.Popen(
            [path, "-c", _QUESTION], cwd=cwd, env=dict(environment), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
    except (OSError, ValueError) as error:
        return f"{path} cannot be asked what is installed: {error}"
    answer = answer_of(asked, time.monotonic() + deadline_s)
    if answer is None:
        return f"{path} did not say within {time_words(deadline_s)} what is installed"
    if asked.returncode != 0 or len(answer) > ANSWER_BYTES_MAX:
        return f"{path} could not say what is installed (it left with {asked.returncode})"
    try:
        implementation, version, found, entries, own = json.loads(answer)
        named = tuple(sorted((str(name), str(value)) for name, value in found.items()))
        roots = tuple(str(entry) for entry in entries if not _is_installed(str(entry), own))
    except (ValueError, TypeError, AttributeError):
        return f"{path} could not say what is installed (its answer cannot be read)"
    return Interpreter(f"{implementation} {version} ({path})", named, roots, len(named) >= DISTRIBUTIONS_MAX)


def answer_of(asked: subprocess.Popen[bytes], end_s: float) -> bytes | None:
    """What it says until it leaves, never more than a little above ANSWER_BYTES_MAX; None when that is late. What does not leave
    by itself is killed with all it started: a `python` may be a script that starts another."""
    assert asked.stdout is not None
    answer = bytearray()
    with asked.stdout as pipe, suppress(subprocess.TimeoutExpired):
        looking = select.poll()
        looking.register(pipe, select.POLLIN)
        while len(answer) <= ANSWER_BYTES_MAX and looking.poll(max(0.0, end_s - time.monotonic()) * 1e3):
            data = os.read(pipe.fileno(), 1 << 16)
            if not data:
                asked.wait(max(0.0, end_s - time.monotonic()))
                return bytes(answer)
            answer += data
    with suppress(OSError):
        os.killpg(asked.pid, signal.SIGKILL)
    with suppress(subprocess.TimeoutExpired):  # one that hangs in the kernel is left to it
        asked.wait(KILLED_S)
    return bytes(answer) if len(answer) > ANSWER_BYTES_MAX else None


def _is_installed(entry: str, own: Sequence[str]) -> bool:
    kept = any(part in ("site-packages", "dist-packages", "lib-dynload") for part in entry.split(os.sep))
    return kept or entry.endswith(".zip") or entry in own
