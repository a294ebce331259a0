"""What the faults of `trainer.faults` do to a run. `wrappers.install_faults` puts them around its parts; the training loop itself
does not know of them. `process` hurts the process, `tensors` weights and checkpoints, `data` the samples."""
