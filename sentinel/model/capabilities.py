"""What a trainer, or the command that starts it, can do for sentinel beside training (PROTOCOL.md)."""

from __future__ import annotations

CAPABILITIES = ("skip", "live_overrides", "attribution")  # what PROTOCOL.md gives every trainer that honours it
MORE = ("exclude", "restart")  # of the command, not of the trainer: only where somebody says so
