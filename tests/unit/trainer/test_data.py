import random
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from trainer.data import Loader, read_corpus
from trainer.data.tokens import Segment, Tokens
from trainer.data_order import Position
from trainer.exits import DataError
from trainer.fault_injection.data import PoisonedLoader
from trainer.faults import parse_fault
from trainer.printable import printable

CPU = torch.device("cpu")


def poisoned_loader(corpus, original, samples):
    return PoisonedLoader(corpus, original, [parse_fault(f"bad_data@sample={samples}")], CPU)


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
    assert corpus.train.cut(0, 3800).max() < 128
    assert corpus.size == 3799 // 8
    assert corpus.sequence(1).tobytes() == bytes(range(8, 17))
    assert corpus.held_out_sequence(0).tobytes() == bytes(7 * 7 + i for i in range(9)), "of the eighth file"


def test_a_place_without_sources_is_a_data_error(tmp_path):
    with pytest.raises(DataError, match=r"only 0 training bytes"):
        read_corpus(8, tmp_path)


def test_the_global_batch_does_not_depend_on_the_number_of_ranks(corpus):
    loader = Loader(corpus, CPU)
    position = Position.first(1)
    indices, _ = position.take(12)
    whole = loader.batch(indices, position, 0, 1)
    for world_size in (2, 3, 4):
        parts = [loader.batch(indices, position, rank, world_size) for rank in range(world_size)]
        assert torch.equal(torch.cat([part[0] for part in parts]), whole[0])
        assert torch.equal(torch.cat([part[1] for part in parts]), whole[1])
    assert torch.equal(whole[0][:, 1:], whole[1][:, :-1])


def test_evaluation_is_the_same_text_for_every_number_of_ranks(corpus):
    loader = Loader(corpus, CPU)
    whole = loader.evaluation_batch(0, 4, 0, 1)[0]
    assert torch.equal(torch.cat([loader.evaluation_batch(0, 4, rank, 2)[0] for rank in range(2)]), whole)
    assert torch.equal(poisoned_loader(corpus, Position.first(2), "0-9999:share=1").evaluation_batch(0, 4, 0, 1)[0], whole)


def test_poison_hits_its_samples_always_and_only_those(corpus):
    original = Position.first(1)
    clean, hurt, again = Loader(corpus, CPU), *(poisoned_loader(corpus, original, "3-6") for _ in range(2))
    indices = tuple(range(12))
    good, bad = clean.batch(indices, original, 0, 1)[0], hurt.batch(indices, original, 0, 1)[0]
    assert [bool((good[row] != bad[row]).any()) for row in range(12)] == [3 <= row < 6 for row in range(12)]
    assert bad[3:6].max() > 127
    assert torch.equal(again.batch(indices, original, 0, 1)[0], bad)


def test_poison_stays_with_its_sequences_in_another_order_and_epoch(corpus):
    original, other = Position.first(1), Position.first(2)
    hurt, clean = poisoned_loader(corpus, original, "3-6:share=1"), Loader(corpus, CPU)
    poisoned = {original.sequence_of(index, corpus.size) for index in (3, 4, 5)}
    for position in (other, original):
        epoch = tuple(range(corpus.size, 2 * corpus.size))
        good, bad = clean.batch(epoch, position, 0, 1)[0], hurt.batch(epoch, position, 0, 1)[0]
        differing = {position.sequence_of(epoch[row], corpus.size) for row in range(len(epoch)) if (good[row] != bad[row]).any()}
        assert differing == poisoned


def test_a_milder_poison_replaces_only_its_share_of_the_bytes(corpus) -> None:
    original = Position.first(7)
    hurt, clean = poisoned_loader(corpus, original, "0-64:share=0.25"), Loader(corpus, CPU)
    indices = tuple(range(64))
    changed = (hurt.batch(indices, original, 0, 1)[0] != clean.batch(indices, original, 0, 1)[0]).float().mean().item()
    assert 0.2 < changed < 0.3


def test_a_sequence_knows_its_file_and_where_it_begins_in_it(corpus):
    assert corpus.place_of(0) == ("m00.py", 0)
    assert corpus.place_of(12) == ("m00.py", 96), "it goes on into the next file"
    assert corpus.place_of(13) == ("m01.py", 4)
    names = [corpus.place_of(number)[0] for number in range(corpus.size)]
    assert names == sorted(names)
    assert len(set(names)) == 38
    assert "m07.py" not in names, "held out"
    for number in range(corpus.size):
        name, offset = corpus.place_of(number)
        first = bytes((int(name[1:3]) * 7 + i) % 128 for i in range(100))[offset]
        assert corpus.sequence(number)[0] == first


def test_a_sample_is_looked_at_as_it_is_trained_on(corpus):
    position = Position.first(1)
    loader = poisoned_loader(corpus, position, "3-4:share=1")
    batch = loader.batch((2, 3), position, 0, 1)
    for place, index in enumerate((2, 3)):
        inputs, targets = loader.sample(index, position)
        assert torch.equal(inputs[0], batch[0][place])
        assert torch.equal(targets[0], batch[1][place])
    assert loader.is_poisoned(3, position)
    assert loader.text_of(3, position)[:-1] == bytes(batch[0][1].tolist())
    assert not loader.is_poisoned(2, position)


def test_text_is_shown_without_a_control_character():
    shown = printable(b"def f():\n\tx = '\x1b[31m\xc3\xa9\x07\xff'\r\n")
    assert shown == "def f():\n\\tx = '\\x1b[31m\\xe9\\x07\\xff'\\r\n"
    assert printable(bytes(range(256))).replace("\n", "").isprintable()


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    ranks=st.integers(1, 4),
    cursor=st.integers(0, 900),
    skips=st.lists(st.tuples(st.integers(0, 1000), st.integers(1, 60)), max_size=4),
    seeds=st.tuples(st.integers(0, 99), st.integers(0, 99)),
)
def test_all_ranks_together_train_on_exactly_what_was_planned(corpus, ranks, cursor, skips, seeds):
    position = replace(Position.first(seeds[0]), cursor=cursor).reordered(seeds[1])
    position, _ = position.skipping([(start, start + length) for start, length in skips])
    planned, _ = position.take(4 * ranks)
    left_out = {index for start, length in skips for index in range(start, start + length)}
    assert list(planned) == [index for index in range(cursor, cursor + 2000) if index not in left_out][: 4 * ranks]
    loaders = [Loader(corpus, CPU) for _ in range(ranks)]
    trained = torch.cat([loader.batch(planned, position, rank, ranks)[0] for rank, loader in enumerate(loaders)])
    expected = [corpus.sequence(position.sequence_of(index, corpus.size))[:-1] for index in planned]
    assert trained.tolist() == np.stack(expected).tolist()


def test_no_random_number_is_drawn_from_a_generator_that_training_uses(corpus):
    position = Position.first(1)
    loader = poisoned_loader(corpus, position, "0-6:share=0.5")

    def states():
        return torch.get_rng_state().tolist(), random.getstate(), np.random.get_state()[1].tolist()

    before = states()
    loader.prefetch(tuple(range(8)), position, 0, 2)
    first = loader.batch(tuple(range(8)), position, 0, 2)[0]
    loader.evaluation_batch(3, 4, 0, 1)
    loader.sample(2, position)
    assert states() == before
    torch.rand(3)
    loader.evaluation_batch(0, 4, 0, 1)
    assert torch.equal(loader.batch(tuple(range(8)), position, 0, 2)[0], first), "poison is a function of the sequence"


def test_a_shorter_length_takes_the_beginning_of_each_sequence(corpus):
    position = Position.first(1)
    loader = Loader(corpus, CPU)
    whole, short = loader.batch((0, 1, 2), position, 0, 1), loader.batch((0, 1, 2), position, 0, 1, seq_len=4)
    assert short[0].shape == short[1].shape == (3, 4)
    assert torch.equal(short[0], whole[0][:, :4])
    assert torch.equal(short[1], whole[1][:, :4])


def test_a_batch_looked_up_ahead_is_forgotten_when_something_else_is_asked_for(corpus):
    before = Position.first(1)
    after = replace(before, cursor=4).reordered(9)
    for asked, position in (((4, 5, 6, 7), after), ((5, 6, 8, 9), before), ((4, 5, 6, 7), before)):
        ahead, fresh = Loader(corpus, CPU), Loader(corpus, CPU)
        ahead.prefetch((4, 5, 6, 7), before, 0, 1)
        assert torch.equal(ahead.batch(asked, position, 0, 1)[0], fresh.batch(asked, position, 0, 1)[0])


def test_the_kernel_is_told_of_whole_pages_that_hold_the_tokens():
    advised = []

    class Recorder:
        def madvise(self, option, start, length):
            advised.append((start, start + length))

    page = 4096
    array = np.zeros(3 * page, np.uint16)
    Tokens([Segment(array, Recorder()), Segment(array)]).prefetch(2100, 2110)
    Tokens([Segment(array, Recorder(), 2 * page)]).prefetch(10, 20)
    Tokens([Segment(array, Recorder()), Segment(array, Recorder())]).prefetch(3 * page - 1, 3 * page + 1)
    ends = [(4200, 4220), (2 * page + 20, 2 * page + 40), (6 * page - 2, 6 * page), (0, 2)]
    assert len(advised) == len(ends)
    for (start, stop), (first, behind) in zip(advised, ends, strict=True):
        assert start % page == 0
        assert first - page < start <= first
        assert stop == behind


@settings(max_examples=60, deadline=None)
@given(sizes=st.lists(st.integers(0, 9), min_size=1, max_size=6), data=st.data())
def test_pieces_read_like_one_array(sizes, data):
    whole = np.arange(sum(sizes), dtype=np.uint16)
    ends = np.cumsum(sizes)
    tokens = Tokens([Segment(whole[end - size : end]) for size, end in zip(sizes, ends, strict=True)])
    assert len(tokens) == len(whole)
    if len(whole):
        start = data.draw(st.integers(0, len(whole) - 1))
        stop = data.draw(st.integers(start + 1, len(whole)))
        assert tokens.cut(start, stop).tolist() == whole[start:stop].tolist()


@pytest.mark.parametrize("bad", [300, -1])
def test_a_token_outside_the_vocabulary_is_named_before_it_reaches_the_device(corpus, bad):
    tokens = np.full(200, 5, np.int32)
    tokens[150] = bad
    parts = Tokens([Segment(tokens)]), Tokens([Segment(tokens[100:])])
    hurt = replace(corpus, train=parts[0], held_out=parts[1], place=lambda token: ("shard", token))
    position = Position.first(1)
    loader = Loader(hurt, CPU)
    epoch = tuple(range(hurt.size))
    with pytest.raises(DataError, match=rf"shard, token 150: token {bad} is not below the vocabulary of 256; .*--set"):
        loader.batch(epoch, position, 0, 1)
    with pytest.raises(DataError, match="a held-out sequence"):
        loader.evaluation_batch(0, hurt.held_out_size, 0, 1)
    assert loader.batch(tuple(i for i in epoch if position.sequence_of(i, hurt.size) != 18), position, 0, 1)
