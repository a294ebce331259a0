"""Writes TensorBoard files of a run: one run for each attempt, and `effective`, the surviving lineage."""
