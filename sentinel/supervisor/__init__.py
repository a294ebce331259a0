"""The running supervisor: wiring, the loop, how each action is carried out, signals and systemd."""
