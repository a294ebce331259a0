"""Lines as Megatron-LM and its forks print them; each is taken from the print statement of that fork."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from sentinel.policy_files.loading import load_policy, shipped_policy_path
from sentinel.replay import replay_file
from sentinel.telemetry.log_formats import open_log
from sentinel.telemetry.log_reader import read_to_end
from sentinel.telemetry.megatron_log import MegatronLines, looks_like_megatron

MEGATRON = (
    b" [2025-03-02 11:22:33] iteration     1200/  100000 | consumed samples:       307200 | "
    b"elapsed time per iteration (ms): 812.3 | throughput per GPU (TFLOP/s/GPU): 401.2 | learning rate: 3.000000E-04 | "
    b"global batch size:   256 | lm loss: 2.301234E+00 | loss scale: 1.0 | grad norm: 0.512 | num zeros: 12 | "
    b"params norm: 210.5 | number of skipped iterations:   0 | number of nan iterations:   0 |"
)
DEEPSPEED = (
    b"[default7]: iteration     6930/  282000 | consumed samples:      1241728 | consumed tokens:   2543058944 | "
    b"elapsed time per iteration (ms): 55555.5 | learning rate: 6.000E-05 | global batch size:   640 | "
    b"lm loss: 2.900121E+00 | loss scale: 4096.0 | grad norm: 1.233 | num zeros: 0.0 | number of skipped iterations:   0 | "
    b"number of nan iterations:   0 | samples per second: 11.5 | TFLOPs: 75.1 |"
)
NEOX = (
    b" samples/sec: 61.2 | iteration     2100/  143000 | elapsed time per iteration (ms): 2091.1 | learning rate: 5.9E-04 | "
    b"approx flops per GPU: 68.9TFLOPS | lm_loss: 3.312000E+00 | loss scale: 65536.0 | "
    b"number of skipped iterations:   0 | number of nan iterations:   0 |"
)


@pytest.mark.parametrize(
    ("line", "step", "loss", "scale"),
    [(MEGATRON, 1200, 2.301234, 1.0), (DEEPSPEED, 6930, 2.900121, 4096.0), (NEOX, 2100, 3.312, 65536.0)],
    ids=["megatron", "deepspeed", "neox"],
)
def test_a_line_of_each_fork(line: bytes, step: int, loss: float, scale: float) -> None:
    reading = MegatronLines()(line)
    assert reading is not None
    assert (reading.step, reading.metrics["loss"], reading.metrics["loss_scale"]) == (step, pytest.approx(loss), scale)
    assert "skipped" not in reading.metrics
    assert not any("batch size" in name for name in reading.metrics)
    assert looks_like_megatron(line)


def test_what_was_consumed_is_kept_for_comparing_runs() -> None:
    reading = MegatronLines()(DEEPSPEED)
    assert reading is not None
    assert (reading.metrics["consumed_samples"], reading.metrics["consumed_tokens"]) == (1241728.0, 2543058944.0)


@pytest.mark.parametrize("rank", [b"[default%d]:", b"[rank%d]: ", b"%d: ", b"[1,%d]<stdout>:"], ids=str)
def test_of_several_ranks_one_is_listened_to(rank: bytes) -> None:
    line = b" iteration %8d/  100 | lm loss: %d.5 |"
    parse = MegatronLines()
    bursts = [(n, rank_number) for first in (1, 26) for rank_number in (3, 0, 7) for n in range(first, first + 25)]
    rows = [parse(rank % r + line % (n, r)) for n, r in bursts]
    taken = [row for row in rows if row is not None]
    assert [row.step for row in taken] == list(range(1, 51))
    assert {row.metrics["loss"] for row in taken} == {3.5}
    assert "several ranks" in parse.remark


@pytest.mark.parametrize("front", [b" ", b"", b"x iteration 5/ 9 | ", b"[2026-11-28 18:00:00] "])
def test_lines_read_in_one_go_say_what_lines_read_field_by_field_say(front: bytes) -> None:
    """The layout of one line is used for the next: fields that come, go, repeat, or are no number must not be mixed up."""
    head = front + b"iteration %d/ 99 | "
    rests = [
        b"lm loss: 2.5 | grad norm: 0.5 | x: ok |",
        b"lm loss: 2.5 | grad norm: 0.5 | x: 7 |",
        b"lm loss: nan | grad norm: 0.6 (big) | x: 7 |",
        b"grad norm: 0.5 | lm loss: 2.5 | x: 7 |",
        b"grad norm: 0.5 | x: 7 |",
        b"lm loss: 2.5 | lm loss: 9.5 | grad norm: 0.5 |",
        b"lm loss: 2.5 | grad norm: 0.5 | x: 7 | and: so on",
        b"lm loss: 2.5 | grad no",
    ]
    parse = MegatronLines()
    for step, rest in enumerate([rest for order in (rests, rests[::-1]) for rest in order for _ in range(4)], 1):
        alone, among = MegatronLines()(head % step + rest), parse(head % step + rest)
        assert alone is not None
        assert among is not None
        assert repr(sorted(among.metrics.items())) == repr(sorted(alone.metrics.items())), rest


def test_when_the_rank_falls_silent_another_is_listened_to() -> None:
    parse = MegatronLines()
    assert parse(b"[rank3]: iteration 1/ 9 | lm loss: 1.5 |") is not None
    rows = [parse(b"[rank5]: iteration %d/ 9 | lm loss: 1.5 |" % n) for n in range(2, 4000)]
    assert rows[0] is None
    assert rows[-1] is not None


def test_gradient_norm_and_learning_rate_have_the_names_detectors_know() -> None:
    reading = MegatronLines()(MEGATRON)
    assert reading is not None
    assert (reading.metrics["grad_norm"], reading.metrics["lr"], reading.metrics["param_norm"]) == (0.512, 3e-4, 210.5)


def test_a_nan_loss_whose_field_is_left_out_is_an_absent_metric() -> None:
    line = MEGATRON.replace(b"lm loss: 2.301234E+00 | ", b"").replace(b"nan iterations:   0", b"nan iterations:   1")
    reading = MegatronLines()(line)
    assert reading is not None
    assert "loss" not in reading.metrics
    assert (reading.metrics["skipped"], reading.metrics["nan_iterations"]) == (1.0, 1.0)


def test_a_printed_nan_is_a_value_and_a_skipped_iteration_is_said() -> None:
    line = MEGATRON.replace(b"2.301234E+00", b"nan").replace(b"0.512", b"inf")
    line = line.replace(b"skipped iterations:   0", b"skipped iterations:   3")
    reading = MegatronLines()(line)
    assert reading is not None
    assert math.isnan(reading.metrics["loss"])
    assert (reading.metrics["grad_norm"], reading.metrics["skipped"]) == (math.inf, 1.0)


def test_iteration_times_add_up_to_a_clock() -> None:
    parse = MegatronLines()
    times = []
    for step in (10, 20, 30):
        reading = parse(b" iteration %8d/ 100 | elapsed time per iteration (ms): 500.0 | lm loss: 2.0 |" % step)
        assert reading is not None
        times.append(reading.time_s)
    assert times == [0.5, 5.5, 10.5]


@pytest.mark.parametrize(
    "line",
    [
        b"building GPT model ...",
        b" validation loss at iteration 1000 on test set | lm loss value: 2.9E+00 | lm loss PPL: 1.8E+01 |",
        b" test loss at iteration 1000 | lm loss value: 2.9E+00 | lm loss PPL: 1.8E+01 |",
        b" validation loss at the end of training for val data | lm loss value: 2.9E+00 | lm loss PPL: 1.8E+01 |",
        b"saving checkpoint at iteration    1200 to /checkpoints",
        b"  exit_interval ................. None",
        b"",
    ],
)
def test_other_lines_are_passed_over(line: bytes) -> None:
    assert MegatronLines()(line) is None


@pytest.mark.parametrize(
    "line",
    [
        b" validation loss at iteration 1000 | lm loss value: 2.9E+00 | lm loss PPL: 1.8E+01 | ",  # Megatron-LM
        b"[nid005:0]: validation loss at iteration 1000 on validation set | lm loss value: 2.9E+00 | lm loss PPL: 1.8E+01 | ",
        b"[default7]:valid loss at iteration 1000 | lm loss value: 2.9E+00 | lm loss PPL: 1.8E+01 |",  # BLOOM's
        b" validation results at iteration 1000 | lm_loss value: 2.9E+00 | lm_loss_ppl value: 1.8E+01 |",  # GPT-NeoX
        b"0: validation loss at iteration 1000 [hplt] | lm loss value: 2.9E+00 |",
        b" validation-0 loss at iteration 1000 | lm loss value: 2.9E+00 | lm loss PPL: 1.8E+01 | ",
    ],
)
def test_the_line_of_an_evaluation(line: bytes) -> None:
    reading = MegatronLines()(line)
    assert reading is not None
    assert (reading.step, reading.metrics) == (1000, {"val_loss": 2.9})


def test_of_several_validation_sets_the_first_is_judged_and_that_is_said() -> None:
    parse = MegatronLines()
    lines = [b" validation-%d loss at iteration %d | lm loss value: %d.5 | " % (n, step, n) for step in (10, 20) for n in (0, 1)]
    rows = [parse(line) for line in lines]
    assert [dict(row.metrics) for row in rows if row is not None] == [{"val_loss": 0.5}, {"val_loss/1": 1.5}] * 2
    assert "several validation sets" in parse.remark


def test_an_evaluation_joins_its_iteration(tmp_path: Path) -> None:
    """Megatron prints it behind the line of its iteration; a block of lines may end between the two."""
    path = tmp_path / "out.log"
    train, held_out = b" iteration %d/ 99999 | lm loss: 2.5 |\n", b" validation loss at iteration %d | lm loss value: 2.6 | \n"
    path.write_bytes(b"".join(train % n + held_out % n for n in range(1, 20_000)))
    rows = list(read_to_end(open_log(path)[1]))
    assert [(row.step, dict(row.metrics)) for row in rows] == [(n, {"loss": 2.5, "val_loss": 2.6}) for n in range(1, 20_000)]


def test_an_evaluation_that_comes_late_is_told_with_the_next_step(tmp_path: Path) -> None:
    """Followed live, the iteration was given out a minute before its evaluation is written."""
    path = tmp_path / "out.log"
    path.write_bytes(b" iteration 1/ 9 | lm loss: 2.5 |\n")
    reader = open_log(path)[1]
    told = reader.poll(0.0)
    for line in (b" validation loss at iteration 1 | lm loss value: 2.6 | \n", b" iteration 2/ 9 | lm loss: 2.4 |\n"):
        with path.open("ab") as file:
            file.write(line)
        told += reader.poll(1.0)
    assert [(row.step, dict(row.metrics)) for row in told] == [(1, {"loss": 2.5}), (2, {"loss": 2.4, "val_loss": 2.6})]


def test_overfitting_is_found_in_a_log_of_megatron(tmp_path: Path) -> None:
    path = tmp_path / "out.log"
    lines = []
    for n in range(1, 2001):
        lines.append(f" iteration {n}/ 2000 | lm loss: {3 - n / 1000 + n % 7 / 500:.4f} | grad norm: {0.5 + n % 5 / 50:.3f} |\n")
        if n % 100 == 0:
            held_out = 3 + abs(n - 1000) / 2000
            lines.append(f" validation loss at iteration {n} | lm loss value: {held_out:.4f} | lm loss PPL: 20 | \n")
    path.write_text("".join(lines))
    result = replay_file(path, load_policy(shipped_policy_path("default")))
    assert [found.kind for found in result.found] == ["generalisation"]


def test_numbers_that_people_shortened_and_pairs_of_numbers() -> None:
    nanotron = (
        b"08/31/2024 14:37:31 [INFO|DP=0|PP=0|TP=0]: iteration: 2 / 15 | consumed_tokens: 1.02K | "
        b"elapsed_time_per_iteration_ms: 11.8 | tokens_per_sec: 43.2K | lm_loss: 5.29 | hd_free_memory_tb: 1.18T"
    )
    reading = MegatronLines()(nanotron)
    assert reading is not None
    assert [reading.metrics[name] for name in ("consumed_tokens", "tokens_per_s", "loss")] == [1020.0, 43200.0, 5.29]
    primus = (
        b"[\x1b[36mrank-7/8\x1b[0m] : iteration 126/ 5000 | elapsed time per iteration (ms): 1500.0/1400.0 | "
        b"lm loss: 2.5 |\x1b[0m"
    )
    reading = MegatronLines()(primus)
    assert reading is not None
    assert (reading.step, reading.time_s, reading.metrics["loss"]) == (126, 1.5, 2.5)


def test_rows_with_shortened_numbers_are_read_by_their_layout(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every row of nanotron has some: each was taken to pieces, and its layout learned anew, at 24,000 rows a second."""
    parse, slow = MegatronLines(), []
    one_by_one = MegatronLines._fields_one_by_one
    monkeypatch.setattr(MegatronLines, "_fields_one_by_one", lambda self, rest: slow.append(rest) or one_by_one(self, rest))
    rows = [parse(b"iteration: %d / 15 | consumed_tokens: %d.5K | lm_loss: 5.29 | lr: 3e-05" % (n, n)) for n in range(1, 30)]
    assert [row.metrics["consumed_tokens"] for row in rows if row is not None] == [n * 1000.0 + 500.0 for n in range(1, 30)]
    assert len(slow) == 2
    odd = parse(b"iteration: 30 / 15 | consumed_tokens: many | lm_loss: 5.29 | lr: 3e-05")
    assert odd is not None
    assert odd.metrics == {"loss": 5.29, "lr": 3e-05}


def test_seconds_of_an_iteration_are_seconds() -> None:
    reading = MegatronLines()(b" iteration 2/ 9 | elapsed time per iteration (s): 111.00 | lm loss: 2.5 |")
    assert reading is not None
    assert (reading.time_s, dict(reading.metrics)) == (111.0, {"loss": 2.5})


def test_an_iteration_cut_short_is_damage() -> None:
    with pytest.raises(ValueError):
        MegatronLines()(b" iteration     1200/  100000 | consu")
