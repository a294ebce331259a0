"""Verdicts and findings from readings: one phenomenon, one file; `catalog.DetectorBank` is the one object others talk to."""
