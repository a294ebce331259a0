"""Reads the world: what the trainer wrote, what the launcher sees, and which source cannot be read."""
