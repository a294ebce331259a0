"""Curves: which metrics of the stream are shown where (`registry`), and how a curve is drawn."""
