"""All-reduces between pairs of nodes, one rank a node: under torchrun, or as a step of Slurm.

    srun --ntasks-per-node=1 sentinel node-check --pairs

`RANK`, `WORLD_SIZE`, `MASTER_ADDR` and `MASTER_PORT` say who takes part, as for torch.distributed. Rank 0 keeps the store and
judges, so that all go by the same results: it publishes the pairs of a round, waits for their answers until a deadline, and
publishes the next ones or the verdict. A rank whose store does not answer knows nothing.

Gloo on the CPU, NCCL where CUDA is there. What is summed are integers that float32 holds exactly, so that a wrong sum is seen.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from sentinel.client.node_verdicts import Sick, Unknown, first_line
from sentinel.client.torch.node_pairs import ROUNDS_MAX, Pair, PoolVerdict, choose_pairs, judge_pool

MEET_S = 120.0  # until all have come
PAIR_S = 60.0  # for one pair: to meet, and to sum
ELEMENTS = 1 << 20
SUMS = 3
LAST_LOOK_S = 0.05


@dataclass(frozen=True, slots=True)
class Pool:
    """Who this is, of how many, and where they meet."""

    rank: int
    size: int
    host: str
    port: int

    @classmethod
    def of(cls, environ: Mapping[str, str]) -> Pool:
        """Raises Unknown where a variable is missing or is no number."""
        try:
            rank, size, port = (int(environ[name]) for name in ("RANK", "WORLD_SIZE", "MASTER_PORT"))
            return cls(rank, size, environ["MASTER_ADDR"], port)
        except (KeyError, ValueError) as error:
            words = "--pairs needs RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, as torchrun sets them"
            raise Unknown(f"{words}: {error}") from None


def check_pairs(say: Callable[[str], None], environ: Mapping[str, str] | None = None, pair_s: float = PAIR_S) -> None:
    """Raises Sick where this node fails with nodes that others have cleared; Unknown where that cannot be said."""
    import torch.distributed as dist

    environ = os.environ if environ is None else environ
    if int(environ.get("WORLD_SIZE", "1") or "1") < 2:
        say("pairs: nobody is there to pair with")
        return
    pool = Pool.of(environ)
    try:
        store = dist.TCPStore(
            pool.host, pool.port, pool.size, is_master=pool.rank == 0, timeout=timedelta(seconds=MEET_S), wait_for_workers=True
        )
        verdict = _judge_rounds(store, pool, pair_s) if pool.rank == 0 else _follow_rounds(store, pool, pair_s)
    except RuntimeError as error:  # torch's DistError and DistStoreError among them
        raise Unknown(f"pairs: the {pool.size} nodes did not meet at {pool.host}:{pool.port}: {first_line(error)}") from error
    if pool.rank in verdict.bad:
        others = " and ".join(map(str, verdict.bad[pool.rank]))
        raise Sick(f"its all-reduces with ranks {others} of the pool failed, where others' do not")
    if pool.rank in verdict.unknown:
        raise Unknown("pairs: no node that a pair has cleared was there to pair with")
    say(f"pairs: its all-reduces are right, in a pool of {pool.size}")


def _judge_rounds(store: Any, pool: Pool, pair_s: float) -> PoolVerdict:
    results: dict[Pair, bool] = {}
    for number in range(ROUNDS_MAX):
        pairs = choose_pairs(pool.size, results)
        if not pairs:
            break
        store.set(f"round/{number}", json.dumps(pairs))
        _take_part(store, pool, number, pairs, pair_s)
        end_s = time.monotonic() + 2 * pair_s
        for pair in pairs:
            results[pair] = all(_has_succeeded(store, number, rank, end_s) for rank in pair)
    verdict = judge_pool(pool.size, results)
    bad = {str(rank): list(others) for rank, others in verdict.bad.items()}
    store.set("verdict", json.dumps({"bad": bad, "unknown": verdict.unknown}))
    store.set(f"round/{number if not pairs else ROUNDS_MAX}", json.dumps([]))
    _await_readers(store, pool, pair_s)
    return verdict


def _follow_rounds(store: Any, pool: Pool, pair_s: float) -> PoolVerdict:
    for number in range(ROUNDS_MAX + 1):
        store.wait([f"round/{number}"], timedelta(seconds=MEET_S + 4 * pair_s))
        pairs = tuple((int(one), int(other)) for one, other in json.loads(store.get(f"round/{number}")))
        if not pairs:
            break
        _take_part(store, pool, number, pairs, pair_s)
    store.wait(["verdict"], timedelta(seconds=MEET_S + 4 * pair_s))
    found = json.loads(store.get("verdict"))
    store.add("readers", 1)
    return PoolVerdict({int(rank): tuple(others) for rank, others in found["bad"].items()}, tuple(found["unknown"]))


def _take_part(store: Any, pool: Pool, number: int, pairs: tuple[Pair, ...], pair_s: float) -> None:
    mine = next((pair for pair in pairs if pool.rank in pair), None)
    if mine is not None:
        trouble = sum_with(store, number, mine, pool.rank, pair_s)
        store.set(f"answer/{number}/{pool.rank}", trouble or "ok")


def sum_with(store: Any, number: int, pair: Pair, rank: int, pair_s: float) -> str:
    """Sum with the other of the pair, a few times; what went wrong, or empty."""
    import torch
    import torch.distributed as dist

    on_gpu = torch.cuda.is_available() and dist.is_nccl_available()
    device = torch.device("cuda", 0) if on_gpu else torch.device("cpu")
    place = pair.index(rank)
    within = timedelta(seconds=pair_s)
    try:
        own = dist.PrefixStore(f"pair/{number}/{pair[0]}-{pair[1]}", store)
        dist.init_process_group("nccl" if on_gpu else "gloo", store=own, rank=place, world_size=2, timeout=within)
        for turn in range(SUMS):
            numbers = (torch.arange(ELEMENTS, dtype=torch.int64) * (turn + 1)) % 4093
            value = (numbers + place).to(torch.float32).to(device)
            dist.all_reduce(value)
            wrong = int((value.to("cpu").to(torch.int64) != 2 * numbers + 1).sum())
            if wrong:
                return f"{wrong} of {ELEMENTS} sums are wrong"
        return ""
    except RuntimeError as error:
        return first_line(error)
    finally:
        if dist.is_initialized():
            dist.destroy_process_group()


def _has_succeeded(store: Any, number: int, rank: int, end_s: float) -> bool:
    """A rank that does not answer in time has failed its pair."""
    try:
        store.wait([f"answer/{number}/{rank}"], timedelta(seconds=max(LAST_LOOK_S, end_s - time.monotonic())))
    except RuntimeError:
        return False
    return bool(store.get(f"answer/{number}/{rank}") == b"ok")


def _await_readers(store: Any, pool: Pool, pair_s: float) -> None:
    """The store ends with this process: whoever lives has read the verdict by then, or never will."""
    end_s = time.monotonic() + pair_s
    while store.add("readers", 0) < pool.size - 1 and time.monotonic() < end_s:
        time.sleep(LAST_LOOK_S)
