"""A training loop: a small model on rows of tokens (N, length), from a file that torch.save wrote.

python plain_loop.py DATA.pt STEPS
"""

import sys

import torch

data, total = torch.load(sys.argv[1], weights_only=True), int(sys.argv[2])
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Embedding(64, 32), torch.nn.Linear(32, 64))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: max(0.1, 1 - step / total))

for step in range(1, total + 1):
    rows = [index % len(data) for index in range((step - 1) * 16, step * 16)]
    batch = data[rows]
    logits = model(batch[:, :-1])
    loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())
    loss.backward()
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
    schedule.step()
