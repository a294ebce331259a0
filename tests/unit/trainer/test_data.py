import pytest
import torch

from trainer.data import Loader, read_corpus
from trainer.exits import DataError
from trainer.order import Position
from trainer.show import printable

CPU = torch.device("cpu")


@pytest.fixture
def corpus(tmp_path):
    for number in range(40):
        (tmp_path / f"m{number:02d}.py").write_bytes(bytes((number * 7 + i) % 128 for i in range(100)))
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_x.py").write_bytes(b"\xff" * 1000)
    (tmp_path / "notes.txt").write_bytes(b"\xff" * 1000)
    return read_corpus(8, tmp_path)


def test_the_corpus_is_sorted_split_and_leaves_tests_out(corpus):
    assert len(corpus.train) == 3800
    assert len(corpus.held_out) == 200
    assert corpus.train.max() < 128
    assert corpus.size == 3799 // 8
    assert torch.equal(corpus.sequence(1), corpus.train[8:17])


def test_a_place_without_sources_is_a_data_error(tmp_path):
    with pytest.raises(DataError, match=r"only 0 training bytes"):
        read_corpus(8, tmp_path)


def test_the_global_batch_does_not_depend_on_the_number_of_ranks(corpus):
    loader = Loader(corpus, Position.first(1), [], CPU)
    position = Position.first(1)
    indices, _ = position.take(12)
    whole = loader.batch(indices, position, 0, 1)
    for world_size in (2, 3, 4):
        parts = [loader.batch(indices, position, rank, world_size) for rank in range(world_size)]
        assert torch.equal(torch.cat([part[0] for part in parts]), whole[0])
        assert torch.equal(torch.cat([part[1] for part in parts]), whole[1])
    assert torch.equal(whole[0][:, 1:], whole[1][:, :-1])


def test_evaluation_is_the_same_text_for_every_number_of_ranks(corpus):
    loader = Loader(corpus, Position.first(1), [], CPU)
    whole = loader.evaluation_batch(0, 4, 0, 1)[0]
    assert torch.equal(torch.cat([loader.evaluation_batch(0, 4, rank, 2)[0] for rank in range(2)]), whole)
    assert torch.equal(Loader(corpus, Position.first(2), [(0, 9999, 1.0)], CPU).evaluation_batch(0, 4, 0, 1)[0], whole)


def test_poison_hits_its_samples_always_and_only_those(corpus):
    original = Position.first(1)
    clean, hurt, again = (Loader(corpus, original, spans, CPU) for spans in ([], [(3, 6, 1.0)], [(3, 6, 1.0)]))
    indices = tuple(range(12))
    good, bad = clean.batch(indices, original, 0, 1)[0], hurt.batch(indices, original, 0, 1)[0]
    assert [bool((good[row] != bad[row]).any()) for row in range(12)] == [3 <= row < 6 for row in range(12)]
    assert bad[3:6].max() > 127
    assert torch.equal(again.batch(indices, original, 0, 1)[0], bad)


def test_poison_stays_with_its_sequences_in_another_order_and_epoch(corpus):
    original, other = Position.first(1), Position.first(2)
    hurt, clean = Loader(corpus, original, [(3, 6, 1.0)], CPU), Loader(corpus, original, [], CPU)
    poisoned = {original.sequence_of(index, corpus.size) for index in (3, 4, 5)}
    for position in (other, original):
        epoch = tuple(range(corpus.size, 2 * corpus.size))
        good, bad = clean.batch(epoch, position, 0, 1)[0], hurt.batch(epoch, position, 0, 1)[0]
        differing = {position.sequence_of(epoch[row], corpus.size) for row in range(len(epoch)) if (good[row] != bad[row]).any()}
        assert differing == poisoned


def test_a_milder_poison_replaces_only_its_share_of_the_bytes(corpus) -> None:
    original = Position.first(7)
    hurt, clean = Loader(corpus, original, [(0, 64, 0.25)], CPU), Loader(corpus, original, [], CPU)
    indices = tuple(range(64))
    changed = (hurt.batch(indices, original, 0, 1)[0] != clean.batch(indices, original, 0, 1)[0]).float().mean().item()
    assert 0.2 < changed < 0.3


def test_a_sequence_knows_its_file_and_where_it_begins_in_it(corpus):
    names = [name for _, name in corpus.files]
    assert names == sorted(names)
    assert "m07.py" not in names, "held out"
    assert corpus.place_of(0) == ("m00.py", 0)
    assert corpus.place_of(12) == ("m00.py", 96), "it goes on into the next file"
    assert corpus.place_of(13) == ("m01.py", 4)
    for number in range(corpus.size):
        name, offset = corpus.place_of(number)
        first = bytes((int(name[1:3]) * 7 + i) % 128 for i in range(100))[offset]
        assert corpus.sequence(number)[0] == first


def test_a_sample_is_looked_at_as_it_is_trained_on(corpus):
    position = Position.first(1)
    loader = Loader(corpus, position, [(3, 4, 1.0)], CPU)
    batch = loader.batch((2, 3), position, 0, 1)
    for place, index in enumerate((2, 3)):
        inputs, targets = loader.sample(index, position)
        assert torch.equal(inputs[0], batch[0][place])
        assert torch.equal(targets[0], batch[1][place])
    text, is_poisoned = loader.text_of(3, position)
    assert is_poisoned
    assert text[:-1] == bytes(batch[0][1].tolist())
    assert not loader.text_of(2, position)[1]


def test_text_is_shown_without_a_control_character():
    shown = printable(b"def f():\n\tx = '\x1b[31m\xc3\xa9\x07\xff'\r\n")
    assert shown == "def f():\n\\tx = '\\x1b[31m\\xe9\\x07\\xff'\\r\n"
    assert printable(bytes(range(256))).replace("\n", "").isprintable()
