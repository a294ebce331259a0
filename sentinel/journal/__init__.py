"""Stores the facts of a run on disk before anybody acts on them, and settles who may write to the run.

Start with `session.take_run` (lock, journal, epoch, lease, in the order that is safe); read a live run with
`Journal.open(path, read_only=True)`. SQLite is imported by `store` and `schema` only.
"""
