"""A run's mirror off its machine: pushed by a process of its own while the run lives, and brought back by `sentinel restore`."""
