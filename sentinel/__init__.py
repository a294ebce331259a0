"""Sentinel watches a long pretraining run from outside, repairs it, proves the repair, and pages a person last."""

__version__ = "0.1.0"
