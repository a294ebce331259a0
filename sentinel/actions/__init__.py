"""Carries out decided actions. Each is safe to repeat under its key, and every failure comes back as an event."""
