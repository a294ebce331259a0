"""How fast the ops are beside what they replace. Each op's cases stand in a file of its name; harness.py says what a case is."""
