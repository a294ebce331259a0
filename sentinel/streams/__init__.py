"""Readings in order: the attempt's series, robust baselines, and the run's own pace. Judges nothing by itself."""
