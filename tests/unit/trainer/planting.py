"""Checkpoint files that would run code if they were unpickled, and a manifest that agrees with them."""

import io
import json
import pickle
import struct

import torch
from torch.distributed.checkpoint.metadata import BytesStorageMetadata, Metadata, MetadataIndex, TensorStorageMetadata

from trainer.checkpoint import digest_of


def plain(value):
    """The opcodes that put a plain value on the stack: no header, no memo, no end."""
    if isinstance(value, tuple):
        return b"(" + b"".join(map(plain, value)) + b"t"
    if isinstance(value, str):
        return b"X" + struct.pack("<I", len(value.encode())) + value.encode()
    if isinstance(value, bytes):
        return b"B" + struct.pack("<I", len(value)) + value
    return {None: b"N", True: b"\x88", False: b"\x89"}[value]


def named(module, name, protocol=2):
    return plain(module) + plain(name) + b"\x93" if protocol >= 4 else f"c{module}\n{name}\n".encode()


def calling(module, name, *arguments, protocol=2):
    """Puts on the stack what a function returns."""
    return named(module, name, protocol) + plain(arguments) + b"R"


def whole(opcodes, protocol=2):
    return b"\x80" + bytes([protocol]) + opcodes + b"."


class Runs:
    """Pickled as a call of any function that can be named."""

    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


def saved(value, **how):
    """As torch.save writes it."""
    file = io.BytesIO()
    torch.save(value, file, **how)
    return file.getvalue()


def gadgets(mark):
    """What it is → (the pickle, the name that a refusal has to tell). Unpickled by Python, each creates the file `mark`."""
    shell, writes = f"touch {mark}", f"open({str(mark)!r}, 'w')"
    system, given = named("posix", "system"), plain((shell,))
    evil, dots = system + given + b"R", "os.system"
    index = "torch.distributed.checkpoint.metadata"
    module = calling("importlib", "import_module", "os")
    partial = named("functools", "partial") + b"(" + named("builtins", "print") + b"t\x81"
    mapped = named("copyreg", "__newobj__") + b"(" + named("builtins", "map") + system + given + b"tRq\x000"
    holds = Metadata({}, planner_data={"deep": [{"er": (1, Runs(exec, writes))}]})
    return {
        "reduce": (whole(evil), "posix.system"),
        "a name of Python 2": (whole(calling("__builtin__", "eval", writes)), "__builtin__.eval"),
        "protocol 4": (whole(calling("builtins", "exec", writes, protocol=4), 4), "builtins.exec"),
        "dots": (whole(calling("torch.serialization", dots, shell, protocol=4), 4), f"torch.serialization.{dots}"),
        "dots behind an admitted module": (
            whole(calling("torch", f"serialization.{dots}", shell, protocol=4), 4),
            f"torch.serialization.{dots}",
        ),
        "dots behind the classes": (whole(calling(index, dots, shell, protocol=4), 4), f"{index}.{dots}"),
        "inst": (b"(S'" + shell.encode() + b"'\niposix\nsystem\n.", "posix.system"),
        "obj": (whole(b"(" + system + plain(shell) + b"o"), "posix.system"),
        "getattr": (
            whole(named("builtins", "getattr") + b"(" + module + plain("system") + b"tR" + given + b"R"),
            "builtins.getattr",
        ),
        "partial, by its state": (whole(partial + b"(" + system + given + b"}Ntb)R"), "functools.partial"),
        "copyreg": (whole(mapped + named("builtins", "list") + b"(h\x00tR"), "copyreg.__newobj__"),
        "torch's own unpickler": (
            whole(calling("torch.storage", "_load_from_bytes", saved(Runs(exec, writes)))),
            "torch.storage._load_from_bytes",
        ),
        "torch._utils": (
            whole(calling("torch._utils", "_import_dotted_name", dots) + given + b"R"),
            "torch._utils._import_dotted_name",
        ),
        "deep in an index": (pickle.dumps(holds), "builtins.exec"),
        "behind an index": (pickle.dumps(Metadata({}))[:-1] + b"0" + evil + b".", "posix.system"),
    }


def stored(mark):
    """What stands in a file of shards → as `gadgets`. (torch.save writes builtins by their names in Python 2.)"""
    evil, name = Runs(exec, f"open({str(mark)!r}, 'w')"), "__builtin__.exec"
    return {
        "an archive": (saved(evil), name),
        "the format before torch 1.6": (saved(evil, _use_new_zipfile_serialization=False), name),
        "an archive with a tensor": (saved({"a": torch.ones(2), "b": [evil]}), name),
        "a bare pickle of protocol 4": (gadgets(mark)["dots"][0], "torch.serialization.os.system"),
    }


def seal(checkpoint):
    """Whoever can plant a file can write a manifest to it."""
    manifest = json.loads((checkpoint / "manifest.json").read_text())
    files = [path for path in checkpoint.iterdir() if path.name != "manifest.json"]
    manifest["files"] = {path.name: {"bytes": path.stat().st_size, "sha256": digest_of(path)} for path in files}
    (checkpoint / "manifest.json").write_text(json.dumps(manifest))


def plant_index(checkpoint, data):
    (checkpoint / ".metadata").write_bytes(data)
    seal(checkpoint)


def plant_entry(checkpoint, name, data, *, as_object, file="__7_0.distcp"):
    """Whoever loads the tensor `name` is given `data`."""
    index = pickle.loads((checkpoint / ".metadata").read_bytes())
    was = index.state_dict_metadata[name]
    assert isinstance(was, TensorStorageMetadata)
    place = next(place for key, place in index.storage_data.items() if key.fqn == name)
    index.storage_data = {key: value for key, value in index.storage_data.items() if key.fqn != name}
    offsets = [None] if as_object else [chunk.offsets for chunk in was.chunks]
    for number, offset in enumerate(offsets):
        key = MetadataIndex(name) if as_object else MetadataIndex(name, offset, number)
        index.storage_data[key] = type(place)(file, 0, len(data))
    if as_object:
        index.state_dict_metadata[name] = BytesStorageMetadata()
    (checkpoint / file).write_bytes(data)
    plant_index(checkpoint, pickle.dumps(index))
