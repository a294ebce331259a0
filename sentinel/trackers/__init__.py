"""Writes a run into experiment trackers (W&B, MLflow): one tracker run for each attempt, all of them in one group."""
