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
    shell, mark = f"touch {mark}", str(mark)
    evil = whole(calling("posix", "system", shell))
    writes = f"open({mark!r}, 'w')"
    system = named("posix", "system")
    part = named("functools", "partial") + b"(" + system + b"t\x81" + b"(" + system + plain((shell,)) + b"}NtbR"
    as_state = named("functools", "partial") + b"(" + system + b"t\x81(" + system + plain((shell,)) + b"}Ntb)R"
    del part
    got = b"cbuiltins\ngetattr\n(cimportlib\nimport_module\n(X\x02\x00\x00\x00ostRX\x06\x00\x00\x00systemtR" + plain((shell,)) + b"R"
    holds = Metadata({}, planner_data={"deep": [{"er": (1, Runs(exec, writes))}]})
    return {
        "reduce": (evil, "posix.system"),
        "reduce by a name of Python 2": (whole(calling("__builtin__", "eval", writes)), "__builtin__.eval"),
        "protocol 4": (whole(calling("builtins", "exec", writes, protocol=4), 4), "builtins.exec"),
        "a name with dots": (
            whole(calling("torch.serialization", "os.system", shell, protocol=4), 4),
            "torch.serialization.os.system",
        ),
        "dots behind a module that is admitted": (
            whole(calling("torch", "serialization.os.system", shell, protocol=4), 4),
            "torch.serialization.os.system",
        ),
        "dots behind a class that is admitted": (
            whole(
                named("torch.distributed.checkpoint.metadata", "os.system", 4) + plain((shell,)) + b"R", 4
            ),
            "torch.distributed.checkpoint.metadata.os.system",
        ),
        "inst": (b"(" + b"S'" + shell.encode() + b"'\n" + b"iposix\nsystem\n.", "posix.system"),
        "obj": (whole(b"(cbuiltins\nopen\n0" + named("pathlib", "Path") + plain(mark) + b"o" + b"0" + evil[2:-1]), "builtins.open"),
        "getattr": (whole(got), "builtins.getattr"),
        "partial, by its state": (whole(as_state), "functools.partial"),
        "copyreg": (
            whole(b"ccopyreg\n__newobj__\n" + b"(cbuiltins\nmap\n" + named("os", "system") + plain((shell,)) + b"tR" + b"p0\n0"
                  + b"cbuiltins\nlist\n(g0\ntR"),
            "copyreg.__newobj__",
        ),
        "torch's own unpickler": (
            whole(calling("torch.storage", "_load_from_bytes", saved(Runs(exec, writes)))),
            "torch.storage._load_from_bytes",
        ),
        "torch._utils": (
            whole(named("torch._utils", "_import_dotted_name") + plain(("os.system",)) + b"R" + plain((shell,)) + b"R"),
            "torch._utils._import_dotted_name",
        ),
        "nested in an index": (pickle.dumps(holds), "builtins.exec"),
        "after everything else": (pickle.dumps(Metadata({}))[:-1] + b"0" + evil[2:], "posix.system"),
    }


def stored(mark):
    """What stands in a file of shards → as `gadgets`."""
    evil = Runs(exec, f"open({str(mark)!r}, 'w')")
    return {
        "an archive": (saved(evil), "builtins.exec"),
        "the format before torch 1.6": (saved(evil, _use_new_zipfile_serialization=False), "builtins.exec"),
        "an archive with a tensor": (saved({"a": torch.ones(2), "b": [evil]}), "builtins.exec"),
        "a bare pickle of protocol 4": (gadgets(mark)["a name with dots"][0], "torch.serialization.os.system"),
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
