"""One file an op: its schema, its shapes for tracing, its gradient, and the function that people call."""
