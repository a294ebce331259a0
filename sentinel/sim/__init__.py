"""A deterministic simulator: the real daemon loop over a simulated world, thousands of disasters a minute, from a seed.

It shares none of the engine's beliefs. What the simulated launcher, trainer and files do is pinned by tests that run against
the real ones too (tests/conformance, tests/sim).
"""
