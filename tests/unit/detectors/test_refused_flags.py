"""Words by which programs say that they do not know an argument."""

from __future__ import annotations

import pytest

from sentinel.detectors.refused_flags import find_refused, is_same_flag


@pytest.mark.parametrize(
    ("line", "flags"),
    [
        ("train.py: error: unrecognized arguments: --max_grad_norm 0.3 --seed=7", ("--max_grad_norm", "--seed")),
        ("pretrain_gpt.py: error: unrecognized arguments: --iterations-to-skip 10 11 12", ("--iterations-to-skip",)),
        ("train.py: error: argument --dtype: invalid choice: 'float16' (choose from 'bfloat16')", ("--dtype",)),
        ("train.py: error: argument --resume: ignored explicit argument '/ck/step-50'", ("--resume",)),
        ("train.py: error: argument --clip-grad/-c: ignored explicit argument '1'", ("--clip-grad", "-c")),
        ("train.py: error: ambiguous option: --clip could match --clip-grad, --clip-value", ("--clip",)),
        (
            "ValueError: Some specified arguments are not used by the HfArgumentParser: ['--max_grad_norm', '0.3']",
            ("--max_grad_norm",),
        ),
        ("ValueError: Unknown config key: dtype", ("dtype",)),
        ("Error: No such option '--clip'. (Did you mean one of: '--clip-norm', '--help'?)", ("--clip",)),
        ("│ No such option: --clip (Possible options: --clip-norm, --help)               │", ("--clip",)),
        ("FATAL Flags parsing error: Unknown command line flag 'clip'", ("clip",)),
        ("│ Unrecognized options: --clip, 1                         │", ("--clip",)),
        ("ERROR: Could not consume arg: --clip=1.0", ("--clip",)),
        ("getopt.GetoptError: option --clip not recognized", ("--clip",)),
        ("Could not override 'optimizer.clip'.", ("optimizer.clip",)),
        ("[rank0]: ValueError: Unknown config key: min_lr", ("min_lr",)),
    ],
)
def test_what_was_refused_is_read_off_the_line(line: str, flags: tuple[str, ...]) -> None:
    assert find_refused(["usage: train.py [-h]", line, ""]) == (flags, line.strip())


@pytest.mark.parametrize(
    "line",
    [
        "RuntimeError: CUDA error: device-side assert triggered",
        "iter 100: loss 2.3, time 12ms",
        "unrecognized model in config.json",
        "train.py: error: the following arguments are required: --data",
        "Warning: option --fast is slow",
    ],
)
def test_other_lines_refuse_nothing(line: str) -> None:
    assert find_refused([line]) == ((), "")


def test_parsers_that_take_dashes_for_underscores() -> None:
    assert is_same_flag("learning_rate", "--learning_rate")
    assert is_same_flag("--max-grad-norm", "--max_grad_norm")
    assert not is_same_flag("--clip", "--clip-norm")
