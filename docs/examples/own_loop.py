"""A training loop: a small model on rows of tokens (N, length), from a file that torch.save wrote.

sentinel run --run-dir RUN_DIR -- python own_loop.py DATA.pt STEPS
"""

import sys

import torch

from sentinel.client.torch import attach

data, total = torch.load(sys.argv[1], weights_only=True), int(sys.argv[2])
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Embedding(64, 32), torch.nn.Linear(32, 64))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: max(0.1, 1 - step / total))

state = {"schedule": schedule}
run = attach(model, optimizer, total_steps=total, clip=1.0, save_every=20, dataset_size=len(data), extra_state=state)
for step in run.steps(run.restore()):
    rows = run.next_samples(16)
    batch = data[rows]
    logits = model(batch[:, :-1])
    loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())
    loss.backward()
    norm = run.clip_(model.parameters())
    with run.settings():
        optimizer.step()
    optimizer.zero_grad()
    schedule.step()
    run.log(loss=loss, grad_norm=norm)
    run.save(step)
