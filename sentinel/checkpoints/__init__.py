"""Checkpoints on disk: listing and verifying, quarantine, pruning, pointers to the newest."""
