"""Ordered series of readings, windows, robust baselines, and the run's own pace. They judge nothing."""
