"""Sentinel's own check of a node: what computes or remembers wrongly is sick, what cannot be tried is unknown."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from typing import Any

import pytest
import torch
import torch.distributed as dist

from sentinel.client.node_verdicts import Sick, Unknown
from sentinel.client.torch import node_check, pair_check
from sentinel.client.torch.node_check import check_memory, check_products, judging, main
from sentinel.client.torch.node_pairs import Pair, choose_pairs, judge_pool

pytestmark = pytest.mark.usefixtures("small")


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_check, "SIDE", 32)
    monkeypatch.setattr(node_check, "DEEP", 32)


def test_this_processor_multiplies_and_remembers() -> None:
    check_products("cpu")
    check_memory("cpu", 1 << 20)


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
@pytest.mark.parametrize("repeat", [1, 8])
def test_one_wrong_element_in_any_format_at_any_repeat_is_sick(dtype: str, repeat: int) -> None:
    seen = 0

    def multiply(left: Any, right: Any) -> Any:
        nonlocal seen
        product = left @ right
        seen += left.dtype == getattr(torch, dtype)
        if seen == repeat and left.dtype == getattr(torch, dtype):
            product[3, 5] += 1
        return product

    with pytest.raises(Sick, match=rf"cpu: 1 of 1024 elements of a product in {dtype} are wrong \(repeat {repeat}\)"):
        check_products("cpu", multiply)


@pytest.mark.parametrize("at", range(5))
def test_one_flipped_bit_in_any_pattern_is_sick(at: int) -> None:
    written = iter(range(99))

    def between(chunks: list[Any]) -> None:
        if next(written) == at:
            chunks[0][17] ^= 4

    with pytest.raises(Sick, match="cpu: 1 places of its memory do not hold what was written"):
        check_memory("cpu", 1 << 12, between)


def test_an_address_line_that_is_stuck_is_seen_though_every_pattern_holds() -> None:
    def between(chunks: list[Any]) -> None:
        chunks[0][256:512] = chunks[0][:256].clone()  # the same cells answer for both

    with pytest.raises(Sick, match="a number for each place"):
        check_memory("cpu", 1 << 12, between)


def test_memory_that_is_not_free_is_unknown() -> None:
    with pytest.raises(Unknown, match="are not free"):
        check_memory("cpu", 1 << 60)


@pytest.mark.parametrize(
    ("words", "error"),
    [
        ("CUDA error: uncorrectable ECC error encountered\nCUDA kernel errors might be …", Sick),
        ("CUDA error: an illegal memory access was encountered", Unknown),
        ("CUDA out of memory. Tried to allocate 2.00 GiB", Unknown),
    ],
)
def test_an_error_is_the_devices_only_where_its_driver_says_so(words: str, error: type[Exception]) -> None:
    with pytest.raises(error, match="cuda:3: CUDA"), judging("cuda:3"):
        raise RuntimeError(words)


def test_it_leaves_with_its_verdict_and_says_why(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--device", "cpu", "--memory", "1"]) == 0
    assert capsys.readouterr().out == "", "what is healthy has no reason"
    assert main(["--gpus", "64", "--memory", "1"]) == 1
    assert "of 64 GPUs are seen" in capsys.readouterr().out
    if not torch.cuda.is_available():
        assert main(["--device", "cuda"]) == 2
        said = capsys.readouterr()
        assert (said.out, "no GPU is seen" in said.err) == ("", True)


# Pairs.


def play(size: int, bad: set[int], links: set[Pair] = frozenset()) -> tuple[set[int], set[int], int]:  # type: ignore[assignment]
    """Rounds until nothing more can be known: who is called bad, of whom nothing is known, and how many rounds it took."""
    results: dict[Pair, bool] = {}
    rounds = 0
    while pairs := choose_pairs(size, results):
        rounds += 1
        ranks = [rank for pair in pairs for rank in pair]
        assert len(ranks) == len(set(ranks)), "nobody is in two pairs at once"
        assert not results.keys() & set(pairs), "nothing is asked twice"
        results |= {pair: not (set(pair) & bad or pair in links) for pair in pairs}
        assert rounds <= 2 * size
    verdict = judge_pool(size, results)
    return set(verdict.bad), set(verdict.unknown), rounds


@pytest.mark.parametrize(
    ("size", "bad", "found", "unknown"),
    [
        (2, set(), set(), set()),
        (2, {1}, set(), {0, 1}),
        (3, {1}, set(), {0, 1, 2}),
        (4, {1}, {1}, set()),
        (5, {4}, {4}, set()),
        (6, {0, 5}, {0, 5}, set()),
        (8, {0, 1}, {0, 1}, set()),
        (4, {0, 2}, set(), {0, 1, 2, 3}),
        (64, {3, 17, 40}, {3, 17, 40}, set()),
    ],
)
def test_pairs_find_the_bad_nodes_and_call_no_other_bad(size: int, bad: set[int], found: set[int], unknown: set[int]) -> None:
    called, not_known, rounds = play(size, bad)
    assert (called, not_known) == (found, unknown)
    assert rounds <= 3


def test_a_bad_link_between_two_good_nodes_convicts_neither() -> None:
    called, unknown, _ = play(6, set(), {(2, 3)})
    assert (called, unknown) == (set(), set())


def pool_of(size: int, wrong: set[int], silent: set[int], monkeypatch: pytest.MonkeyPatch) -> dict[int, str]:
    """What each rank of a pool concludes, each in a thread of its own, over a store that they share."""
    store = dist.HashStore()
    monkeypatch.setattr(pair_check, "sum_with", lambda s, n, pair, r, w: "wrong" if set(pair) & wrong else "")
    monkeypatch.setattr(dist, "TCPStore", lambda *_, **__: store)
    concluded: dict[int, str] = {}

    def take_part(rank: int) -> None:
        environ = {"RANK": str(rank), "WORLD_SIZE": str(size), "MASTER_ADDR": "here", "MASTER_PORT": "1"}
        try:
            pair_check.check_pairs(lambda _: None, environ, pair_s=0.3)
            concluded[rank] = "healthy"
        except (Sick, Unknown) as error:
            concluded[rank] = f"{type(error).__name__}: {error}"

    threads = [threading.Thread(target=take_part, args=(rank,)) for rank in range(size) if rank not in silent]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30.0)
    return concluded


def test_each_rank_of_a_pool_learns_its_own_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    concluded = pool_of(5, {3}, set(), monkeypatch)
    assert {rank: words for rank, words in concluded.items() if words != "healthy"} == {
        3: "Sick: its all-reduces with ranks 2 and 1 of the pool failed, where others' do not"
    }


def test_a_rank_that_never_answers_is_bad_and_its_partner_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    assert pool_of(4, set(), {3}, monkeypatch) == {0: "healthy", 1: "healthy", 2: "healthy"}


def test_where_every_pair_fails_nobody_is_convicted(monkeypatch: pytest.MonkeyPatch) -> None:
    concluded = pool_of(4, {0, 2}, set(), monkeypatch)
    assert all(words.startswith("Unknown: pairs: no node that a pair has cleared") for words in concluded.values())
    assert len(concluded) == 4


def test_a_node_alone_is_not_paired_and_a_pool_without_a_place_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    pair_check.check_pairs(said.append, {"WORLD_SIZE": "1"})
    assert said == ["pairs: nobody is there to pair with"]
    with pytest.raises(Unknown, match="needs RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT"):
        pair_check.check_pairs(said.append, {"WORLD_SIZE": "2", "RANK": "0"})


def test_real_all_reduces_between_processes_convict_the_one_that_sums_wrongly(tmp_path: Any) -> None:
    """Four processes over gloo; the third adds one to what it hands out."""
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=120, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == [0, 0, 1, 0], done.stdout + done.stderr


PROGRAM = """
import json, os, socket, sys
import torch, torch.distributed as dist
from sentinel.client.node_verdicts import Sick
from sentinel.client.torch.pair_check import check_pairs

with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    port = free.getsockname()[1]
children = []
for rank in range(4):
    if (pid := os.fork()) == 0:
        if rank == 2:
            plain = dist.all_reduce
            dist.all_reduce = lambda value: plain(value.add_(1.0))
        place = {"RANK": str(rank), "WORLD_SIZE": "4", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
        try:
            check_pairs(lambda line: None, place, pair_s=30.0)
        except Sick as found:
            print(found, flush=True)
            os._exit(1)
        except BaseException as error:
            print(repr(error), file=sys.stderr, flush=True)
            os._exit(3)
        os._exit(0)
    children.append(pid)
print(json.dumps([os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children]))
"""
