"""Files that are damaged or made to do harm: their numbers are unknown, with the reason, and nothing else happens."""

from __future__ import annotations

import io
import json
import pickle
import random
import struct
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed.checkpoint as dcp
from safetensors.torch import save

from sentinel.checkpoints.tensors import pickles
from sentinel.checkpoints.tensors.pickles import Call, walk_pickle
from tests.unit.checkpoints.counted import count

ENTRY = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}


def safetensors(header: Any, data: bytes = bytes(8)) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "its header would be of 0 bytes"),
        (b"\xff" * 40, "its header would be of 18,446,744,073,709,551,615 bytes"),
        (safetensors(b"{"), "its header is no JSON"),
        (safetensors(b"[" * 200_000), "its header has more lists and objects than tensors have"),
        (safetensors({"a": [[]] * 9000}), "its header has more lists and objects than tensors have"),
        (safetensors([1]), "its header is no JSON object"),
        (safetensors({"a": 3}), "a: its header needs dtype, shape and data_offsets"),
        (safetensors({"a": ENTRY | {"data_offsets": [0, 2**60]}}), "a: its header needs dtype, shape and data_offsets"),
        (safetensors({"a": ENTRY | {"data_offsets": [0, 2**40], "shape": [2**38]}}), "its tensors end at byte 1,099,511,627,"),
        (safetensors({"a": ENTRY | {"data_offsets": [8, 0]}}), "a: its offsets do not fit its shape"),
        (safetensors({"a": ENTRY | {"shape": [2**50] * 9}}), "a: its offsets do not fit its shape"),
        (safetensors({"a": ENTRY | {"shape": [1] * 5000}}), "a: its offsets do not fit its shape"),
        (safetensors({"a": ENTRY | {"shape": [-2]}}), "a: its header needs dtype, shape and data_offsets"),
        (safetensors({"a": ENTRY, "b": ENTRY}), "its tensors overlap or leave a gap at byte 0"),
        (safetensors({"a": ENTRY | {"data_offsets": [8, 16]}}, bytes(16)), "its tensors overlap or leave a gap at byte 0"),
        (safetensors({"a": ENTRY}, bytes(9)), "its tensors end at byte"),
        (safetensors({"a\x1b[2J": ENTRY | {"dtype": "F3"}}), "'a\\x1b[2J': values of F3 are not known"),
    ],
)
def test_a_header_that_lies(data: bytes, why: str, tmp_path: Path) -> None:
    (tmp_path / "m.safetensors").write_bytes(data)
    found = count(tmp_path, "m.safetensors")
    assert (found.files, found.values, found.bad) == (0, 0, ())
    assert len(found.unread) == 1
    assert found.unread[0].startswith(f"m.safetensors: {why}")


def test_a_header_of_the_shortest_entries_is_read(tmp_path: Path) -> None:
    """As many brackets for its bytes as a header can have."""
    entries = {str(n): {"dtype": "F8_E5M2", "shape": [1], "data_offsets": [n, n + 1]} for n in range(5000)}
    text = json.dumps(entries, separators=(",", ":")).encode()
    (tmp_path / "m.safetensors").write_bytes(safetensors(text, bytes(5000)))
    found = count(tmp_path, "m.safetensors")
    assert (found.files, found.unread) == (1, ())


def archive(pickled: bytes, storage: bytes = bytes(400), method: int = zipfile.ZIP_STORED) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", method) as file:
        file.writestr("a/data.pkl", pickled)
        file.writestr("a/byteorder", b"little")
        file.writestr("a/data/0", storage)
    return made.getvalue()


def tensor(offset: str = "K\0", sizes: str = "K\x02\x85", strides: str = "K\x01\x85", storage: str = "FloatStorage") -> bytes:
    """The pickle of one tensor over the storage 0, its numbers as opcodes."""
    stored = f"(X\7\0\0\0storagectorch\n{storage}\nX\1\0\0\x000X\3\0\0\0cpuKdtQ"
    return f"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n({stored}{offset}{sizes}{strides}\x89NtR.".encode("latin-1")


def test_what_these_archives_are_made_of_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.pt").write_bytes(archive(tensor(), struct.pack("<100f", float("nan"), *[1.0] * 99)))
    found = count(tmp_path, "a.pt")
    assert found.unread == ()
    assert [(bad.values, bad.nan) for bad in found.bad] == [(2, 1)]


class Harm:
    def __init__(self, done: Path) -> None:
        self.done = done

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return Path.touch, (self.done,)


def test_nothing_that_a_pickle_names_is_imported_or_called(tmp_path: Path) -> None:
    evil = pickle.dumps({"a": Harm(tmp_path / "done"), "module": 1}).replace(b"module", b"absent")
    (tmp_path / "a.pt").write_bytes(archive(evil))
    assert count(tmp_path, "a.pt").unread == ()
    (tmp_path / "a.pt").write_bytes(archive(b"cno_such_module\nno_such_function\n)R."))
    assert count(tmp_path, "a.pt").unread == ()
    assert not (tmp_path / "done").exists()


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (archive(tensor(), bytes(10**6), zipfile.ZIP_DEFLATED), "an entry of its archive is compressed, encrypted or damaged"),
        (archive(tensor())[:-30], "its archive has no directory: it may be cut off"),
        (archive(tensor())[:4], "its archive has no directory: it may be cut off"),
        (archive(tensor())[:-10] + b"\xff" * 10, "its archive points outside itself"),
        (archive(b"\x80\x02"), "its data.pkl cannot be read: "),
        (archive(b""), "its data.pkl cannot be read: "),
        (archive(b"0" * 99), "its data.pkl cannot be read: it breaks off or is damaged"),
        (archive(b"\x8b\xff\xff\xff\x7f"), "its data.pkl cannot be read: "),
        (archive(tensor(storage="OddStorage")), "its tensor: values of OddStorage are not known"),
        (archive(tensor(offset="J\0\0\0\x7f")), "its tensor: it reaches outside its storage"),
        (archive(tensor(sizes="J\0\0\0\x7f\x85")), "its tensor: it reaches outside its storage"),
        (archive(tensor(sizes="J\xff\xff\xff\xff\x85")), "its tensor: it is no tensor of a kind that is known"),
        (archive(tensor(sizes="X\1\0\0\x001\x85")), "its tensor: it is no tensor of a kind that is known"),
        (archive(tensor(offset="N")), "its tensor: it is no tensor of a kind that is known"),
        (archive(b"](" + tensor()[2:-1] * 3 + b"e."), ""),
    ],
)
def test_an_archive_that_lies(data: bytes, why: str, tmp_path: Path) -> None:
    (tmp_path / "a.pt").write_bytes(data)
    found = count(tmp_path, "a.pt")
    assert found.bad == ()
    assert [one[: len(why) + 6] for one in found.unread] == ([f"a.pt: {why}"] if why else [])


def test_tensors_that_overlap_are_not_looked_at_over_and_over(tmp_path: Path) -> None:
    overlapping = b"".join(tensor(offset=f"K{chr(n)}", sizes="M\x84\x03\x85")[2:-1] for n in range(20))
    (tmp_path / "a.pt").write_bytes(archive(b"\x80\x02](" + overlapping + b"e.", bytes(4000)))
    assert count(tmp_path, "a.pt").unread == ("a.pt: its tensors overlap",)


def test_small_pickles_that_are_large_when_they_are_unfolded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    twice = b"\x80\x02)" + b"2\x86" * 20_000 + b"."  # a tuple of the tuple before it, twice, and so on
    deep = b"\x80\x02]" + b"2a" * 10_000 + b"."  # a list within itself, again and again
    nested = b"\x80\x02" + b"N" + b"\x85" * 30_000 + b"."
    far = b"\x80\x02]r\xff\xff\xff\xff."  # an index of the memo
    for number, data in enumerate((twice, deep, nested, far)):
        (tmp_path / f"{number}.pt").write_bytes(archive(data))
        assert count(tmp_path, f"{number}.pt").unread == ()
    monkeypatch.setattr(pickles, "OPCODES_MAX", 1000)
    with pytest.raises(ValueError, match="more than 1,000 opcodes"):
        walk_pickle(twice)


def test_a_call_is_kept_with_what_it_would_be_given() -> None:
    found = walk_pickle(pickle.dumps(OSError(2, "no"), protocol=4))
    assert isinstance(found, Call)
    assert (found.name, found.arguments) == ("builtins.FileNotFoundError", (2, "no"))


def test_shards_that_overlap_and_metadata_that_is_none(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dcp.save({"a": torch.ones(9), "b": torch.ones(9)}, checkpoint_id=tmp_path, no_dist=True)
    whole = (tmp_path / ".metadata").read_bytes()
    (tmp_path / ".metadata").write_bytes(whole.replace(b"relative_path", b"relative_pant"))
    assert "does not say where each part lies" in count(tmp_path, ".metadata", "__0_0.distcp").unread[0]
    (tmp_path / ".metadata").write_bytes(b"none")
    assert "its .metadata cannot be read" in count(tmp_path, ".metadata", "__0_0.distcp").unread[0]
    (tmp_path / ".metadata").write_bytes(whole)
    (tmp_path / "__0_0.distcp").write_bytes((tmp_path / "__0_0.distcp").read_bytes()[:100])
    assert "its parts overlap or lie outside it" in count(tmp_path, ".metadata", "__0_0.distcp").unread[0]


def mutated(data: bytes, rng: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.randrange(1, 6)):
        at = rng.randrange(len(changed))
        match rng.randrange(5):
            case 0:
                changed[at] ^= 1 << rng.randrange(8)
            case 1:
                changed[at : at + 8] = rng.randbytes(8)
            case 2:
                changed[at : at + 4] = b"\xff\xff\xff\x7f"
            case 3:
                del changed[at : at + rng.randrange(1, 40)]
            case 4:
                changed[at:at] = changed[at : at + rng.randrange(1, 40)]
    return bytes(changed)


@pytest.mark.parametrize("form", ["safetensors", "torch.save", "dcp"])
def test_a_hundred_damaged_files_of_each_kind_end_in_a_count_or_a_reason(form: str, tmp_path: Path) -> None:
    tensors = {"a": torch.randn(40), "b": torch.randn(3, 5).half(), "n": torch.arange(4)}
    if form == "safetensors":
        (tmp_path / "a.safetensors").write_bytes(save(tensors))
    elif form == "torch.save":
        torch.save(tensors, tmp_path / "a.pt")
    else:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            dcp.save(dict(tensors), checkpoint_id=tmp_path, no_dist=True)
    whole = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    rng = random.Random(form)
    told = 0
    for _ in range(100):
        name = rng.choice(sorted(whole))
        (tmp_path / name).write_bytes(mutated(whole[name], rng))
        found = count(tmp_path, *sorted(whole))
        told += bool(found.unread)
        assert found.values <= 4 * sum(map(len, whole.values())) + 1000
        assert all(reason.isprintable() and len(reason) < 700 for reason in found.unread)
        (tmp_path / name).write_bytes(whole[name])
    assert told >= 20
