"""A page on its way: the case that a person reads, and the courier that gives it to the channel of its route."""
