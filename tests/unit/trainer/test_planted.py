"""A checkpoint whose files would run code, with a manifest that agrees with them: refused by name, and nothing of it is run."""

import contextlib
import json
import pickle
import shutil

import pytest
import torch
import torch.distributed.checkpoint as dcp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.unit.trainer import planting
from tests.unit.trainer.in_process import train_here
from trainer import checkpoint, sample
from trainer.checkpoint import pickled, writing
from trainer.checkpoint.__main__ import main
from trainer.checkpoint.contents import Contents
from trainer.checkpoint.index import ADMITTED, read_index
from trainer.checkpoint.reading import Planner
from trainer.exits import DataError, describe_error

GADGETS, STORED = list(planting.gadgets("")), list(planting.stored(""))
SIZES = "schedule.steps=6", "data.batch_size=2", "data.seq_len=16", "evaluation.batches=1", "checkpoint.every=3"
WORDS = ["--preset", "micro", "--set", *SIZES]
WEIGHT = "model.norm.weight"


@pytest.fixture(scope="module")
def trained(world, tmp_path_factory):
    """Checkpoints of steps 3 and 6."""
    place = tmp_path_factory.mktemp("out")
    with pytest.MonkeyPatch.context() as patch:
        train_here(world, patch, place, *WORDS)
    return place


@pytest.fixture
def out(trained, tmp_path):
    return shutil.copytree(trained, tmp_path / "out")


@pytest.fixture
def mark(tmp_path):
    return tmp_path / "code-was-run"


def newest(out):
    return out / "checkpoints" / "step-00000006"


@pytest.mark.parametrize("kind", GADGETS)
def test_python_would_run_each_of_them(mark, kind):
    """Else the tests below showed nothing."""
    data, _ = planting.gadgets(mark)[kind]
    pickle.loads(data)
    assert mark.exists()


@pytest.mark.parametrize("kind", GADGETS)
def test_an_index_is_refused_by_the_name_in_it(out, mark, kind):
    data, name = planting.gadgets(mark)[kind]
    planting.plant_index(newest(out), data)
    checkpoint.verify(newest(out))  # integrity is no trust
    with pytest.raises(DataError) as refused:
        Contents(newest(out))
    assert f"step-00000006: .metadata names {name}, which no checkpoint needs" in str(refused.value)
    assert "Nothing of it was run. Find out who wrote it" in str(refused.value)
    assert not mark.exists()


@pytest.mark.parametrize("as_object", [True, False], ids=["object", "tensor"])
@pytest.mark.parametrize("kind", STORED)
def test_a_shard_is_refused_by_the_name_in_it(out, mark, kind, as_object):
    data, name = planting.stored(mark)[kind]
    planting.plant_entry(newest(out), WEIGHT, data, as_object=as_object)
    checkpoint.verify(newest(out))
    with pytest.raises(DataError) as refused:
        Contents(newest(out)).tensor(WEIGHT)
    assert f"step-00000006: __7_0.distcp names {name}, which no checkpoint needs" in str(refused.value)
    assert "weights_only" not in str(refused.value), "torch's advice is to allow everything"
    assert not mark.exists()


def test_an_object_that_names_nothing_is_refused_as_well(out):
    planting.plant_entry(newest(out), WEIGHT, planting.saved({"a": 1}), as_object=True)
    with pytest.raises(DataError, match=r"says that model\.norm\.weight is a Python object, and this trainer saves tensors"):
        Contents(newest(out))


def test_the_planner_by_itself_unpickles_nothing(mark):
    """torch's own would; what it is handed does not depend on the index."""
    data, _ = planting.stored(mark)["an archive"]
    item = type("Item", (), {"storage_index": type("Index", (), {"fqn": "adam.step"}), "dest_index": None})
    with pytest.raises(DataError, match=r"adam\.step is a Python object"):
        Planner().load_bytes(item, data)
    assert not mark.exists()


def test_a_resume_goes_on_from_an_older_one_and_says_why(out, mark, world, monkeypatch, capsys):
    capsys.readouterr()
    data, _ = planting.gadgets(mark)["reduce"]
    planting.plant_index(newest(out), data)
    _, steps = train_here(world, monkeypatch, out, *WORDS, "--resume")
    assert [line["step"] for line in steps][-3:] == [4, 5, 6]
    assert "passed over the checkpoint of step 6: " in (printed := capsys.readouterr().out)
    assert ".metadata names posix.system" in printed
    assert not mark.exists()


def test_a_resume_with_nothing_else_ends_in_one_sentence(out, mark, world, monkeypatch):
    data, _ = planting.gadgets(mark)["reduce"]
    stored, _ = planting.stored(mark)["an archive"]
    planting.plant_index(newest(out), data)
    planting.plant_entry(out / "checkpoints" / "step-00000003", "adam.step", stored, as_object=True)
    with pytest.raises(DataError) as ended:
        train_here(world, monkeypatch, out, *WORDS, "--resume")
    said = describe_error(ended.value)
    assert (ended.value.code, said.count("\n"), "Traceback" in said) == (4, 0, False)
    assert not mark.exists()


@pytest.mark.parametrize("planted", ["index", "object", "tensor"])
@pytest.mark.parametrize("words", ["diff 3 6", "export 6 --out model.safetensors", "sample"])
def test_commands_leave_with_4_and_one_sentence(out, mark, capsys, tmp_path, monkeypatch, planted, words):
    monkeypatch.chdir(tmp_path)
    if planted == "index":
        planting.plant_index(newest(out), planting.gadgets(mark)["reduce"][0])
    else:
        planting.plant_entry(newest(out), WEIGHT, planting.stored(mark)["an archive"][0], as_object=planted == "object")
    command, *rest = words.split()
    capsys.readouterr()
    left = sample.main([str(out)]) if command == "sample" else main([command, str(out), *rest])
    said = capsys.readouterr().err
    assert left == 4
    assert (".metadata names posix.system" if planted == "index" else "__7_0.distcp names __builtin__.exec") in said
    assert said.count("\n") == 1
    assert not mark.exists()


@pytest.mark.parametrize("file", ["../step-00000003/__0_0.distcp", "/etc/passwd", "a/b.distcp", "manifest.json", "a.distcp/", ""])
def test_a_file_that_no_verification_has_read_is_not_opened(out, file):
    index = pickle.loads((newest(out) / ".metadata").read_bytes())
    for place in index.storage_data.values():
        place.relative_path = file
    planting.plant_index(newest(out), pickle.dumps(index))
    with pytest.raises(DataError, match="is no file of this checkpoint"):
        read_index(newest(out))


NO_INDEX = [b"", b".", b"not a pickle", pickle.dumps([1]), pickle.dumps(None), b"(" * 50]
NO_INDEX += [planting.whole(b"\x82\x01"), planting.whole(planting.plain("a") + b"Q")]  # an extension code, a persistent id


@pytest.mark.parametrize("data", NO_INDEX)
def test_what_is_no_index_is_one_sentence(out, data):
    planting.plant_index(newest(out), data)
    with pytest.raises(DataError, match=r"\.metadata is not as torch\.distributed\.checkpoint writes it .* Continue from"):
        Contents(newest(out))


def test_a_name_acts_on_no_terminal(out):
    planting.plant_index(newest(out), planting.whole(planting.calling("x\x1b[2J\r", "y" * 500, protocol=4), 4))
    with pytest.raises(DataError) as refused:
        Contents(newest(out))
    assert r"x\x1b[2J\r.yyy" in str(refused.value)
    assert str(refused.value).isprintable()
    assert len(str(refused.value)) < 600


def test_the_index_is_what_torch_reads(out):
    assert_same(newest(out), pickle.loads((newest(out) / ".metadata").read_bytes()))


def assert_same(place, whole):
    index = read_index(place)
    assert index.state_dict_metadata == whole.state_dict_metadata
    assert list(index.storage_data) == list(whole.storage_data)
    assert [key.index for key in index.storage_data] == [key.index for key in whole.storage_data]
    places = [(place.relative_path, place.offset, place.length) for place in whole.storage_data.values()]
    assert [(place.relative_path, place.offset, place.length) for place in index.storage_data.values()] == places


DTYPES = [value for value in ADMITTED.values() if isinstance(value, torch.dtype)]


@given(
    st.dictionaries(st.text(), st.tuples(st.sampled_from(DTYPES), st.lists(st.integers(0, 2**40), max_size=4)), max_size=5),
    st.integers(2, pickle.HIGHEST_PROTOCOL),
)
@settings(max_examples=60, deadline=None)
def test_any_index_of_tensors_comes_back_from_any_protocol(tmp_path_factory, tensors, protocol):
    from torch.distributed.checkpoint import metadata
    from torch.distributed.checkpoint.filesystem import _StorageInfo

    about = metadata.StorageMeta(tmp_path_factory.getbasetemp())
    whole = metadata.Metadata({}, planner_data={}, storage_data={}, storage_meta=about)
    for number, (name, (dtype, sizes)) in enumerate(tensors.items()):
        offsets = torch.Size([0] * len(sizes))
        chunk = metadata.ChunkStorageMetadata(offsets, torch.Size(sizes))
        properties = metadata.TensorProperties(dtype=dtype)
        whole.state_dict_metadata[name] = metadata.TensorStorageMetadata(properties, torch.Size(sizes), [chunk])
        whole.storage_data[metadata.MetadataIndex(name, offsets, 0)] = _StorageInfo(f"__{number}_0.distcp", number, 2**number)
    place = tmp_path_factory.mktemp("drawn", numbered=True)
    (place / ".metadata").write_bytes(pickle.dumps(whole, protocol))
    assert_same(place, whole)
    shutil.rmtree(place)


CALLED: list = []


def canary(*arguments, **named):
    """What drawn pickles try to call."""
    CALLED.append((arguments, named))


class Canary:
    __init__ = __setstate__ = __setitem__ = append = extend = add = canary

    def __new__(cls, *_):
        canary()
        return object.__new__(cls)


VALUES = [b"(", b"0", b"1", b"2", b")", b"]", b"}", b"\x8f", b"N", b"\x88", b"K\x07", b"\x94", b"q\x01", b"h\x00", b"h\x01"]
ACTS = [bytes([code]) for code in b"Robaesutld\x81\x92\x85\x86\x87\x90\x91"]
OPCODES = st.one_of(
    st.sampled_from(VALUES),
    st.sampled_from(ACTS),
    st.sampled_from(["canary", "Canary", "Canary.__init__"]).map(lambda name: planting.named(__name__, name, 4)),
    st.sampled_from(["canary", "Canary"]).map(lambda name: b"(i" + f"{__name__}\n{name}\n".encode()),
    st.sampled_from(list(ADMITTED)).map(lambda pair: planting.named(*pair, 4)),
    st.text(max_size=3).map(planting.plain),
)


@given(st.lists(OPCODES, max_size=40))
@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_no_drawn_pickle_calls_anything_or_changes_a_class(opcodes):
    before = {kind: dict(vars(kind)) for kind in ADMITTED.values() if isinstance(kind, type)}
    CALLED.clear()
    data = b"\x80\x04" + b"".join(opcodes) + b"."
    for read in (lambda: pickled.read_inert(data, ADMITTED), lambda: pickled.foreign_name(data)):
        with contextlib.suppress(pickled.Foreign, ValueError):
            read()
    assert CALLED == []
    assert {kind: dict(vars(kind)) for kind in before} == before


@given(st.text(), st.text(), st.integers(0, 3))
@settings(max_examples=200, deadline=None)
def test_any_other_name_is_foreign_however_deep(module, name, depth):
    inner = planting.calling(module, name, protocol=4)
    for _ in range(depth):
        inner = b"](" + inner + b"e"
    if (module, name) not in ADMITTED:
        with pytest.raises(pickled.Foreign) as refused:
            pickled.read_inert(planting.whole(inner, 4), ADMITTED)
        assert refused.value.name == f"{module}.{name}"


def test_a_class_that_is_given_a_state_stays_as_it_was():
    """Without a __setstate__ of its own, the unpickler sets a class' attributes."""
    for pair, kind in ADMITTED.items():
        attribute = b"N}" + planting.plain("planted") + planting.plain("value") + b"s\x86"
        data = planting.whole(planting.named(*pair, 4) + attribute + b"b", 4)
        with pytest.raises(ValueError, match="no pickle of plain values"):
            pickled.read_inert(data, ADMITTED)
        assert not hasattr(kind, "planted")


def test_what_is_loaded_is_the_same_to_the_bit(out, world):
    """As torch's own reader and planner load it."""
    contents = Contents(newest(out))
    ours, theirs = ({name: torch.zeros(contents.shape(name)) for name in contents.parameters()} for _ in range(2))
    ours, theirs = ({f"model.{name}": value for name, value in state.items()} for state in (ours, theirs))
    kept = torch.get_rng_state()
    writing.load(checkpoint.verify(newest(out)), world, ours)
    torch.set_rng_state(kept)
    dcp.load(theirs, storage_reader=dcp.FileSystemReader(newest(out)), process_group=world.storage)
    assert all(torch.equal(ours[name], theirs[name]) and theirs[name].any() for name in theirs if name.endswith("weight"))
    assert WEIGHT in theirs


def test_an_index_that_the_manifest_does_not_list_is_refused(out):
    manifest = json.loads((newest(out) / "manifest.json").read_text())
    del manifest["files"][".metadata"]
    (newest(out) / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(DataError, match=r"\.metadata is there, and manifest\.json does not list it"):
        checkpoint.verify(newest(out))


def test_a_file_that_is_a_link_out_of_the_checkpoint_is_refused(out, tmp_path):
    """Its bytes match: what lies elsewhere is another's to change."""
    shard = next(newest(out).glob("*.distcp"))
    shard.rename(tmp_path / shard.name)
    shard.symlink_to(tmp_path / shard.name)
    with pytest.raises(DataError, match="lies outside the checkpoint"):
        checkpoint.verify(newest(out))


def test_a_name_that_climbs_out_of_the_checkpoint_is_refused(out, tmp_path):
    manifest = json.loads((newest(out) / "manifest.json").read_text())
    manifest["files"]["../../stray"] = {"bytes": 0, "sha256": ""}
    (newest(out) / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(DataError, match="lies outside the checkpoint"):
        checkpoint.verify(newest(out))
