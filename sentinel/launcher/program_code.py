"""The source files of a command's program: the script or module it names, and what of the same project that imports.

Imports are read, never carried out. Only files below the directories that are the project's own count: the command's directory,
the script's, and what the interpreter's path adds to the installed libraries. What is imported under a computed name is not found
so; `sentinel run --code PATH` names it instead.
"""

from __future__ import annotations

import ast
import hashlib
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

FILES_MAX = 512
FILE_BYTES_MAX = 4 << 20
BYTES_MAX = 64 << 20
ENTRIES_MAX = 20_000  # of directories looked through
CONFIG_SUFFIXES = (".yaml", ".yml", ".json", ".toml", ".ini", ".cfg", ".conf", ".gin", ".sh")
PASSED_OVER = ("__pycache__", "node_modules", "site-packages")
IMPORTS_MAX = 8 * FILES_MAX
Import = tuple[int, tuple[str, ...]]  # how many packages up it is relative to, 0 for none, and the words of its name
Known = dict[tuple[str, str], tuple[str, str | None]]  # folder and word → `_look_for`; every source imports the same few names
_IMPORTS: dict[str, tuple[Import, ...]] = {}
"""sha256 of a source → its imports. Every launch reads and digests every file. The same bytes import the same as before, and to
parse a hundred of them took longer than anything else that a relaunch waits for."""


@dataclass(slots=True)
class Reading:
    """Files as they are read: `found` by path, `capped` why some are missing. `is_late` says that the time is up."""

    is_late: Callable[[], bool]
    found: dict[str, str] = field(default_factory=dict)
    capped: dict[str, None] = field(default_factory=dict)  # in order, each once
    bytes_read: int = 0

    def read(self, path: str) -> bytes | None:
        """The file's bytes, its digest kept; None when it is no plain file, too much, or too late."""
        if path in self.found:
            return None
        if len(self.found) >= FILES_MAX or self.bytes_read >= BYTES_MAX or self.is_late():
            limit = f"{FILES_MAX} files, {BYTES_MAX >> 20} MiB, or the time for it"
            self.capped[f"not every file of the program was read: the limit is {limit}"] = None
            return None
        try:
            with open(path, "rb", buffering=0, opener=_open_at_once) as file:
                if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                    return None
                data = file.read(FILE_BYTES_MAX + 1)
        except (OSError, ValueError) as error:
            self.capped[f"{path} cannot be read: {getattr(error, 'strerror', None) or error}"] = None
            return None
        self.bytes_read += len(data)
        if len(data) > FILE_BYTES_MAX:
            self.capped[f"{path} is larger than {FILE_BYTES_MAX >> 20} MiB and was left out"] = None
            return None
        self.found[path] = hashlib.sha256(data).hexdigest()
        return data


def _open_at_once(path: str, flags: int) -> int:
    """A pipe of a file's name is opened, too, without waiting for whoever writes to it."""
    return os.open(path, flags | os.O_NONBLOCK)


def read_program(argv: Sequence[str], cwd: str, roots: Iterable[str], reading: Reading) -> bool:
    """Read what the command's words name and import; False when they name no source of the project."""
    starts = [*_scripts(argv, cwd)]
    own = dict.fromkeys([os.path.dirname(path) for path in starts] + [os.path.realpath(cwd), *map(os.path.realpath, roots)])
    places = list(own)
    waiting = [*starts]
    for module in _modules(argv):
        waiting += _of_module(module, places)
    began = bool(waiting)
    known: Known = {}
    while waiting:
        path = waiting.pop()
        data = reading.read(path)
        if data is not None:
            waiting += _imported(path, data, reading.found[path], places, known)
    return began


def read_paths(paths: Iterable[str], cwd: str, reading: Reading) -> list[str]:
    """Read the files named, and every Python file below the directories named; those that are not there, as sentences."""
    missing = []
    for named in paths:
        path = os.path.realpath(os.path.join(cwd, named))
        if os.path.isdir(path):
            for found in _below(path, reading):
                reading.read(found)
        elif os.path.exists(path):
            reading.read(path)
        else:
            missing.append(f"code: {named} is not there")
    return missing


def config_files(argv: Sequence[str], cwd: str) -> Iterator[str]:
    """Files that words of the command name, alone or behind `=`, and that look like configuration."""
    for word in argv[1:] if argv else ():
        for text in (word, word.partition("=")[2]):
            path = os.path.realpath(os.path.join(cwd, text)) if text.endswith(CONFIG_SUFFIXES) and "\0" not in text else ""
            if path and os.path.isfile(path):
                yield path


def _below(folder: str, reading: Reading) -> Iterator[str]:
    seen = 0
    for place, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name not in PASSED_OVER)
        folders[:] = [name for name in folders if not os.path.exists(os.path.join(place, name, "pyvenv.cfg"))]
        seen += len(folders) + len(files)
        if seen > ENTRIES_MAX or reading.is_late():
            reading.capped[f"{folder} holds too much to look through; name what matters with --code"] = None
            return
        yield from (os.path.join(place, name) for name in sorted(files) if name.endswith(".py"))


def _scripts(argv: Sequence[str], cwd: str) -> Iterator[str]:
    for word in argv:
        path = os.path.realpath(os.path.join(cwd, word)) if word.endswith(".py") and "\0" not in word else ""
        if path and os.path.isfile(path):
            yield path


def _modules(argv: Sequence[str]) -> Iterator[str]:
    """`-m trainer`, and torchrun's `--module trainer`."""
    yield from (after for word, after in pairwise(argv) if word in ("-m", "--module"))


def _of_module(name: str, places: Sequence[str]) -> list[str]:
    """A module run with -m: all of its package, for what runs is found by name there."""
    for place in places:
        base = os.path.join(place, *name.split("."))
        if os.path.isfile(os.path.join(base, "__main__.py")):
            try:
                return sorted(os.path.join(base, entry) for entry in os.listdir(base) if entry.endswith(".py"))
            except OSError:  # it may be entered and not listed
                return [os.path.join(base, "__main__.py")]
        if os.path.isfile(f"{base}.py"):
            return [f"{base}.py"]
    return []


def _imported(path: str, data: bytes, digest: str, places: Sequence[str], known: Known) -> list[str]:
    """Files of the project that this one imports. `known`: of this reading."""
    if not path.endswith(".py"):
        return []
    if digest not in _IMPORTS:
        if len(_IMPORTS) >= IMPORTS_MAX:
            _IMPORTS.clear()
        _IMPORTS[digest] = _imports_of(data)
    found: dict[str, None] = {}
    for level, words in _IMPORTS[digest]:
        found |= dict.fromkeys(_files_of(words, places if level == 0 else [_parent(path, level)], known))
    return list(found)


def _imports_of(data: bytes) -> tuple[Import, ...]:
    """What a source imports, as it says it, each once."""
    try:
        tree = ast.parse(data)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ()  # Python will say so itself
    imports: dict[Import, None] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imports |= dict.fromkeys((0, tuple(alias.name.split("."))) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            words = tuple(node.module.split(".")) if node.module else ()
            imports[node.level, words] = None
            imports |= dict.fromkeys((node.level, (*words, alias.name)) for alias in node.names)
    return tuple(imports)


def _parent(path: str, level: int) -> str:
    for _ in range(max(level, 1)):
        path = os.path.dirname(path)
    return path


def _files_of(words: Sequence[str], places: Sequence[str], known: Known) -> Iterator[str]:
    """The module's file and the `__init__.py` of every package above it, from the first place that has the first word."""
    for place in places:
        base, found = place, []
        for word in words:
            if (seen := known.get((base, word))) is None:
                seen = known[base, word] = _look_for(base, word)
            base, file = seen
            if file is not None:
                found.append(file)
        if found:
            yield from found
            return


def _look_for(folder: str, word: str) -> tuple[str, str | None]:
    """Where the package of this name would lie, and the file that is the package or the module, if there is one."""
    base = os.path.join(folder, word)
    files = (os.path.join(base, "__init__.py"), f"{base}.py")
    return base, next((file for file in files if os.path.isfile(file)), None)
