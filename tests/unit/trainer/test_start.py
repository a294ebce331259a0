"""When an attempt claims the bits of those before it."""

import json

import pytest

from sentinel.client.run_layout import stream_path
from trainer.start import repeats


@pytest.fixture
def receipts(tmp_path):
    """Writes the stream of each attempt: a receipt, a line that is none, or nothing."""

    def write(*written):
        for number, receipt in enumerate(written, start=1):
            path = stream_path(tmp_path, number)
            path.parent.mkdir(parents=True)
            if receipt is not None:
                path.write_text((receipt if isinstance(receipt, str) else json.dumps({"kind": "start"} | receipt)) + "\n{}\n")
        return tmp_path

    return write


CPU = {"world_size": 2, "kernels": {"name": "cpu", "why": "g++"}}


def test_it_does_where_all_ran_on_as_many_ranks_and_the_same_kernels(receipts):
    place = receipts(CPU, CPU | {"kernels": {"name": "cpu", "why": "built before"}})
    assert repeats(place, range(1, 3), 2, "cpu")
    assert not repeats(place, range(1, 3), 1, "cpu")
    assert not repeats(place, range(1, 3), 2, "torch")


def test_only_the_attempts_it_is_asked_about_count(receipts):
    place = receipts(CPU | {"kernels": {"name": "torch", "why": "no compiler"}}, CPU, CPU)
    assert not repeats(place, range(1, 4), 2, "cpu")
    assert repeats(place, range(2, 4), 2, "cpu")
    assert repeats(place, range(4, 4), 2, "cuda"), "the first attempt of all"


def test_an_attempt_that_told_nothing_trained_nothing_and_an_older_trainer_had_torch_alone(receipts):
    place = receipts(None, "{torn", '{"kind": "step"}', "[]", {"world_size": 2}, {"world_size": 2, "kernels": "fast"})
    assert repeats(place, range(1, 7), 2, "torch")
    assert not repeats(place, range(1, 7), 2, "cpu")
    assert repeats(place, range(8, 20), 2, "cpu"), "not there"
