"""Turns a remedy into a recovery plan: which checkpoint, which samples, which settings, in which order. Pure."""
