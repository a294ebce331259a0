"""`sentinel demo` and `sentinel drill --real` whose ranks share one import of torch at each launch (see forked_ranks).

    python -m tests.integration.forked_trainers drill FILE --real --json

They train on shorter sequences, too. Everything else is the command as a person types it. Under torchrun the drills are done by
`make drills-real`, and the demonstration by `make demo` and `make accept`.
"""

from __future__ import annotations

import sys

from sentinel.cli import bundled_trainer, demo, drill_real, main
from tests.integration.forked_ranks import supervised_ranks


def launch_words(ranks: int) -> list[str]:
    return supervised_ranks(ranks)


if __name__ == "__main__":
    bundled_trainer.SEQ_LEN = 32
    demo.launch_words = drill_real.launch_words = launch_words
    sys.exit(main())
