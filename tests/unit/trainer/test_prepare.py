"""Text to shards and back: what is taken, what comes out, what is refused, what a cut-short preparation leaves."""

import gzip
import json

import numpy as np
import pytest

from trainer.config import Config
from trainer.data import open_corpus, prepare, read_corpus
from trainer.data.__main__ import main
from trainer.data.inputs import PIECE_BYTES, Inputs, find_sources

SEQ_LEN = 16


def opened(folder, vocab_size=256, seq_len=SEQ_LEN):
    data = {"path": str(folder), "seq_len": seq_len}
    return open_corpus(Config.model_validate({"data": data, "model": {"vocab_size": vocab_size}}))


def content(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def whole(tokens):
    return tokens.cut(0, len(tokens))


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    """Forty documents: thirty files, ten lines."""
    root = tmp_path_factory.mktemp("texts")
    for number in range(30):
        (root / f"t{number:02d}.txt").write_text(f"Text number {number} tells of {number * number} things, größer.\n")
    lines = [json.dumps({"text": f"line {number} of the web, " * 3, "body": "other"}) for number in range(10)]
    (root / "web.jsonl").write_text("\n".join([*lines[:5], "", *lines[5:]]))
    (root / ".hidden.txt").write_text("not this")
    (root / "image.png").write_bytes(b"nor this")
    return root


def expected(texts, apart):
    documents = [(texts / f"t{number:02d}.txt").read_bytes() for number in range(30)]
    documents += [(f"line {number} of the web, " * 3).encode() for number in range(10)]
    return b"".join(text for number, text in enumerate(documents) if (number % 20 == 7) == apart)


def test_documents_become_shards_that_read_like_their_text(texts, tmp_path, capsys):
    assert main(["prepare", str(texts), "--out", str(tmp_path / "a"), "--shard-tokens", "100"]) == 0
    assert "38 documents to train on" in capsys.readouterr().out
    corpus = opened(tmp_path / "a")
    assert whole(corpus.train).tobytes() == expected(texts, False)
    assert whole(corpus.held_out).tobytes() == expected(texts, True)
    assert len(list((tmp_path / "a").glob("train-*.bin"))) == -(-len(corpus.train) // 100)
    text = whole(corpus.train).tobytes()
    for number in range(corpus.size):
        name, offset = corpus.place_of(number)
        file, _, line = name.removeprefix(f"{texts.name}/").partition(":")
        source = (texts / file).read_bytes()
        document = json.loads(source.splitlines()[int(line) - 1])["text"].encode() if line else source
        assert document[offset : offset + 1] == text[number * SEQ_LEN : number * SEQ_LEN + 1], name
    assert corpus.text.decode(corpus.sequence(3)) == text[3 * SEQ_LEN : 4 * SEQ_LEN + 1]


def test_the_same_input_gives_the_same_bytes_packed_or_not_in_any_folder(texts, tmp_path):
    copy = tmp_path / "elsewhere" / texts.name
    copy.mkdir(parents=True)
    for path in sorted(texts.iterdir(), reverse=True):
        (copy / path.name).write_bytes(path.read_bytes())
    for number, source in enumerate((texts, copy)):
        assert main(["prepare", str(source), "--out", str(tmp_path / f"{number}"), "--tokenizer", "train:300"]) == 0
    assert content(tmp_path / "0") == content(tmp_path / "1")
    packed = tmp_path / "web.jsonl.gz"
    packed.write_bytes(gzip.compress((texts / "web.jsonl").read_bytes()))
    for number, source in ((2, packed), (3, texts / "web.jsonl")):
        assert main(["prepare", str(source), "--out", str(tmp_path / f"{number}"), "--jsonl-key", "body"]) == 0
    assert whole(opened(tmp_path / "2", seq_len=4).train).tobytes() == b"other" * 9
    assert (tmp_path / "2" / "train-00000.bin").read_bytes() == (tmp_path / "3" / "train-00000.bin").read_bytes()


def test_a_tokenizer_trained_here_gives_its_text_back(texts, tmp_path, capsys):
    folder = tmp_path / "bpe"
    assert main(["prepare", str(texts), "--out", str(folder), "--tokenizer", "train:400"]) == 0
    corpus = opened(folder, 400)
    manifest = json.loads((folder / "manifest.json").read_text())
    assert (manifest["dtype"], manifest["end_of_document"], corpus.vocab_size) == ("uint16", 0, manifest["vocab_size"])
    tokens = whole(corpus.train)
    assert 256 < tokens.max() < corpus.vocab_size <= 400
    assert len(tokens) < len(expected(texts, False)) * 0.7
    assert (tokens == 0).sum() == 38, "one end a document"
    assert corpus.text.decode(tokens).replace(b"<|endoftext|>", b"") == expected(texts, False)
    assert corpus.text.decode(np.concatenate(corpus.text.encode(["größer ".encode(), b"than"]))) == "größer than".encode()
    assert main(["verify", str(folder)]) == 0
    again = tmp_path / "again"
    assert main(["prepare", str(texts), "--out", str(again), "--tokenizer", str(folder / "tokenizer.json")]) == 0
    assert content(again) == content(folder)
    assert main(["show", str(folder), "--seq-len", "16", "--sequence", "0"]) == 0
    assert "Text number 0 tells" in capsys.readouterr().out


def test_the_standard_library_prepared_is_the_default_corpus(tmp_path):
    assert main(["prepare", "--stdlib", "--out", str(tmp_path / "lib"), "--shard-tokens", "1500000"]) == 0
    prepared, default = opened(tmp_path / "lib", seq_len=128), read_corpus(128)
    assert whole(prepared.train).tobytes() == whole(default.train).tobytes()
    assert whole(prepared.held_out).tobytes() == whole(default.held_out).tobytes()
    assert [prepared.place_of(number) for number in range(0, default.size, 99)] == [
        default.place_of(number) for number in range(0, default.size, 99)
    ]


def test_a_single_long_file_is_cut_behind_lines_and_its_end_held_out(tmp_path):
    line = "ä" * 1000 + "\n"
    text = (line * (3 * PIECE_BYTES // len(line.encode()))).encode() + "ü".encode() * PIECE_BYTES
    (tmp_path / "book.txt").write_bytes(text)
    assert main(["prepare", str(tmp_path / "book.txt"), "--out", str(tmp_path / "book")]) == 0
    corpus = opened(tmp_path / "book")
    train, held_out = whole(corpus.train).tobytes(), whole(corpus.held_out).tobytes()
    assert train + held_out == text
    train.decode()
    assert 0.9 < len(held_out) * 20 / len(text) <= 1
    inputs = Inputs(find_sources([tmp_path / "book.txt"]), None, "text", 20)
    pieces = list(inputs.pieces(lambda _: None))
    assert [len(piece.text) <= 2 * PIECE_BYTES for piece in pieces] == [True] * len(pieces)
    assert [piece.text[-1:] for piece in pieces[:3]] == [b"\n"] * 3
    assert [(piece.first, piece.last) for piece in pieces if not piece.held_out][:2] == [(True, False), (False, False)]
    for piece in pieces[:-2]:
        piece.text.decode()  # no character is cut in two
    lines = tmp_path / "lines.txt"
    lines.write_text("".join(f"{number}\n" for number in range(1000)))
    assert main(["prepare", str(lines), "--out", str(tmp_path / "lines")]) == 0
    assert whole(opened(tmp_path / "lines").train).tobytes().endswith(b"\n")


def test_what_was_cut_short_opens_nowhere_and_is_not_written_over(texts, tmp_path, capsys, monkeypatch):
    folder = tmp_path / "cut"
    monkeypatch.setattr(prepare, "_commit", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    assert main(["prepare", str(texts), "--out", str(folder)]) == 130
    assert not content(folder), "a person's Ctrl-C leaves nothing"
    monkeypatch.setattr(prepare, "_clear", lambda _: None)  # as with SIGKILL
    assert main(["prepare", str(texts), "--out", str(folder)]) == 130
    monkeypatch.undo()
    assert (folder / "train-00000.bin").exists(), "all but the manifest is there"
    before = content(folder)
    assert main(["show", str(folder)]) == 4
    assert "holds no manifest.json" in capsys.readouterr().err
    assert main(["prepare", str(texts), "--out", str(folder)]) == 3
    assert "is not empty" in capsys.readouterr().err
    assert content(folder) == before


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        ([], 3, "nothing to prepare; name files or folders, or --stdlib"),
        (["no-such.txt"], 4, "no-such.txt: does not exist; name text files"),
        (["empty"], 4, "holds no file that ends in .txt"),
        (["bad.jsonl"], 4, "bad.jsonl:2: is no JSON"),
        (["keys.jsonl"], 3, "keys.jsonl:1: has no text under 'text' but ['body']; name the right one with --jsonl-key"),
        (["few.jsonl"], 4, "no text is held out; give it more documents, or --held-out-every 3"),
        (["broken.jsonl.gz"], 4, "broken.jsonl.gz: cannot be unpacked"),
        (["a.txt", "--tokenizer", "no.json"], 3, "--tokenizer no.json: cannot be read"),
        (["a.txt", "--tokenizer", "a.txt"], 4, "is no tokenizer file"),
        (["a.txt", "--tokenizer", "train:lots"], 3, "write train:VOCAB with a number"),
        (["a.txt", "--tokenizer", "train:100"], 3, "take 257 tokens"),
        (["a.txt", "--end-of-document", "<x>"], 3, "--tokenizer bytes has no token left for it"),
        (["a.txt", "--held-out-every", "1"], 3, "--held-out-every 1: must be at least 2"),
        (["a.txt", "--shard-tokens", "0"], 3, "--shard-tokens 0: must be at least 1"),
        (["a.txt", "--shards", "9"], 3, "unrecognized arguments: --shards 9; see python -m trainer.data --help"),
        (["a.txt", "--shard-tokens", "x"], 3, "invalid int value: 'x'; see python -m trainer.data prepare --help"),
    ],
)  # fmt: skip
def test_a_wrong_input_is_a_sentence(tmp_path, monkeypatch, capsys, words, code, sentence):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    (tmp_path / "a.txt").write_text("some text\n" * 50)
    (tmp_path / "bad.jsonl").write_text('{"text": "fine"}\n{"text": \n')
    (tmp_path / "keys.jsonl").write_text('{"body": "fine"}\n')
    (tmp_path / "few.jsonl").write_text('{"text": "fine"}\n' * 3)
    (tmp_path / "broken.jsonl.gz").write_bytes(gzip.compress(b'{"text": "fine"}\n' * 99)[:-12])
    assert main(["prepare", *words, "--out", "out"]) == code
    error = capsys.readouterr().err
    assert error.startswith("trainer.data: ")
    assert sentence in error
    assert error.count("\n") == 1
    assert not list((tmp_path / "out").glob("*")), "the next try finds an empty folder"


def test_without_the_package_a_sentence_says_how_to_get_it(texts, tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "tokenizers", None)
    assert main(["prepare", str(texts), "--out", str(tmp_path / "out"), "--tokenizer", "train:400"]) == 3
    assert "pip install tokenizers" in capsys.readouterr().err


def test_wide_vocabularies_take_wide_tokens(tmp_path):
    """A word-level tokenizer of 70,000 words: uint32."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    made = Tokenizer(models.WordLevel({f"w{number}": number for number in range(70_000)}, unk_token="w0"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    made.save(str(tmp_path / "words.json"))
    (tmp_path / "a.txt").write_text(" ".join(f"w{number}" for number in range(69_000, 70_000)))
    words = ["--tokenizer", str(tmp_path / "words.json")]
    assert main(["prepare", str(tmp_path / "a.txt"), "--out", str(tmp_path / "out"), *words]) == 0
    corpus = opened(tmp_path / "out", 70_000)
    assert corpus.train.cut(0, 3).dtype == np.dtype("<u4")
    assert corpus.sequence(0).tolist() == list(range(69_000, 69_000 + SEQ_LEN + 1))
