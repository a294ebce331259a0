"""`sentinel` whose real drills share one import of torch at each launch (see forked_ranks), and train on shorter sequences.

    python forked_drill.py drill FILE --real --json

Everything else is the command as a person types it. Under torchrun the drills are done by `make drills-real`.
"""

from __future__ import annotations

import sys

from sentinel.cli import drill_real, main
from tests.integration.forked_ranks import supervised_ranks

SEQ_LEN = 32


def launch_words(ranks: int) -> list[str]:
    return supervised_ranks(ranks)


def size_words(steps: int, checkpoint_every: int, batch: int) -> list[str]:
    words = plain_size_words(steps, checkpoint_every, batch)
    return [f"data.seq_len={SEQ_LEN}" if word.startswith("data.seq_len=") else word for word in words]


if __name__ == "__main__":
    plain_size_words = drill_real.size_words
    drill_real.launch_words, drill_real.size_words = launch_words, size_words
    sys.exit(main())
