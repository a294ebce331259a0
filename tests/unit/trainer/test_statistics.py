"""What a step tells, against the same numbers by the plainest means; and how ranks' parts are put together."""

import math

import pytest
import torch

from tests.unit.trainer.stepping import Stepping, batches
from trainer.loss import ForwardStatistics
from trainer.optim import measures
from trainer.optim.measures import LocalState, flat_views, gather_totals, measure_gradients, pieces_of
from trainer.optim.statistics import RANKS_LISTED_MAX, StatisticsLayout, block_name, group_of, largest_share


def norm(tensors):
    return math.sqrt(sum(tensor.double().square().sum().item() for tensor in tensors))


def named(stepping, what):
    return {name: what(parameter).clone() for name, parameter in stepping.optimizer.shards.items()}


def test_every_number_is_what_it_says(world, config, fused):
    stepping = Stepping(world, config, fused=fused)
    layers = config.model.layers
    stepping.step()
    before = named(stepping, lambda p: p.detach())
    stepping.step()
    gradients = {}

    def keep():
        gradients.update({name: p.grad.to_local().clone() for name, p in stepping.model.named_parameters()})

    entering = named(stepping, lambda p: p.detach())
    seconds = [second.clone() for _, second in stepping.optimizer.moments.values()]
    batch = batches(2)[1]
    output = stepping.model(batch[0])
    found = stepping.step(batch, keep)
    values = dict(zip(found.names, found.values.tolist(), strict=True))
    wanted = {
        "loss": torch.nn.functional.cross_entropy(output.logits.flatten(0, 1), batch[1].flatten()).item(),
        "grad_norm": norm(gradients.values()),
        "nonfinite_count": 0,
        "activation_norm": output.layers[-1, 0].sqrt().item(),
        "logit_max": output.logits.max().item(),
        "param_norm": norm(entering.values()),
        "clip_coef": min(1.0, 0.5 / norm(gradients.values())),
        "overflow": 0,
        "skipped": 0,
        "loss_scale": 1,
        "update_norm": norm([entering[name] - before[name] for name in before]),
        "adam_v_norm": norm(seconds),
        "adam_v_max": max(second.max().item() for second in seconds),
    }
    groups = {group_of(name, layers) for name in gradients}
    assert groups == {"embed", "head", *(block_name(block, layers) for block in range(layers))}
    wanted |= {f"grad_norm/{g}": norm([v for name, v in gradients.items() if group_of(name, layers) == g]) for g in groups}
    wanted["grad_share_max"] = max(wanted[f"grad_norm/{g}"] ** 2 for g in groups) / wanted["grad_norm"] ** 2
    for block in range(layers):
        wanted[f"activation_norm/{block_name(block, layers)}"] = output.layers[block, 0].sqrt().item()
        wanted[f"activation_max/{block_name(block, layers)}"] = output.layers[block, 1].item()
    if fused:
        wanted |= {"nonfinite_activations": 0, "nonfinite_logits": 0}
    assert values == pytest.approx(wanted, rel=1e-6)
    assert found.values.dtype == torch.float64
    assert found.overflow.item() == 0


def test_a_step_begins_with_what_the_one_before_left_however_it_is_found_out(world, config):
    """Our kernels tell of the state in the pass that changes it; after a load they look anew. A resume must not show."""
    kept, loaded = (Stepping(world, config, fused=True) for _ in range(2))
    for stepping in (kept, loaded):
        for batch in batches(3):
            stepping.step(batch)
    loaded.optimizer.adopt_count(loaded.optimizer.count().clone())
    one, other = kept.step(), loaded.step()
    assert one.values.numpy().tobytes() == other.values.numpy().tobytes()
    assert one["adam_v_max"] > 0


def test_what_is_not_finite_on_the_way_is_counted(world, config):
    stepping = Stepping(world, config, fused=True)
    with torch.no_grad():  # one column of the stream, behind the second block
        stepping.optimizer.shards["blocks.1.mlp.down.weight"][3] = math.nan
    found, tokens = stepping.step(), batches(1)[0][0].numel()
    streams = 1 + (config.model.layers - 2) * config.model.width
    assert found["nonfinite_activations"].item() == tokens * streams
    assert found["nonfinite_logits"].item() == tokens * 256
    assert found["skipped"].item() == 1


def test_what_is_switched_off_is_not_told_and_not_kept(world, config, fused):
    stepping = Stepping(world, config, fused=fused, telemetry={"layers": False, "updates": False})
    found = stepping.step()
    assert found.names == (
        "loss", "grad_norm", "nonfinite_count", "activation_norm", "logit_max", "param_norm", "clip_coef", "overflow", "skipped",
        "loss_scale", *(("nonfinite_activations", "nonfinite_logits") if fused else ()),
    )  # fmt: skip
    whole = Stepping(world, config, fused=fused).step()
    for name in found.names:
        assert found[name].item() == pytest.approx(whole[name].item(), rel=1e-12), name
    with pytest.raises(ValueError, match="not in tuple"):
        found["update_norm"]


@pytest.mark.parametrize(("name", "group"), [
    ("embed.weight", "embed"), ("place.weight", "embed"), ("norm_embedding.weight", "embed"), ("norm.weight", "head"),
    ("head.weight", "head"), ("blocks.7.mlp.out.weight", "block-007"), ("blocks.11._orig_mod.norm_mlp.weight", "block-011"),
])  # fmt: skip
def test_a_parameter_belongs_to_a_layer(name, group):
    assert group_of(name, 101) == group
    assert block_name(3, 12) == "block-03"


def test_the_largest_share_is_a_number_whatever_the_gradient_is():
    for squares, share in (([1.0, 3.0], 0.75), ([0.0, 0.0], 0.0), ([1.0, math.inf], 1.0), ([math.nan, 1.0], 1.0)):
        assert largest_share(torch.tensor(squares, dtype=torch.float64)).tolist() == [share]


def test_each_rank_is_told_up_to_so_many(monkeypatch):
    for ranks, told in ((1, 0), (2, 2), (RANKS_LISTED_MAX, RANKS_LISTED_MAX), (RANKS_LISTED_MAX + 1, 0)):
        names = StatisticsLayout(("all",), 2, ranks, False, False).names()
        assert sum(name.startswith("param_norm/rank-") for name in names) == told


def test_pieces_are_the_same_elements_in_fewer_views(monkeypatch):
    monkeypatch.setattr(measures, "PIECE", 8)
    buffer, other = torch.arange(40.0), torch.arange(100.0, 112.0)
    tensors = [buffer[:6].view(2, 3), buffer[6:10], buffer[12:15], buffer[15:16], other[:4], other.view(3, 4).t()[2:]]
    pieces = pieces_of(tensors)
    assert [len(piece) for piece in pieces] == [8, 2, 4, 4, 6]
    assert torch.cat(pieces).tolist() == [value for tensor in tensors for value in tensor.flatten().tolist()]
    assert all(piece.untyped_storage().data_ptr() == buffer.untyped_storage().data_ptr() for piece in pieces[:3])


def test_non_finite_elements_are_counted_exactly_and_sums_do_not_overflow():
    large = torch.full((300,), 3e38)
    broken = torch.randn(1000)
    broken[[3, 500, 999]] = torch.tensor([math.nan, math.inf, -math.inf])
    squares, count = measure_gradients([[large], [broken[:400], broken[400:]], []], torch.device("cpu"))
    assert squares[0].item() == pytest.approx(300 * 9e76, rel=1e-5)
    assert not torch.isfinite(squares[1])
    assert (squares[2].item(), count.item()) == (0.0, 3.0)
    squares, count = measure_gradients([[], []], torch.device("cpu"))
    assert (squares.tolist(), count.item()) == ([0.0, 0.0], 0.0), "a rank with nothing"


def test_flat_views_leave_no_element_out_and_their_gaps_are_zero():
    flat, views = flat_views([torch.Size([3, 5]), torch.Size([0, 4]), torch.Size([33])], torch.zeros(1))
    for view in views:
        view.fill_(1.0)
    assert flat.sum().item() == 15 + 33
    assert all(view.storage_offset() % 4 == 0 for view in views)


def totals_of(monkeypatch, rows, replicas):
    """What is made of ranks' parts: of each rank (loss, activation square, activation max, gradient square, second max)."""
    packed = []

    def gathered(own):
        packed.append(own)
        return torch.stack(packed)

    monkeypatch.setattr(measures, "rows_of_all", gathered)
    for loss, square, largest, gradient, second_max in rows:
        seen = ForwardStatistics(torch.tensor(loss), torch.tensor(largest), torch.tensor([[square, largest]]))
        scalars = [torch.tensor(value, dtype=torch.float64) for value in (gradient, 0.0, gradient, second_max)]
        whole = (len(packed) + 1) % replicas == 0
        totals = gather_totals(
            seen, torch.tensor([gradient]).double(), torch.zeros(()), LocalState(*scalars), replicas if whole else 1
        )
    return totals


def test_ranks_are_summed_averaged_or_compared_as_each_number_needs(monkeypatch):
    rows = [(1.0, 4.0, 7.0, 10.0, 0.5), (3.0, 8.0, 9.0, 20.0, 0.25)]
    totals = totals_of(monkeypatch, rows, 1)
    assert (totals.loss.item(), totals.activation_squares.tolist(), totals.activation_max.tolist()) == (2.0, [6.0], [9.0])
    assert (totals.grad_squares.tolist(), totals.param_squares.item()) == ([30.0], 30.0)
    assert (totals.second_squares.item(), totals.second_max.item(), totals.logit_max.item()) == (30.0, 0.5, 9.0)
    assert totals.rank_param_squares.tolist() == [10.0, 20.0]


def test_copies_of_the_model_count_once_and_a_copy_gone_wrong_shows(monkeypatch):
    rows = [(1.0, 1.0, 1.0, gradient, 1.0) for gradient in (10.0, 20.0, 10.0, 20.0)]
    assert totals_of(monkeypatch, rows, 2).grad_squares.tolist() == [30.0]
    rows[3] = (1.0, 1.0, 1.0, math.nan, 1.0)
    assert totals_of(monkeypatch, rows, 2).grad_squares.isnan().all()
