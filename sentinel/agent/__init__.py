"""`sentinel agent`: the eyes and hands of one node, for a supervisor on another. It decides nothing."""
