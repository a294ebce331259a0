"""Verdicts and findings from readings: one phenomenon, one file; `catalog.Senses` is the one object others talk to."""
