"""Checkpoint files: lists and verifies them, moves them to quarantine, deletes them, mends pointers to the newest."""
