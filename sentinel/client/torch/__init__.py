"""The client of a training loop of your own in PyTorch. This package alone of sentinel imports torch; the supervisor never does.

    from sentinel.client.torch import attach

    run = attach(model, optimizer, total_steps=10_000, clip=1.0, dataset_size=len(data))
    for step in run.steps(run.restore()):                # loads what save wrote; the first step
        rows = run.next_samples(global_batch)            # this rank's share, skipped samples left out
        loss = model(data[rows]); loss.backward()
        norm = run.clip_(model.parameters())
        with run.settings():
            optimizer.step()
        optimizer.zero_grad()
        run.log(loss=loss, grad_norm=norm)
        run.save(step)                                   # model, optimizer and random numbers, where it is time

Without a supervisor every line does what it says and nothing else. docs/own-loop.md is the page about it.
"""

from sentinel.client.torch.attached import Run, attach
from sentinel.client.torch.tuning import AttachError

__all__ = ["AttachError", "Run", "attach"]
