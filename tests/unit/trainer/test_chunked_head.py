"""The head and its loss in chunks of rows: they give what all logits at once give, in the memory of one chunk."""

import shutil
import weakref

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from tests.unit.trainer.in_process import train_here
from tests.unit.trainer.stepping import Stepping, batches
from trainer.config.loading import changed, checked, load_config
from trainer.exits import ConfigError
from trainer.head import chunked_head, loss_of_logits
from trainer.loss import compute_loss
from trainer.model.sizes import LOGITS_AT_ONCE, rows_at_once
from trainer.preflight.amounts import memory_of_rank
from trainer.step import evaluate

ROWS, WIDTH, VOCABULARY, CHUNK = 50, 16, 384, 16  # the last chunk has two rows
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SCALES = {"fp32": 1.0, "bf16": 0.25, "fp16": 4096.0}  # what backward is given: of a micro-batch, of a loss scale
OFF = {"fp32": 2e-6, "bf16": 6e-3, "fp16": 8e-4}  # of the largest element, from float64


def drawn(precision):
    given = torch.Generator().manual_seed(5)
    normed = torch.randn(2, ROWS // 2, WIDTH, generator=given).to(DTYPES[precision]).requires_grad_()
    weight = (torch.randn(VOCABULARY, WIDTH, generator=given) / 4).to(DTYPES[precision]).requires_grad_()
    return normed, weight, torch.randint(0, VOCABULARY, (ROWS,), generator=given)


def whole(normed, weight, targets, z_loss, expected, fused):
    return loss_of_logits(torch.nn.functional.linear(normed, weight).flatten(0, 1), targets, z_loss, expected, fused)


def chunked(normed, weight, targets, z_loss, expected, fused, chunk=CHUNK):
    return chunked_head(targets, chunk, z_loss, expected, fused)(normed, weight)


def exact(normed, weight, targets, z_loss):
    """In float64, from the same inputs."""
    normed, weight = (one.detach().double().requires_grad_() for one in (normed, weight))
    logits = (normed @ weight.t()).flatten(0, 1)
    partition = logits.logsumexp(dim=1)
    cross_entropy = (partition - logits.gather(1, targets[:, None])[:, 0]).mean()
    return cross_entropy + z_loss * partition.square().mean(), cross_entropy, (normed, weight)


@pytest.mark.parametrize("z_loss", [0.0, 1e-2])
@pytest.mark.parametrize("precision", DTYPES)
def test_loss_gradient_and_statistics_are_those_of_all_logits_at_once_and_of_float64(fused, precision, z_loss):
    given, results = torch.tensor(SCALES[precision]), {}
    for way in (whole, chunked):
        normed, weight, targets = drawn(precision)
        loss = way(normed, weight, targets, z_loss, given, fused)
        results[way] = (loss, torch.autograd.grad(loss.total, (normed, weight), given))
    total, cross_entropy, leaves = exact(normed, weight, targets, z_loss)
    wanted = torch.autograd.grad(total, leaves, given.double())
    for way, (loss, found) in results.items():
        rounding = 1e-6 if precision == "fp32" else 2e-3  # of the logits to 16 bits
        assert loss.total.item() == pytest.approx(total.item(), rel=rounding), way
        assert loss.cross_entropy.item() == pytest.approx(cross_entropy.item(), rel=rounding), way
        for one, other in zip(found, wanted, strict=True):
            assert one.dtype == DTYPES[precision]
            assert (one.double() - other).abs().max() <= OFF[precision] * other.abs().max(), way
    at_once, parts = results[whole][0], results[chunked][0]
    assert parts.logit_max.item() == at_once.logit_max.item()
    assert (parts.nonfinite is None) == (not fused)
    assert not any(one.requires_grad for one in parts[1:] if one is not None)


@pytest.mark.parametrize("precision", DTYPES)
def test_a_gradient_that_was_not_announced_is_right_too(fused, precision):
    normed, weight, targets = drawn(precision)
    late = torch.tensor(0.5 * SCALES[precision])
    loss = chunked(normed, weight, targets, 0.0, torch.tensor(SCALES[precision]), fused)
    found = torch.autograd.grad(loss.total, (normed, weight), late)
    total, _, leaves = exact(normed, weight, targets, 0.0)
    for one, other in zip(found, torch.autograd.grad(total, leaves, late.double()), strict=True):
        assert (one.double() - other).abs().max() <= OFF[precision] * other.abs().max()


def test_its_gradients_are_given_away_once(fused):
    normed, weight, targets = drawn("fp32")
    total = chunked(normed, weight, targets, 0.0, None, fused).total
    with pytest.raises(RuntimeError, match="create_graph"):
        torch.autograd.grad(total, normed, create_graph=True)
    torch.autograd.grad(total, normed, retain_graph=True)
    with pytest.raises(RuntimeError, match="a second time"):
        torch.autograd.grad(total, normed)


def test_what_is_not_finite_is_counted_over_all_chunks(world):
    normed, weight, targets = drawn("fp32")
    with torch.no_grad():
        normed[0, 3], normed[1, -1, 0] = torch.nan, torch.inf  # rows of the first chunk and of the last
    for grad in (True, False):
        with torch.set_grad_enabled(grad):
            at_once, parts = (way(normed, weight, targets, 0.0, None, True) for way in (whole, chunked))
        assert parts.nonfinite.item() == at_once.nonfinite.item() == 2 * VOCABULARY
        assert torch.isnan(parts.logit_max)
        assert torch.isnan(parts.total)


SECTIONS = {"stability": {"z_loss": 1e-3}, "parallel": {"micro_batch": 3, "recompute": "full"}}


@pytest.mark.parametrize(("precision", "tolerance"), [("fp32", 1e-5), ("bf16", 2e-2), ("fp16", 2e-2)])
@pytest.mark.parametrize("tied", [True, False])
def test_a_sharded_step_in_micro_batches_recomputed_goes_where_it_goes_without_chunks(
    world, config, fused, precision, tolerance, tied
):
    """And so does an evaluation behind it. Micro-batches have 48 rows, the last 16: chunks of 20, 20 and 8."""
    config = changed(config, model={"tied_head": tied})
    at_once, parts = (
        Stepping(world, changed(config, parallel={"xent_chunk": rows}), precision, fused=fused, **SECTIONS) for rows in (None, 20)
    )
    for batch in batches(3, size=7):
        one, other = at_once.step(batch), parts.step(batch)
        assert one.names == other.names
        for name in one.names:
            assert other[name].item() == pytest.approx(one[name].item(), rel=tolerance, abs=1e-7), name
        assert not other["skipped"]
    fetch = [lambda: batches(1, size=4)[0]]
    values = [evaluate(each.model, fetch, lambda: None, micro_batch=3).item() for each in (at_once, parts)]
    assert values[1] == pytest.approx(values[0], rel=tolerance)


def test_an_fp16_overflow_in_the_head_is_skipped_and_halves_the_scale(world, config, fused):
    parts = Stepping(world, changed(config, parallel={"xent_chunk": 20}), "fp16", fused=fused)
    parts.step(batches(1)[0])
    parts.scaler.set_scale(2.0**40)
    told = parts.step(batches(1)[0])
    assert (told["skipped"].item(), told["overflow"].item()) == (1, 1)
    assert parts.scaler.scale.item() == 2.0**39


class Memory(TorchDispatchMode):
    """The most bytes of storage held at once, of what operators made while it watched: as an allocator counts, and no clock."""

    def __init__(self):
        super().__init__()
        self.held, self.peak, self.known = 0, 0, set()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        before = {one.untyped_storage()._cdata for one in tree_leaves((args, kwargs or {})) if isinstance(one, torch.Tensor)}
        result = function(*args, **(kwargs or {}))
        for one in tree_leaves(result):
            if isinstance(one, torch.Tensor):
                storage = one.untyped_storage()
                if storage._cdata not in before | self.known:
                    self.known.add(storage._cdata)
                    self.held += storage.nbytes()
                    weakref.finalize(storage, self._free, storage._cdata, storage.nbytes())
        self.peak = max(self.peak, self.held)
        return result

    def _free(self, key, size):
        self.known.discard(key)
        self.held -= size


def peak_of(way, fused, grad=True, **words):
    given = torch.Generator().manual_seed(5)
    rows, vocabulary = 1024, 2048
    normed = torch.randn(1, rows, WIDTH, generator=given).requires_grad_()
    weight = torch.randn(vocabulary, WIDTH, generator=given).requires_grad_()
    targets = torch.randint(0, vocabulary, (rows,), generator=given)
    with Memory() as memory, torch.set_grad_enabled(grad):
        total = way(normed, weight, targets, 0.0, None, fused, **words).total
        if grad:
            total.backward()
    assert memory.held < 4 * (rows + vocabulary) * WIDTH * 3, "what is left is gradients and scalars"
    return memory.peak / (4 * rows * vocabulary)


def test_the_most_memory_is_that_of_one_chunk(fused):
    """In units of all logits, float32: our kernel writes the gradient over the logits; plain PyTorch holds both, the log-softmax
    and its gradient."""
    at_once, parts, fewer = (
        peak_of(way, fused, **words) for way, words in ((whole, {}), (chunked, {"chunk": 128}), (chunked, {"chunk": 64}))
    )
    print(f"peak in units of all logits: {at_once:.3f} at once, {parts:.3f} in 8 chunks, {fewer:.3f} in 16")
    assert at_once >= (0.9 if fused else 1.9)
    beside = (
        3 * (1024 + 2048) * WIDTH / (1024 * 2048)
    )  # gradients of rows and weight, and the product that is added to the latter
    tensors = 1 if fused else 4
    assert parts <= tensors / 8 + beside
    assert fewer <= tensors / 16 + beside
    assert peak_of(chunked, fused, grad=False, chunk=128) <= parts


def test_the_memory_that_check_states_is_that_of_one_chunk():
    config = load_config("gpt2-124m")
    at_once = changed(config, parallel={"xent_chunk": 65536})
    padded = 50304
    assert memory_of_rank(at_once, 1, padded) - memory_of_rank(config, 1, padded) > 25 << 30, "10 bytes for each of 3.3e9 logits"
    assert rows_at_once(config, padded, 65536) == 5120


@pytest.mark.parametrize(
    ("rows", "padded", "chunk"),
    [(5336, 50304, 5336), (65536, 50304, 5120), (16384, 128256, 2048), (300, 1 << 28, 128), (7, 1 << 28, 7)],
)
def test_by_size_chunks_are_nearly_equal_and_no_logits_are_cut_that_have_room(rows, padded, chunk):
    found = rows_at_once(load_config("micro"), padded, rows)
    assert found == chunk
    assert found == rows or found % 128 == 0
    assert found <= 128 or found * padded <= LOGITS_AT_ONCE or rows * padded <= LOGITS_AT_ONCE


def test_a_number_is_rows_and_more_than_there_are_is_all():
    config = load_config("micro", None, ["parallel.xent_chunk=100"])
    assert [rows_at_once(config, 256, rows) for rows in (99, 100, 101)] == [99, 100, 100]
    with pytest.raises(ConfigError, match=r"parallel.xent_chunk 0: input should be greater than or equal to 1 \(rows"):
        checked({"parallel": {"xent_chunk": 0}})


def test_a_model_that_is_not_cut_makes_its_logits_as_ever(world, config, fused):
    """Bit for bit: a run of before this setting goes on as it was."""
    one, other = (Stepping(world, changed(config, parallel={"xent_chunk": rows}), fused=fused) for rows in (None, 32))
    batch = batches(1)[0]
    assert compute_loss(one.model, *batch).total.item() == compute_loss(other.model, *batch).total.item()
    assert torch.equal(one.step(batch).values, other.step(batch).values)


@pytest.mark.parametrize("precision", ["fp16", "fp32"])
def test_a_resume_ends_equal_to_the_bit(world, monkeypatch, tmp_path, precision):
    words = ["--preset", "micro", "--set", "schedule.steps=6", "checkpoint.every=3", "data.batch_size=3", "data.seq_len=16"]
    words += [f"numerics.precision={precision}", "parallel.xent_chunk=20", "parallel.micro_batch=2", "evaluation.batches=1"]
    run, _ = train_here(world, monkeypatch, tmp_path, *words)
    last = tmp_path / "checkpoints" / "step-00000006"
    kept = {path.name: path.read_bytes() for path in last.iterdir() if path.suffix == ".distcp"}
    assert kept
    shutil.rmtree(last)
    again, all_lines = train_here(world, monkeypatch, tmp_path, *words, "--resume")
    assert run.step == again.step == 6
    changing = {"data_time_s", "step_time_s", "tokens_per_s", "peak_memory_bytes", "time_s"}
    told = [{name: value for name, value in line.items() if name not in changing} for line in all_lines]
    assert [line["step"] for line in told] == [1, 2, 3, 4, 5, 6, 4, 5, 6]
    assert told[3:6] == told[6:9]
    assert {path.name: path.read_bytes() for path in last.iterdir() if path.suffix == ".distcp"} == kept
