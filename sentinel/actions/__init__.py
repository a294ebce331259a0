"""Effects on the world. Each act is safe to repeat under its key; every failure comes back as an event."""
