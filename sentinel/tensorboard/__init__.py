"""TensorBoard of a run: a board for each attempt, and `effective`, the surviving lineage. Written from the streams alone."""
