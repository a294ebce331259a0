"""Supervises a run: wires its parts, runs the loop, carries out each action, answers signals and systemd."""
