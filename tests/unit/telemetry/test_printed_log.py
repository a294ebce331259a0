"""Lines as trainers print them, each taken from the print statement of its trainer; and the way that reads them in one go."""

from __future__ import annotations

import gzip
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sentinel.model.readings import StepReading
from sentinel.telemetry.log_formats import open_log
from sentinel.telemetry.log_reader import LogReader, read_to_end
from sentinel.telemetry.printed_log import PrintedLines

Rows = list[tuple[int, dict[str, float]]]

TITAN = "[rank0]:[titan] 2025-08-01 12:00:{:02d},123 - root - INFO - "
TITAN_NEW = TITAN + (
    "\x1b[31mstep: {:2}  \x1b[32mloss: {:7.4f}  \x1b[38;2;180;60;0mgrad_norm: {:7.4f}  "
    "\x1b[38;2;54;234;195mmemory: 45.00GiB(47.37%)  \x1b[34mtps: {:,}  \x1b[36mtflops: 70.01  \x1b[35mmfu: 7.08%\x1b[39m"
)
TITAN_VALIDATE = (
    TITAN + "\x1b[33mvalidate step: {:2}  \x1b[32mloss: {:7.4f}  \x1b[36mmemory: 45.00GiB(47.37%)  \x1b[34mtps: 434\x1b[39m"
)
TITAN_OLD = (
    "2024-06-03 17:00:00 - root - INFO - \x1b[36mstep: {:2}  \x1b[32mloss: {:7.4f}  "
    "\x1b[33mmemory:  0.50GiB(1.1%)  \x1b[34mwps: 8,200  \x1b[35mmfu: 0.50%\x1b[39m"
)
OLMO = """[2024-04-17 09:42:26] INFO     [olmo.train:816, rank=0] [step=1/739328]
    train/CrossEntropyLoss=11.25
    train/Perplexity=76,631
    throughput/total_tokens=4,194,304
[2024-04-17 09:42:38] INFO     [olmo_core.train.callbacks.console_logger:68] [step=200/2000,epoch=0,eta=4h58m]
    train/CE loss=5.8817
    optim/total grad norm=1.2
    optim/LR (group 0)=1.00E-04
loss=3.5 is no line of the block
    train/CE loss=9.9
"""
COMPOSER = """[batch=1/100]:
\t Train time/batch: 0
\t Train loss/train/total: 10.9736
\t Train metrics/train/LanguageCrossEntropy: 10.9737
\t Train lr-DecoupledAdamW/group0: 0.0001
[epoch=1][batch=5/5]:
0:       Train loss/train/total: 8.4213
0:       Eval metrics/eval/LanguageCrossEntropy: 8.5
"""
LITGPT = """Epoch 1 | iter 10 step 5 | loss train: 10.512, val: n/a | iter time: 400.00 ms (step) remaining time: 1:00:00
Epoch 1 | iter 20 step 10 | loss train: 9.512, val: 9.610 | iter time: 400.00 ms (step) remaining time: 0:59:00
"""
NEMO = """Epoch 0: :  47%|##   | 7/15 [06:19<07:13, reduced_train_loss=11.50, global_step=5.000, train_step_timing in s=49.50]
Epoch 1:   5%|5| 2/15 [59:30<1572:41:13, 18.79s/it, loss=7.7, v_num=3-16, reduced_train_loss=7.5, global_step=2e+3, val_loss=8.1]
Epoch 1:   5%|5| 2/15 [59:31<1572:41:13, 18.79s/it, loss=7.7, v_num=3-16, reduced_train_loss=7.5, global_step=2e+3, val_loss=8.1]
Epoch 1:   5%|5| 3/15 [59:48<1572:41:13, 18.79s/it, loss=7.7, v_num=3-16, reduced_train_loss=7.4, global_step=2e+3, val_loss=8.1]
"""
NEMO_2 = """Training epoch 0, iteration 1/9 | lr: 3.9e-06 | global_step: 1 | reduced_train_loss: 1.653 | train_step_timing in s: 2
Training epoch 0, iteration 2/249 | lr: 3.9e-06 | global_step: 2 | reduced_train_loss: 1.278 | val_loss: 1.9
Training epoch 0, iteration 3/249 | lr: 3.9e-06 | global_step: 3 | reduced_train_loss: 1.2 | val_loss: 1.9
"""
FAIRSEQ = """2021-01-01 | INFO | train_inner | epoch 001: 100 / 1000 loss=9.5, ppl=700, num_updates=100, lr=1e-05, gnorm=2.1
2021-01-01 | INFO | valid | epoch 001 | valid on 'valid' subset | loss 8.5 | ppl 1,200.5 | num_updates 1000 | best_loss 8.4
"""
LLMC_CONSOLE = """step    1/74 | loss 11.009 (+nanz)| norm 15.35 (+1.2z)| lr 4.29e-07 | 2000.00 ms | 45.0% bf16 MFU | 260000 tok/s
val loss 10.5
best val loss 9.5
step    2/74 | loss 10.009 (+nanz)| norm 15.35 (+1.2z)| lr 4.29e-07 | 2000.00 ms | 45.0% bf16 MFU | 260000 tok/s
"""
BY_HAND = """Epoch [1/5], Step [100/1000], Loss: 2.3456
Step 1,200: Loss = 2.1 | Grad Norm: 0.8 | LR: 3.00e-04
iteration 1300, avg loss 2.0, dt: 500ms
Validation - step 1300 - loss 2.9
"""


def test_the_training_loss_of_an_evaluation_is_none_of_the_steps() -> None:
    """nanoGPT's, over other batches and without dropout. In a loop whose steps have no other line it is theirs."""
    steps = [line for step in range(100, 106) for line in (f"iter {step}: loss 1.25, time 20.00ms, mfu 1.00%",)]
    evaluation = [f"step {step}: train loss 2.0, val loss 2.25" for step in range(50, 56)]
    parse = PrintedLines()
    rows = [row for line in (*steps, *evaluation, *steps) if (row := parse(line.encode())) is not None]
    assert [row.metrics["loss"] for row in rows if "loss" in row.metrics] == [1.25] * 12
    assert {row.metrics["val_loss"] for row in rows if row.step < 100} == {2.25}
    alone = PrintedLines()
    rows = [row for line in evaluation if (row := alone(line.encode())) is not None]
    assert [row.metrics["loss"] for row in rows] == [2.0] * 6


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "".join(TITAN_NEW.format(n, n, 9 - n / 100, 1.5, n * 999) + "\n" for n in range(1, 6)),
            [(n, {"loss": 9 - n / 100, "grad_norm": 1.5, "tokens_per_s": n * 999, "mfu": 0.0708}) for n in range(1, 6)],
        ),
        (
            "\n".join(TITAN_OLD.format(n, 9 - n / 100) for n in (1, 10, 20, 30)),
            [(n, {"loss": 9 - n / 100, "tokens_per_s": 8200.0, "peak_memory_bytes": 2**29}) for n in (1, 10, 20, 30)],
        ),
        (OLMO, [(1, {"loss": 11.25}), (200, {"loss": 5.8817, "grad_norm": 1.2, "lr": 1e-4})]),
        (COMPOSER, [(1, {"loss": 10.9736, "lr": 1e-4}), (5, {"loss": 8.4213, "val_loss": 8.5})]),
        (LITGPT, [(10, {"loss": 10.512, "step_time_s": 0.4}), (20, {"loss": 9.512, "val_loss": 9.61})]),
        (NEMO, [(7, {"loss": 11.5, "step_time_s": 49.5}), (17, {"loss": 7.5, "val_loss": 8.1}), (18, {"loss": 7.4})]),
        (NEMO_2, [(1, {"loss": 1.653, "lr": 3.9e-6}), (2, {"loss": 1.278, "val_loss": 1.9}), (3, {"loss": 1.2})]),
        (FAIRSEQ, [(100, {"loss": 9.5, "grad_norm": 2.1, "lr": 1e-5}), (1000, {"val_loss": 8.5})]),
        (LLMC_CONSOLE, [(1, {"loss": 11.009, "grad_norm": 15.35, "val_loss": 10.5}), (2, {"loss": 10.009})]),
        (BY_HAND, [(100, {"loss": 2.3456}), (1200, {"loss": 2.1, "grad_norm": 0.8, "lr": 3e-4}),
                   (1300, {"loss": 2.0, "step_time_s": 0.5, "val_loss": 2.9})]),
    ],
    ids=["torchtitan", "torchtitan-2024", "olmo", "composer", "litgpt", "nemo", "nemo-2", "fairseq", "llm.c-console", "by-hand"],
)  # fmt: skip
def test_what_trainers_print(tmp_path: Path, text: str, expected: Rows) -> None:
    rows, reader = read(tmp_path / "out.log", text.encode(), "megatron" if text is NEMO_2 else "text")
    assert (reader.damaged, [row.step for row in rows]) == (0, [step for step, _ in expected])
    for row, (step, metrics) in zip(rows, expected, strict=True):
        for name, value in metrics.items():
            assert row.metrics[name] == pytest.approx(value), (step, name)
        assert ("val_loss" in row.metrics) == ("val_loss" in metrics), step


def read(path: Path, content: bytes, format: str = "text") -> tuple[list[StepReading], LogReader]:
    path.write_bytes(content)
    found, reader = open_log(path)
    assert found == format
    return list(read_to_end(reader)), reader


@pytest.mark.parametrize(
    ("line", "step", "metrics"),
    [
        (
            "completed step: 10, seconds: 1.2, TFLOP/s/device: 100.2, Tokens/s/device: 3000.1, loss: 10.873",  # MaxText
            10,
            {"seconds": 1.2, "TFLOP/s/device": 100.2, "tokens_per_s": 3000.1, "loss": 10.873},
        ),
        ("INFO:absl:Step 100: loss = 2.3", 100, {"loss": 2.3}),
        ("I0101 12:00:00.123456 140 train.py:10] step 100 loss 2.5 lr 0.001", 100, {"loss": 2.5, "lr": 0.001}),
        (
            "10/16 - mmengine - INFO - Iter(train) [  10/1000]  lr: 1.0e-05  eta: 0:10:00  time: 0.5  loss: 2.3456",
            10,
            {"lr": 1e-5, "loss": 2.3456},
        ),
        (
            "2024-01-01 INFO train.py:100 -- tflops=18.6,step=10,loss=2.3,loss_scale=65536.0",  # InternLM
            10,
            {"tflops": 18.6, "loss": 2.3, "loss_scale": 65536.0},
        ),
        ("[2024-01-01 00:00:00] [INFO] iter=100 train_loss=2.5 val_loss=2.6", 100, {"loss": 2.5, "val_loss": 2.6}),
        ("[Rank 0] (step=0000100) Train Loss: 0.1523", 100, {"loss": 0.1523}),
        ("Step 100 | train loss: 2.5 | test loss: 2.9", 100, {"loss": 2.5, "test loss": 2.9}),
    ],
)
def test_a_line_of_others(line: str, step: int, metrics: dict[str, float]) -> None:
    reading = PrintedLines()(line.encode())
    assert reading is not None
    assert (reading.step, {name: value for name, value in reading.metrics.items() if name != "Rank"}) == (step, metrics)


def test_an_evaluation_of_torchtitan_is_no_training_loss() -> None:
    parse = PrintedLines()
    lines = [TITAN_NEW.format(n, n, 9.0, 1.5, 1500) for n in (1, 2, 3)] + [TITAN_VALIDATE.format(9, 3, 8.5)] * 3
    told = [parse(line.encode()) for line in lines]
    assert [dict(row.metrics) for row in told[3:] if row is not None] == [{"val_loss": 8.5}] * 3


@pytest.mark.parametrize("compressed", [False, True])
def test_a_bar_that_is_redrawn_on_one_line_of_megabytes(tmp_path: Path, compressed: bool) -> None:
    bar = "\rEpoch 0:  10%|█████     | {}/20000 [00:{:02d}<07:30,  2.0it/s, v_num=1, loss={:.3f}]"
    content = ("Loading data\n" + "".join(bar.format(n, n % 60, 2 + 1 / n) for n in range(1, 20_001))).encode()
    assert len(content) > 1 << 20, "longer than a line may be"
    rows, reader = read(tmp_path / "out.log", gzip.compress(content) if compressed else content)
    assert ([row.step for row in rows], reader.damaged) == (list(range(1, 20_001)), 0)
    assert rows[-1].metrics["loss"] == 2.0


def test_lines_of_windows_are_lines(tmp_path: Path) -> None:
    rows, _ = read(tmp_path / "out.log", b"step 1 loss 2.5\r\nstep 2 loss 2.4\r\nstep 3 loss 2.3\r\n")
    assert [(row.step, row.metrics["loss"]) for row in rows] == [(1, 2.5), (2, 2.4), (3, 2.3)]


def test_a_number_with_a_word_behind_it_is_not_cut_short() -> None:
    line = b"step 3 | loss 2.5 | tps: 12,345 | memory: 21.0GiB | eta: 1:30:00 | v_num: 3-16 | tokens: 1.5M | x: 3rd"
    reading = PrintedLines()(line)
    assert reading is not None
    assert reading.metrics == {"loss": 2.5, "tokens_per_s": 12345.0, "peak_memory_bytes": 21 * 2**30, "consumed_tokens": 1.5e6}


def test_lines_read_in_one_go_say_what_lines_read_slowly_say() -> None:
    lines = [
        "{step} | loss {loss} | norm {norm} | lr 3e-4 | tps: {many:,} | 99.5% x",
        "step {step}: loss {loss}, norm: {norm}",
        "step {step}: loss {loss}, norm: {norm} (was 7)",
        "[{norm}] Epoch {step}, iteration {step}/900, Loss: {loss}",
        "eval step {step}: loss {loss}",
        "step {step} layer_3 norm: {norm} loss: {loss}",
        "step {step} layer_4 norm: {norm} loss: {loss}",
        "{{'loss': {loss}, 'grad_norm': {norm}, 'epoch': {norm}}}",
    ]
    numbers = ["2.5", "nan", "inf", "-inf", "3", "1e-05", "-0.25", ".5", "1,234.5", "1,2", "0x1f", "2.5.6", "7rd"]
    parse = PrintedLines()
    count = 0
    for shape in [shape for order in (lines, lines[::-1]) for shape in order]:
        for place in range(40):
            number, other = numbers[place % len(numbers)], numbers[(place * 7 + 3) % len(numbers)]
            if place < 4:
                number, other = "2.75", "0.5"
            line = shape.format(step=place + 1, loss=number, norm=other, many=place * 400).encode()
            alone, among = outcome(PrintedLines(), line), outcome(parse, line)
            if b"epoch" not in line:
                assert repr(among) == repr(alone), line
            count += among is not None
    assert count > 200


def outcome(parse: PrintedLines, line: bytes) -> object:
    try:
        reading = parse(line)
    except ValueError as error:
        return str(error)
    return None if reading is None else (reading.step, sorted(reading.metrics.items()))


WORDS = [
    "loss", "step", "1", "2.5", ":", " ", "  ", "=", "nan", "grad_norm", "\x1b[31m", "|", "val", ",", "3e-4", "(", "x", "-", "s",
]  # fmt: skip


@given(st.lists(st.sampled_from(WORDS), max_size=25), st.integers(0, 99))
def test_whatever_is_printed_both_ways_agree(words: list[str], step: int) -> None:
    line = ("".join(words) + f" step {step} loss 2.5").encode()
    parse = PrintedLines()
    first = outcome(parse, line)
    again = [outcome(parse, line) for _ in range(3)]
    if first is not None and not (isinstance(first, tuple) and "val_loss" in dict(first[1])):
        assert all(repr(one) == repr(first) for one in again)


def test_the_engine_of_deepspeed_tells_steps_skips_and_the_scale() -> None:
    head = b"[2023-04-18 01:59:48,404] [INFO] "
    log = [
        head + b"[logging.py:96:log_dist] [Rank 0] step=10, skipped=0, lr=[1e-05, 1e-05], mom=[(0.9, 0.95), (0.9, 0.95)]",
        head + b"[timer.py:199:stop] epoch=2/micro_step=90/global_step=10, RunningAvgSamplesPerSec=171.7, MemAllocated=3.96GB",
        head + b"[loss_scaler.py:188:update_scale] [deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 65536, "
        b"but hysteresis is 2. Reducing hysteresis to 1",
        head + b"[loss_scaler.py:181:update_scale] [deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 65536, "
        b"reducing to 32768",
        head + b"[logging.py:96:log_dist] [Rank 0] step=20, skipped=2, lr=[9e-06, 9e-06], mom=[(0.9, 0.95), (0.9, 0.95)]",
        head + b"[logging.py:96:log_dist] [Rank 0] step=30, skipped=2, lr=[8e-06, 8e-06], mom=[(0.9, 0.95), (0.9, 0.95)]",
        head + b"[logging.py:96:log_dist] [Rank 0] Overflow detected. Skipping step. Attempted loss scale: 512, reducing to 256",
        head + b"[fused_optimizer.py:371:_update_scale] Increasing dynamic loss scale from 256.0 to 512.0",
        head + b"[logging.py:96:log_dist] [Rank 0] step=40, skipped=3, lr=[7e-06, 7e-06], mom=[(0.9, 0.95), (0.9, 0.95)]",
    ]
    parse = PrintedLines()
    assert [(row.step, dict(row.metrics)) for row in map(parse, log) if row is not None] == [
        (10, {"lr": 1e-5}),
        (20, {"lr": 9e-6, "skipped": 1.0, "overflow": 1.0, "loss_scale": 32768.0}),
        (30, {"lr": 8e-6}),
        (40, {"lr": 7e-6, "skipped": 1.0, "overflow": 1.0, "loss_scale": 512.0}),
    ]


def test_the_scales_of_two_engines_are_not_mixed_up(tmp_path: Path) -> None:
    engine = "[logging.py:96:log_dist] [Rank 0] step={}, skipped=0, lr=[1e-05], mom=[(0.9, 0.95)]\n"
    overflow = "[deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: {}, reducing to 1024\n"
    steps = "".join(f"epoch: 0|step: {n}|ppo_ep: 1|act_loss: 0.1{n}|cri_loss: -0.2|unsuper_loss: 0.0\n" for n in range(10))
    text = steps + 2 * engine.format(10) + overflow.format(2048) + 2 * engine.format(20)
    rows, reader = read(tmp_path / "rlhf.log", text.encode())
    assert [row.step for row in rows] == list(range(10)), "the engine counts from one, the trainer from nought"
    assert rows[3].metrics["act_loss"] == 0.13
    assert not any("loss_scale" in row.metrics for row in rows)
    assert "two engines" in reader.remark


def test_the_header_of_a_block_is_looked_for_at_the_end_of_a_line_only() -> None:
    """Looked for in all of it, lines of 4,000 characters "[step=1," took 37 ms each."""
    for more, is_header in ((10, True), (1000, False)):
        parse = PrintedLines()
        parse(b"INFO [step=5/10,%s]" % (b"x" * more))
        assert (parse(b"    train/CrossEntropyLoss=2.5") is not None) is is_header


def test_the_losses_of_actor_and_critic_in_words(tmp_path: Path) -> None:
    """DeepSpeed-Chat's third stage, as it prints them since 2023; with names in one word it was read before."""
    line = "Epoch: 0 | Step: {} | PPO Epoch: 1 | Actor Loss: 0.1{} | Critic Loss: 0.2 | Unsupervised Loss: 0.0\n"
    rows, _ = read(tmp_path / "rlhf.log", "".join(line.format(n, n) for n in range(10)).encode())
    assert [row.step for row in rows] == list(range(10))
    assert rows[3].metrics["Actor Loss"] == 0.13


def test_a_step_that_no_run_reaches_is_refused_in_words() -> None:
    with pytest.raises(ValueError, match=r"a step of 9999999999999999 \(steps end at 2\^53\)"):
        PrintedLines()(b"step 9999999999999999 loss 2.5")


def test_a_nan_in_a_known_layout_is_a_value() -> None:
    parse = PrintedLines()
    rows = [parse(b"step %d | loss %s | norm 0.5" % (n, b"nan" if n == 9 else b"2.5")) for n in range(1, 12)]
    values = [row.metrics["loss"] for row in rows if row is not None]
    assert [math.isnan(value) for value in values] == [n == 9 for n in range(1, 12)]
