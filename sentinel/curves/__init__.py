"""Curves: which metrics are shown where (`registry`, from the table of metrics), and how a curve is drawn."""
