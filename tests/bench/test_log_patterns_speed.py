"""What patterns over logs cost: a follower of one log, with one pattern and with ten, read to its end. `make bench-logs`."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

pytest.importorskip("re2", reason="google-re2 is not installed: pip install 'training-sentinel[logs]'")

from sentinel.client.run_layout import attempts_folder
from sentinel.policy.line_patterns import compile_pattern
from sentinel.telemetry.log_patterns import LogPatterns

LINES = 260_000
LINE = "[2026-11-26 12:00:00,123] [rank17] INFO: iteration {step}/500000 | loss 2.3456 | grad norm 0.123 | lr 6.0e-04 | 0.42 s\n"
PLAIN = [
    "uncorrectable ECC error", "NCCL WARN", "CUDA error: an illegal memory access", "out of memory", "Connection reset by peer",
    "No space left on device", "Input/output error", "Xid .*: 79,", "link down", "licence (expired|invalid)",
]  # fmt: skip
MIXED = [
    "(?i)uncorrectable ECC error", "^Traceback", r"\b[A-Za-z]+Error: ", r"GPU (?P<gpu>[0-9]+) has fallen off", "out of memory$",
    r"mlx5_[0-9]+: link down", r"[0-9]+ (corrected|uncorrected) errors", "(?i)no space left", "(foo|bar|baz)+x", "(a+)+$",
]  # fmt: skip


@pytest.mark.bench
@pytest.mark.parametrize(("what", "patterns"), [("one", PLAIN[:1]), ("ten that are words", PLAIN), ("ten of all kinds", MIXED)])
def test_a_log_is_searched(tmp_path: Path, what: str, patterns: list[str]) -> None:
    folder = attempts_folder(tmp_path) / "0001" / "logs"
    folder.mkdir(parents=True)
    text = "".join(LINE.format(step=step) for step in range(LINES))
    (folder / "rank-00000.out").write_text(text)
    best_s = 1e9
    for _ in range(3):
        source = LogPatterns(tmp_path, 1, [(f"P{n}", compile_pattern(pattern)) for n, pattern in enumerate(patterns)])
        began = time.process_time()
        assert source.poll() == []
        while source.has_more:
            assert source.poll() == []
        best_s = min(best_s, time.process_time() - began)
        assert source._logs["rank-00000.out"].offset == len(text)
    print(f"\n{what}: {len(text) / 1e6:.0f} MB in {best_s:.2f} s of processor time, {len(text) / best_s / 1e6:.0f} MB/s")
