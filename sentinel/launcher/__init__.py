"""The training processes: one narrow Protocol (`contract`), the keeper that owns an attempt, and the launchers."""
