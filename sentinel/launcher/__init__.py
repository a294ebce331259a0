"""Starts, stops and observes training processes: the Protocol (`contract`), the launchers, and the keeper of an attempt."""
