# ruff: noqa: E501 - lines of logs, as printed
"""What one line says: its labels, whether it shows training at work, which words it needs to tell of a death."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sentinel.detectors.crash_labels import Writers, read_labels
from sentinel.detectors.crash_patterns import PATTERNS, CrashClass, match_line, may_tell
from sentinel.detectors.crash_progress import is_progress, may_show_progress
from sentinel.detectors.crash_words import required_words
from sentinel.detectors.xids import XIDS

TEXT = "  File x"


@pytest.mark.parametrize(
    ("label", "rank"),
    [
        ("[rank7]: ", 7), ("7: [rank7]: ", 7), ("[default1]:[rank1]: ", 1), ("[default3]:", 3), ("3: ", 3), (" 3: ", 3), ("[3]: ", 3),
        ("[trainer3]:", 3), ("[1,3]<stdout>:", 3), ("[3]<stderr>:", 3), ("node3: [rank12]: ", 12), ("10.0.0.3: [rank12]: ", 12),
        ("worker-3 | [rank12]: ", 12), ("[host0]<stderr>:[rank12]: ", 12), ("[pod/a-3/pytorch] [rank12]: ", 12), ("[rank: 1] ", 1),
        ("2026-11-20T10:00:00.123456789Z [rank4]: ", 4), ("2026-11-20T10:00:00.1Z stderr F [rank4]: ", 4), ("[10:00:00] [rank4]: ", 4),
        ("(TrainWorker pid=41, ip=10.0.0.3) [rank4]: ", 4), ("0: [default3]:[rank19]: ", 19), ("node3: ", None), ("worker-3 | ", None),
        ("10.0.0.3: ", None), ("2026-11-20 10:00:00,123 ", None), ("", None), ("rank7| ", 7), ("n0 [rank12]: ", 12),
        ("gpu-node-3 [default4]:[rank12]: ", 12), ("[GPU7] ", 7), ("r7: ", 7), ("[GPU7] [rank12]: ", 12), ("r7:[rank12]: ", 12),
        ("[gpu7] ", None), ("[gpu-a1] ", None), ("r7i2n0: ", None),
    ],
)  # fmt: skip
def test_every_label_is_taken_off_and_the_indentation_stays(label: str, rank: int | None) -> None:
    read = read_labels(label + TEXT)
    assert read.text == TEXT
    assert Writers([read]).rank_of(read) == rank


@pytest.mark.parametrize(
    "line",
    [
        "ValueError: 3: bad shape", "train.py: error: unrecognized arguments", "run_v2.py: error: x", "python3: No module named train",
        "step100: loss 2.3", "Epoch 3: 12%|#", "CUDA error: an illegal memory access", "libcuda.so.1: cannot open shared object file",
        "srun: error: n1: task 3: Killed", "Xid 79: GPU has fallen off the bus", "[E1120 06:24:44.9 ProcessGroupNCCL.cpp:616] x",
        "iteration 120 / 400 | lm loss: 2.1", "[INFO] x", "H5Error: x", "  File \"x.py\", line 3", "    x: 3", "c10::Error: x", "step3 [rank1] x",
    ],
)  # fmt: skip
def test_what_is_no_label_stays(line: str) -> None:
    assert read_labels(line).text == line


def test_a_place_on_a_node_is_a_rank_only_where_one_node_writes() -> None:
    lines = [read_labels(f"node{node}: [default{local}]: x") for node in (1, 2) for local in (0, 1)]
    assert [Writers(lines).rank_of(line) for line in lines] == [None] * 4
    assert [Writers(lines[:2]).rank_of(line) for line in lines[:2]] == [0, 1]
    told = [*lines, *(read_labels(f"node{node}: [default{local}]:[rank{2 * node - 2 + local}]: x") for node in (1, 2) for local in (0, 1))]
    assert [Writers(told).rank_of(line) for line in told[:4]] == [0, 1, 2, 3]


def test_a_task_of_srun_is_a_rank_unless_a_label_says_otherwise() -> None:
    task = read_labels("1: x")
    assert Writers([task]).rank_of(task) == 1
    assert Writers([task, read_labels("1: [rank9]: y")]).rank_of(task) is None


WORK = [
    "iteration 120 / 400 | lm loss: 2.1", " iteration     1200/ 100000 | consumed samples: 307200 | number of nan iterations: 10 |",
    "step 20 loss 0.1000", "step: 10  loss:  7.8  grad_norm:  1.2", "{'loss': 2.3, 'grad_norm': 0.5, 'epoch': 0.1}", "s:100 trl:4.5",
    "Epoch 0:  12%|#   | 120/1000 [00:12<01:30, 9.8it/s, v_num=1]", "iter 100: loss 2.3456, time 210.15ms", "step 21", "Step 21/1000",
    "Training epoch 0, iteration 12/999 | lr: 3e-07 | global_batch_size: 512 | reduced_train_loss: 11.03", "training step 120 completed",
    "steps: 10 loss: 0.9 iter time (s): 1.2 samples/sec: 20", "[INFO] step=1200 throughput=33", "Training finished.",
    "[after training is done] datetime: 2026-11-20", "`Trainer.fit` stopped: `max_steps=100` reached.",
]  # fmt: skip
NO_WORK = [
    "RuntimeError: loss at step 12 is bad: loss 3", "Rank 0, node x, device 0, iteration 1: Unexpected result nan", "training step",
    "saving checkpoint at iteration 100 to x", "Loading checkpoint shards: 100%|#| 2/2 [00:12<00:00, 1it/s]", "resuming from step 100",
    "  File \"step.py\", line 12, in step", "Step timed out", "Timeout at step 12 time 3", "training failed", "training not finished",
    "Training finished with errors", "[Rank 3] Watchdog caught collective operation timeout: SeqNum=808", "job 4711 aborted",
]  # fmt: skip


@pytest.mark.parametrize("line", WORK)
def test_lines_of_a_trainer_at_work(line: str) -> None:
    assert is_progress(line)
    assert may_show_progress(line)


@pytest.mark.parametrize("line", NO_WORK)
def test_a_line_that_speaks_of_a_failure_shows_no_work(line: str) -> None:
    assert not is_progress(line)


@given(st.text(alphabet="steploiranbc 0123456789:=/|.%[]{}'", max_size=60))
def test_no_line_shows_work_without_its_words(line: str) -> None:
    assert may_show_progress(line) or not is_progress(line)


@pytest.mark.parametrize("pattern", PATTERNS, ids=lambda pattern: pattern.expression[:40])
def test_no_pattern_fits_a_line_without_its_words(pattern) -> None:
    assert pattern.words
    assert all(len(word) >= 3 and word == word.lower() for word in pattern.words)


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        (r"(?i)\bfallen off\b|\bXid\b", ("fallen off", "xid")), (r"(?:abc|defg)x?", ("abc", "defg")), (r"colou?r  is", ("r  is",)),
        (r"a{0,3}bcd", ("bcd",)), (r"\d+ (?:ab|c)", ()), (r"(?!never)seen", ("seen",)), (r"[abc]+xyz|(?i:Killed)", ("xyz", "killed")),
        (r"\[Errno 28\]", ("[errno 28]",)), (r"(?:abc)?(?:def|ghi) \w", ("def", "ghi")),
        ("ab+cde", ("bcde",)), ("abcd+?e", ("abcd",)), ("abcd*+e", ("abc",)), (r"[a(]xyz(?:[)]q){2}", ("xyz",)),
    ],
)  # fmt: skip
def test_the_words_that_an_expression_requires(expression: str, words: tuple[str, ...]) -> None:
    assert required_words(expression) == words


@given(st.sampled_from(PATTERNS).flatmap(lambda pattern: st.from_regex(pattern.fits).map(lambda line: (pattern, line))))
def test_a_line_that_a_pattern_fits_holds_its_words(case) -> None:
    pattern, line = case
    if "\n" not in line and re.search(pattern.fits, line) is not None and line.isascii():
        assert any(word in line.lower() for word in pattern.words)
        assert may_tell(line)


@pytest.mark.parametrize(
    "form",
    [
        "NVRM: Xid (PCI:0000:3b:00): {}, pid=1, x", "Xid {}: x", "xid={}", "XID error {}", "NVRM: Xid {}:", "Xid error with code {}",
        "NVIDIA XID error code {} detected", "Xid errors: [{}]", '{{"gpu":3,"xid":{}}}', "DCGM_FI_DEV_XID_ERRORS {}",
        'DCGM_FI_DEV_XID_ERRORS{{gpu="3",UUID="GPU-1"}} {}',
    ],
)  # fmt: skip
def test_an_xid_is_read_with_and_without_its_address(form: str) -> None:
    for number, crash in ((79, CrashClass.LOST_GPU), (74, CrashClass.CUDA_ERROR), (94, CrashClass.CUDA_ERROR), (31, CrashClass.CUDA_ERROR)):
        pattern = match_line(form.format(number))
        assert pattern is not None
        assert pattern.crash is crash
    for number in (43, 45, 163, 999):  # what follows from others and unknown ones are no cause by themselves
        pattern = match_line(form.format(number))
        assert pattern is not None
        assert pattern.tier.name == "REPORTED"
    for number in (63, 92, 106):  # the hardware goes on
        assert match_line(form.format(number)) is None
    assert set(range(160, 173)) <= set(XIDS)
    assert match_line(form.format(0)) is None, "exporters write 0 while there was none"


def test_what_only_ends_like_xid_is_none() -> None:
    assert match_line("taxid=79 loaded") is None


@pytest.mark.parametrize(
    ("line", "crash"),
    [
        ("systemd[1]: train.service: A process of this unit has been killed by the OOM killer.", CrashClass.OUT_OF_MEMORY),
        ("systemd[1]: train.service: Failed with result 'oom-kill'.", CrashClass.OUT_OF_MEMORY),
        ("systemd-oomd[812]: Killed /user.slice/run.scope due to memory pressure for /user.slice", CrashClass.OUT_OF_MEMORY),
        ('earlyoom[9]: sending SIGTERM to process 4711 uid 0 "python": oom_score 900', CrashClass.OUT_OF_MEMORY),
        ("train.sh: line 3: 4711 Killed                  python train.py", CrashClass.KILLED),
        ("Killed", CrashClass.KILLED),
        ("Killed: 9", CrashClass.KILLED),
        ("Received signal 10 (SIGUSR1), exiting", CrashClass.PREEMPTION),
        ("Received signal: 15", CrashClass.PREEMPTION),
    ],
)
def test_the_words_of_killers_and_shells(line: str, crash: CrashClass) -> None:
    pattern = match_line(line)
    assert pattern is not None
    assert pattern.crash is crash


@pytest.mark.parametrize("line", ["Killed old TensorBoard process 4711", "Killed 3 stale workers", "Received signal 100 times"])
def test_who_only_speaks_of_killing_and_signals(line: str) -> None:
    assert match_line(line) is None
