"""tests/trainers/lightning_script.py with SentinelCallback: its loader, its checkpoint. Samples may be poisoned, too."""

from __future__ import annotations

import argparse
from pathlib import Path

import lightning as L
import torch
from faults import Faults
from lightning_script import Regression

from sentinel.client.data_order import permuted
from sentinel.integrations.lightning import SentinelCallback

SIZE = 40_000


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", required=True)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--clip", type=float)
    args = parser.parse_args()
    L.seed_everything(1)
    torch.set_num_threads(1)
    out = Path(args.out)
    out.mkdir(parents=True, exist_ok=True)
    x = torch.randn(SIZE, 8)
    y = x.sum(1, keepdim=True).sin()
    bad = [permuted(index, SIZE, 0, 0) for index in Faults(out).poison]
    y[bad] += 20.0
    guard = SentinelCallback(torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_size=4), save_every=20)
    trainer = L.Trainer(
        max_steps=args.steps,
        accelerator="cpu",
        default_root_dir=out,
        logger=False,
        enable_progress_bar=False,
        enable_checkpointing=False,
        accumulate_grad_batches=2,
        gradient_clip_val=args.clip,
        callbacks=[guard],
    )
    trainer.fit(Regression(out, 1e-3), guard.loader, ckpt_path=guard.ckpt_path)


if __name__ == "__main__":
    main()
