"""Reading a run directory: the stream, heartbeats, and what the detectors last said."""
