"""Which sequences a step trains on: the arithmetic of `sentinel/client/data_order.py`, which every trainer can have."""

from sentinel.client.data_order import Order, Position, Skip, Span, mix, permuted, ranges_of, union_of

__all__ = ["Order", "Position", "Skip", "Span", "mix", "permuted", "ranges_of", "union_of"]
