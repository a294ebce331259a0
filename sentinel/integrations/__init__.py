"""Sentinel's client inside the training libraries: `hf` (transformers.Trainer), `lightning` and
`torchtitan`. docs/integrations.md is the page.

Each module imports its library, and nothing of sentinel imports this package: a program imports the one that it needs.
"""
