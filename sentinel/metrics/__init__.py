"""Runs as Prometheus families. `exposition` makes the text; serving it is somebody else's."""
