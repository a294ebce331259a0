"""The memory of a run: every fact the engine decided, on disk before it is acted upon, and who may write to it.

Start with `session.take_run` (lock, journal, epoch, lease, in the order that is safe); read a live run with
`Journal.open(path, read_only=True)`. SQLite is imported by `store` and `schema` only.
"""
