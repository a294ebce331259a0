"""Shows runs as Prometheus metrics: `exposition` makes the text, and `sentinel.web` serves it."""
