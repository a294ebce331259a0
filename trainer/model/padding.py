"""How many rows the token embedding and the head really have. Imports no torch."""

from __future__ import annotations

import math

ALIGNMENT = 128  # matrix units of GPUs run fastest on multiples of it (Megatron's --make-vocab-size-divisible-by)


def padded_vocabulary(vocabulary: int, world_size: int) -> int:
    """The vocabulary up to a multiple of 128 and of the ranks, so that every rank holds the same share of the rows.

    Belongs to the run: a resume over another number of ranks keeps the padding it finds, shares may then be uneven.
    """
    multiple = math.lcm(ALIGNMENT, world_size)
    return -(-vocabulary // multiple) * multiple
