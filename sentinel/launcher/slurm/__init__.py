"""Slurm by the names of steps: `answers` and `nodes` judge what its commands say, `calls` asks, `steps` is the launcher."""
