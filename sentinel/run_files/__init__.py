"""Reading a run directory: the stream, heartbeats, and how the detectors stand."""
