"""Values that are not finite, counted in files that torch and safetensors wrote; torch says what is right."""

from __future__ import annotations

import random
import warnings
from collections import OrderedDict
from pathlib import Path

import pytest
import torch
import torch.distributed.checkpoint as dcp
from safetensors.torch import save_file

from sentinel.checkpoints.tensors.floats import FORMATS, look
from tests.unit.checkpoints.counted import count

TYPES = {
    "F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16,
    "F8_E4M3": torch.float8_e4m3fn, "F8_E5M2": torch.float8_e5m2, "F8_E4M3FNUZ": torch.float8_e4m3fnuz,
    "F8_E5M2FNUZ": torch.float8_e5m2fnuz, "F8_E8M0": torch.float8_e8m0fnu, "C64": torch.complex64, "C128": torch.complex128,
}  # fmt: skip
COMMON = ("F64", "F32", "F16", "BF16", "F8_E4M3", "F8_E5M2")


def patterns(name: str) -> bytes:
    """Every value of the short formats; of the long ones every top two bytes, with little and with much below."""
    width = FORMATS[name].number_bytes
    if width <= 2:
        return b"".join(value.to_bytes(width, "little") for value in range(256**width))
    lows = [bytes(width - 2), b"\1" + bytes(width - 3), b"\xff" * (width - 2)]
    return b"".join(low + high.to_bytes(2, "little") for high in range(65536) for low in lows)


def right(data: bytes, name: str) -> tuple[int, int, bool]:
    found = torch.frombuffer(bytearray(data), dtype=TYPES[name])
    wide = (torch.view_as_real(found) if found.is_complex() else found).double()
    other = bool((wide.isfinite() & (wide != 0)).any())
    return int(wide.isnan().sum()), int(wide.isinf().sum()), other


@pytest.mark.parametrize("name", FORMATS)
def test_every_pattern_of_bits_is_judged_as_torch_judges_it(name: str) -> None:
    data = patterns(name)
    assert look(data, FORMATS[name]) == right(data, name)
    rng = random.Random(name)
    width = FORMATS[name].value_bytes
    for _ in range(200):
        some = b"".join(data[at : at + width] for at in (rng.randrange(len(data) // width) * width for _ in range(5)))
        assert look(some, FORMATS[name]) == right(some, name), some.hex()


@pytest.mark.parametrize("name", ["F32", "BF16", "F8_E4M3"])
def test_zeros_and_infinities_are_no_numbers(name: str) -> None:
    width = FORMATS[name].number_bytes
    assert look(bytes(width * 9), FORMATS[name]) == (0, 0, False)
    if name != "F8_E4M3":
        mask = torch.tensor([0.0, -0.0, float("-inf"), 0.0], dtype=TYPES[name])
        assert look(bytes(mask.view(torch.uint8).numpy()), FORMATS[name]) == (0, 1, False)


def saved(folder: Path, form: str, tensors: dict[str, torch.Tensor]) -> tuple[str, ...]:
    """The names of the files that hold these tensors."""
    if form == "safetensors":
        save_file(tensors, folder / "model.safetensors")
    elif form == "torch.save":
        torch.save({"epoch": 3, "model": OrderedDict(tensors)}, folder / "model.pt")
    else:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            dcp.save({"model": dict(tensors), "step": 7, "words": "abc"}, checkpoint_id=folder, no_dist=True)
    return tuple(sorted(path.name for path in folder.iterdir()))


@pytest.mark.parametrize("form", ["safetensors", "torch.save", "dcp"])
@pytest.mark.parametrize("name", COMMON)
@pytest.mark.parametrize("place", [0, 2047, 4095])
def test_one_nan_is_found_wherever_it_is(form: str, name: str, place: int, tmp_path: Path) -> None:
    weight = torch.randn(4096)
    weight[place] = float("nan")
    tensors = {"layer.2.weight": torch.randn(33, 3).to(TYPES[name]), "layer.3.weight": weight.view(64, 64).to(TYPES[name])}
    found = count(tmp_path, *saved(tmp_path, form, tensors))
    assert (found.files, found.values, found.unread) == (1, 4096 + 99, ())
    (bad,) = found.bad
    assert bad.name == ("layer.3.weight" if form == "safetensors" else "model.layer.3.weight")
    assert (bad.values, bad.nan, bad.infinite, bad.has_number) == (4096, 1, 0, True)


@pytest.mark.parametrize("block_bytes", [7, 64, 1000, 1 << 20])
def test_blocks_may_cut_values_anywhere(block_bytes: int, tmp_path: Path) -> None:
    tensors = {f"t{i}": torch.randn(40).to(kind) for i, kind in enumerate(TYPES[name] for name in COMMON[:4])}
    for tensor in tensors.values():
        tensor[torch.arange(0, 40, 13)] = float("nan")
        tensor[1] = float("inf")
    names = saved(tmp_path, "torch.save", tensors)
    assert [(bad.nan, bad.infinite) for bad in count(tmp_path, *names, block_bytes=block_bytes).bad] == [(4, 1)] * 4


def test_what_torch_saves_beside_plain_tensors_is_read_too(tmp_path: Path) -> None:
    layer = torch.nn.Linear(6, 5)
    tied = torch.randn(10)
    adam = torch.optim.AdamW(layer.parameters())
    layer(torch.ones(6)).sum().backward()
    adam.step()
    whole = {
        "layer": layer.state_dict(), "adam": adam.state_dict(), "parameter": layer.weight, "tied": tied, "again": tied,
        "turned": torch.randn(4, 8).t(), "repeated": torch.ones(1).expand(1000), "nothing": torch.empty(0, 5),
        "gaps": torch.randn(9, 9)[:, 2:4], "whole": torch.arange(50), "flags": torch.ones(3, dtype=torch.bool),
        "random": torch.get_rng_state(), "place": Path("x"), "best": torch.tensor(float("inf")),
    }  # fmt: skip
    torch.save(whole, tmp_path / "all.pt")
    found = count(tmp_path, "all.pt")
    assert found.unread == ()
    assert [(bad.name, bad.values) for bad in found.bad] == [("best", 1)]
    weights = 2 * (30 + 5) + (30 + 5) + 2  # of the layer, both moments; and how many steps each has had
    assert found.values == weights + 10 + 32 + 1 + (8 * 9 + 2) + 1, "a view with gaps is looked at as it lies"


def test_what_lies_around_a_view_is_not_its_own(tmp_path: Path) -> None:
    whole = torch.randn(9, 9)
    whole[:, 5] = float("nan")
    torch.save({"view": whole[:, 2:4], "sound": whole[:, 0].clone()}, tmp_path / "a.pt")
    found = count(tmp_path, "a.pt")
    assert found.bad == ()
    assert found.unread == ("a.pt: view: a view with gaps, around which values are not finite",)


@pytest.mark.filterwarnings("ignore:torch.quantize")
def test_what_is_not_read_is_told_and_text_is_nothing_to_read(tmp_path: Path) -> None:
    torch.save({"a": torch.ones(3)}, tmp_path / "old.pt", _use_new_zipfile_serialization=False)
    torch.save({"a": torch.quantize_per_tensor(torch.randn(9), 0.1, 0, torch.qint8)}, tmp_path / "quantized.pt")
    (tmp_path / "weights.h5").write_bytes(b"\x89HDF\r\n\x1a\n" + bytes(100))
    (tmp_path / "config.json").write_text('{"layers": 3, "name": "größer"}')
    (tmp_path / "empty").write_bytes(b"")
    (tmp_path / "rng-cpu-00000.bin").write_bytes(random.Random(1).randbytes(5056))
    found = count(tmp_path, "old.pt", "quantized.pt", "weights.h5", "config.json", "empty", "rng-cpu-00000.bin")
    assert found.values == 0
    assert found.unread == (
        "old.pt: torch wrote it in its format of before version 1.6, which is not read",
        "quantized.pt: a is no plain tensor",
        "weights.h5: its format is not known",
    )


def test_a_shard_that_the_manifest_has_no_metadata_for_is_not_read(tmp_path: Path) -> None:
    saved(tmp_path, "dcp", {"w": torch.randn(9)})
    assert count(tmp_path, "__0_0.distcp").unread == ("__0_0.distcp: the manifest lists no .metadata beside it",)
