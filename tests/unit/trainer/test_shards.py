"""Prepared folders and Megatron's files that are not as they should be; Megatron's read as they were written."""

import json
import shutil
import struct

import numpy as np
import pytest
import torch

from trainer import __main__ as program
from trainer import train
from trainer.config import Config
from trainer.data import Loader, open_corpus, same_on_all_ranks
from trainer.data.__main__ import main
from trainer.data_order import Position
from trainer.exits import ConfigError, DataError
from trainer.fault_injection.data import PoisonedLoader
from trainer.faults import parse_fault

CODES = {"uint8": 1, "int16": 3, "int32": 4, "int64": 5, "uint16": 8}


def opened(path, vocab_size=256, seq_len=16):
    return open_corpus(
        Config.model_validate({"data": {"path": str(path), "seq_len": seq_len}, "model": {"vocab_size": vocab_size}})
    )


def write_megatron(prefix, documents, dtype="uint16"):
    """As the format is described; each document one sequence."""
    tokens = [np.array(document, dtype) for document in documents]
    prefix.with_suffix(".bin").write_bytes(b"".join(document.tobytes() for document in tokens))
    starts = np.cumsum([0, *(document.nbytes for document in tokens)])[:-1]
    parts = [
        b"MMIDIDX\x00\x00" + struct.pack("<QBQQ", 1, CODES[dtype], len(tokens), len(tokens) + 1),
        np.array([len(document) for document in tokens], "<i4").tobytes(),
        np.array(starts, "<i8").tobytes(),
        np.arange(len(tokens) + 1, dtype="<i8").tobytes(),
    ]
    prefix.with_suffix(".idx").write_bytes(b"".join(parts))
    return prefix


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    root = tmp_path_factory.mktemp("sound")
    (root / "a.txt").write_text("".join(f"line {number} of a text\n" for number in range(100)))
    assert main(["prepare", str(root / "a.txt"), "--out", str(root / "data"), "--shard-tokens", "1000"]) == 0
    return root / "data"


@pytest.fixture
def folder(sound, tmp_path):
    return shutil.copytree(sound, tmp_path / "data")


def change(folder, **values):
    path = folder / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


def cut_short(path, count):
    path.write_bytes(path.read_bytes()[:-count])


def shard_of(folder, **values):
    return [json.loads((folder / "manifest.json").read_text())["train"][0] | values]


WRONG = {
    r"train-00001\.bin: is missing, manifest\.json lists it": lambda f: (f / "train-00001.bin").unlink(),
    r"train-00000\.bin: has 993 bytes, manifest\.json says 1000; copy it again": lambda f: cut_short(f / "train-00000.bin", 7),
    r"1000 bytes are not 1000 tokens of uint16, which take 2000; the dtype": lambda f: change(f, dtype="uint16"),
    r"1000 bytes are not 300 tokens": lambda f: change(f, train=shard_of(f, tokens=300)),
    r"manifest\.json: version 2, this program reads 1; update it": lambda f: change(f, v=2),
    r"manifest\.json: dtype: Input should be .*'float32'": lambda f: change(f, dtype="float32"),
    r"manifest\.json: train\.0\.file: ": lambda f: change(f, train=shard_of(f, file="../elsewhere.bin")),
    r"manifest\.json: is no manifest": lambda f: (f / "manifest.json").write_text("[]"),
    r"holds no manifest\.json.*python -m trainer\.data prepare": lambda f: (f / "manifest.json").unlink(),
    r"only 0 training bytes": lambda f: change(f, train=[]),
    r"documents\.bin: has 23 bytes": lambda f: cut_short(f / "documents.bin", 1),
}


@pytest.mark.parametrize("sentence", WRONG)
def test_a_folder_that_is_not_whole_is_refused_when_it_is_opened(folder, sentence):
    opened(folder)
    WRONG[sentence](folder)
    with pytest.raises(DataError, match=sentence):
        opened(folder)


def test_a_corpus_too_short_for_a_sequence_says_which_part_and_what_to_do(folder):
    with pytest.raises(DataError, match=r"only \d+ held-out bytes, and one sequence takes 501 \(data\.seq_len 500\)"):
        opened(folder, seq_len=500)
    with pytest.raises(DataError, match=r"only \d+ training bytes"):
        opened(folder, seq_len=5000)


def test_a_path_that_holds_no_data_is_a_sentence(tmp_path):
    with pytest.raises(DataError, match=r"data\.path .*nowhere: does not exist"):
        opened(tmp_path / "nowhere")
    (tmp_path / "text.txt").write_text("a")
    with pytest.raises(DataError, match="is a file; name a prepared folder"):
        opened(tmp_path / "text.txt")


def test_a_vocabulary_larger_than_the_models_is_refused_with_the_setting(folder):
    with pytest.raises(ConfigError, match=r"holds tokens up to 255; --set model\.vocab_size=256"):
        opened(folder, vocab_size=100)


def test_a_run_on_damaged_data_ends_with_4_and_one_sentence_and_writes_nothing(folder, tmp_path, world, capsys, monkeypatch):
    def leave(code):
        raise SystemExit(code)

    monkeypatch.setattr(train, "join_world", lambda *_: world)
    monkeypatch.setattr(program, "leave_now", leave)
    out = tmp_path / "out"
    for vocab_size, code in ((100, 3), (256, 4)):
        if code == 4:
            cut_short(folder / "train-00000.bin", 7)
        settings = [f"data.path={folder}", f"model.vocab_size={vocab_size}", "data.seq_len=16"]
        monkeypatch.setattr("sys.argv", ["trainer", "--preset", "micro", "--set", *settings, "--out-dir", str(out)])
        with pytest.raises(SystemExit) as ended:
            program.main()
        assert ended.value.code == code
        output = capsys.readouterr().err
        assert output.startswith("trainer: ")
        assert output.count("\n") == 1
        assert not out.exists()


def test_verify_finds_one_changed_byte_that_opening_does_not(folder, capsys):
    assert main(["verify", str(folder)]) == 0
    path = folder / "train-00001.bin"
    content = bytearray(path.read_bytes())
    content[500] ^= 1
    path.write_bytes(content)
    opened(folder)
    assert main(["verify", str(folder)]) == 4
    assert "train-00001.bin: SHA-256" in capsys.readouterr().err


def test_a_shard_of_many_gigabytes_opens_at_once(folder):
    """A file of holes: whoever read all of it would not come back before the test's deadline, nor find the memory."""
    path, size = folder / "train-00000.bin", 400 << 30
    with path.open("r+b") as file:
        file.truncate(size - 17)
        file.seek(0, 2)
        file.write(bytes(range(17)))
    change(folder, train=shard_of(folder, bytes=size, tokens=size))
    corpus = opened(folder)
    assert corpus.size == (size - 1) // 16
    assert corpus.train.cut(size - 17, size).tolist() == list(range(17))
    assert corpus.sequence(corpus.size // 2).tolist() == [0] * 17


@pytest.mark.parametrize("dtype", CODES)
def test_megatrons_files_are_read_as_one_run_of_documents(tmp_path, dtype):
    documents = [[(number * 7 + i) % 100 for i in range(number % 13)] for number in range(60)]  # some are empty
    prefix = write_megatron(tmp_path / "web_text_document", documents, dtype)
    flat = [token for document in documents for token in document]
    tail = sum(len(document) for document in documents[57:])  # the last twentieth
    for path in (prefix, f"{prefix}.bin", f"{prefix}.idx"):
        corpus = opened(path, vocab_size=100, seq_len=4)
        assert corpus.train.cut(0, len(corpus.train)).tolist() == flat[:-tail]
        assert corpus.held_out.cut(0, len(corpus.held_out)).tolist() == flat[-tail:]
    for number in range(corpus.size):
        name, offset = corpus.place_of(number)
        document = documents[int(name.removeprefix("web_text_document document "))]
        assert document[offset] == flat[4 * number]
    assert main(["verify", str(prefix), "--vocab-size", "100"]) == 0
    assert main(["verify", str(prefix), "--vocab-size", "99"]) == 4
    position = Position.first(1)
    inputs, targets = Loader(corpus, torch.device("cpu")).batch((0, 1), position, 0, 1)
    assert inputs.dtype == targets.dtype == torch.int64


BROKEN = {
    r"web\.idx: does not begin with b'MMIDIDX": lambda p: patch(p, 0, b"X"),
    r"web\.idx: version 3, this program reads 1": lambda p: patch(p, 9, b"\x03"),
    r"web\.idx: dtype code 7 is none of": lambda p: patch(p, 17, b"\x07"),
    r"web\.idx: \d+ bytes, \d+ would hold its 40 sequences and 40 documents": lambda p: cut_short(p.with_suffix(".idx"), 8),
    r"web\.idx: 20 bytes are too few": lambda p: p.with_suffix(".idx").write_bytes(bytes(20)),
    r"web\.idx: is missing": lambda p: p.with_suffix(".idx").unlink(),
    r"web\.bin: is missing": lambda p: p.with_suffix(".bin").unlink(),
    r"web\.bin: \d+ bytes are no whole number of uint16": lambda p: cut_short(p.with_suffix(".bin"), 1),
    r"web\.bin: has 398 tokens of uint16, its \.idx says 400": lambda p: cut_short(p.with_suffix(".bin"), 4),
    r"web\.idx: its documents do not cover": lambda p: patch(p, 34 + 12 * 40, b"\x01"),
    r"web\.idx: holds no documents": lambda p: write_megatron(p, []),
    r"web\.idx: 1 documents; the last twentieth": lambda p: write_megatron(p, [[1] * 100]),
}


def patch(prefix, place, value):
    path = prefix.with_suffix(".idx")
    content = bytearray(path.read_bytes())
    content[place : place + len(value)] = value
    path.write_bytes(content)


@pytest.mark.parametrize("sentence", BROKEN)
def test_megatrons_files_that_are_not_whole_are_refused(tmp_path, sentence):
    prefix = write_megatron(tmp_path / "web", [[number] * 10 for number in range(40)])
    opened(prefix)
    BROKEN[sentence](prefix)
    with pytest.raises(DataError, match=sentence):
        opened(prefix)


def test_verify_finds_sequences_of_megatrons_that_do_not_follow_each_other(tmp_path, capsys):
    prefix = write_megatron(tmp_path / "web", [[number] * 10 for number in range(40)])
    patch(prefix, 34 + 4 * 40 + 8 * 5, (40).to_bytes(8, "little"))
    assert main(["verify", str(prefix)]) == 4
    assert "sequence 5 does not begin where the one before it ends" in capsys.readouterr().err


def test_ranks_whose_hosts_hold_different_data_are_told_apart_at_the_start(folder, world, monkeypatch):
    corpus = opened(folder)
    assert same_on_all_ranks(corpus, world.control) is corpus

    def gather(found, own, group):
        found[:] = [own, own, "another"]

    monkeypatch.setattr(torch.distributed, "all_gather_object", gather)
    with pytest.raises(DataError, match=rf"is {corpus.digest} on rank 0 and another on rank 2"):
        same_on_all_ranks(corpus, world.control)


def test_poison_stays_below_a_vocabulary_that_is_not_of_bytes(tmp_path):
    prefix = write_megatron(tmp_path / "web", [[1] * 50 for _ in range(40)])
    corpus = opened(prefix, vocab_size=5000)
    position = Position.first(1)
    hurt, half = (
        PoisonedLoader(corpus, position, [parse_fault(f"bad_data@sample=0-8:share={share}")], torch.device("cpu"))
        for share in (1.0, 0.5)
    )
    tokens = hurt.batch(tuple(range(8)), position, 0, 1)[0]
    assert 4000 < tokens.max() < 5000
    assert 0.3 < (half.batch(tuple(range(8)), position, 0, 1)[0] == 1).float().mean() < 0.7
    assert hurt.is_poisoned(3, position)
