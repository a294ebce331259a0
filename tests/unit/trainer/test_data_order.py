"""The data order against PROTOCOL.md, with a plain restatement of its sentences as the reference."""

from dataclasses import replace
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from trainer.data_order import Order, Position, permuted, ranges_of, union_of

seeds = st.integers(0, 2**40)
spans = st.tuples(st.integers(0, 120), st.integers(0, 40)).map(lambda pair: (pair[0], pair[0] + pair[1]))


@given(st.integers(1, 500), seeds, st.integers(0, 5))
def test_an_epoch_is_a_permutation_of_the_corpus(size, seed, epoch):
    assert sorted(permuted(place, size, seed, epoch) for place in range(size)) == list(range(size))


def test_order_depends_on_seed_and_epoch_and_is_pinned_across_machines():
    def first(seed, epoch):
        return [permuted(place, 30_000, seed, epoch) for place in range(6)]

    assert first(1337, 0) != first(1337, 1)
    assert first(1337, 0) != first(1338, 0)
    assert first(1337, 0) == PINNED


PINNED = [13689, 1259, 14903, 15580, 11800, 17374]


def taken_literally(cursor, skip, count):
    """The first B indices at or after the cursor that are not skipped; the cursor then stands behind the last one taken."""
    indices = []
    while len(indices) < count:
        if not any(start <= cursor < end for start, end in skip):
            indices.append(cursor)
        cursor += 1
    return indices, cursor


@given(st.lists(spans, max_size=6), st.integers(0, 60), st.integers(1, 20), st.integers(1, 5))
def test_a_step_takes_the_first_indices_that_are_not_skipped(skip, cursor, count, steps):
    position, _ = Position((Order(0, 7),), cursor).skipping(skip)
    for _ in range(steps):
        expected, cursor = taken_literally(cursor, skip, count)
        indices, position = position.take(count)
        assert list(indices) == expected
        assert position.cursor == cursor


@given(st.lists(spans, max_size=6), st.lists(spans, max_size=6), st.integers(0, 100))
def test_skipping_only_grows_and_what_lies_below_the_cursor_is_reported(earlier, later, cursor):
    position, _ = Position((Order(0, 7),)).skipping(earlier)
    position, late = replace(position, cursor=cursor).skipping(later)
    covered = {index for start, end, _ in position.skip for index in range(start, end)}
    assert covered == {index for start, end in earlier + later for index in range(start, end)}
    assert {index for start, end in late for index in range(start, end)} == {
        index for start, end in later for index in range(start, end) if index < cursor
    }
    assert all(start >= cursor for start, _ in position.skipped_ahead())
    again, _ = position.skipping(later)
    assert again == position


@given(st.integers(1, 30), st.integers(1, 8))
def test_skipping_spends_no_trained_samples(skipped, batch):
    clean = Position.first(1)
    hurt, _ = Position.first(1).skipping([(batch, batch + skipped)])
    for _ in range(5):
        _, clean = clean.take(batch)
        _, hurt = hurt.take(batch)
    assert hurt.cursor == clean.cursor + skipped


@given(seeds, st.integers(0, 100), st.integers(2, 400))
def test_a_new_data_seed_changes_nothing_before_the_cursor(seed, cursor, size):
    before = Position((Order(0, 1),), cursor)
    after = before.reordered(seed)
    assert after.data_seed == seed
    assert all(after.sequence_of(index, size) == before.sequence_of(index, size) for index in range(cursor))
    expected = Position.first(seed)
    assert all(after.sequence_of(index, size) == expected.sequence_of(index, size) for index in range(cursor, cursor + 20))
    assert after.reordered(seed) == after


def test_a_skip_entry_holds_only_where_its_order_is_in_force():
    position, _ = Position.first(1).skipping([(5, 30)])
    position = replace(position, cursor=10).reordered(2)
    assert position.skipped_ahead() == []
    assert position.take(3)[0] == (10, 11, 12)
    named, _ = position.skipping([(11, 13, 2), (13, 20, 1)])
    assert named.skipped_ahead() == [(11, 13)]


def test_epochs_follow_each_other_and_no_sequence_is_missed():
    position, seen = Position.first(3), []
    for _ in range(4):
        indices, position = position.take(5)
        seen += [position.sequence_of(index, 10) for index in indices]
    assert sorted(seen[:10]) == sorted(seen[10:]) == list(range(10))
    assert seen[:10] != seen[10:]


@given(st.lists(spans))
def test_a_union_is_sorted_disjoint_and_covers_the_same(parts):
    union = union_of(parts)
    assert all(left[1] < right[0] for left, right in pairwise(union))
    assert {i for a, b in union for i in range(a, b)} == {i for a, b in parts for i in range(a, b)}


def test_ranges_are_half_open():
    assert ranges_of((3, 4, 5, 9)) == [[3, 6], [9, 10]]
    assert ranges_of(()) == []


@given(st.lists(spans), st.lists(spans), st.integers(0, 60))
def test_what_is_ahead_of_a_range_is_what_the_run_would_still_come_to(asked, skipped, cursor):
    position, _ = Position((Order(0, 1),), cursor).skipping([span for span in skipped if span[0] < span[1]])
    taken, _ = position.take(2000)
    assert position.ahead(asked) == [index for index in taken if any(a <= index < b for a, b in asked)]
