"""The world as readings: what the trainer wrote, what the launcher sees, and when sentinel itself cannot see."""
