"""A Lightning script as users write them, with flags of its own for the folder and the checkpoint. It knows nothing of Sentinel;
the faults are asked for by a variable."""

from __future__ import annotations

import argparse
from pathlib import Path

import lightning as L
import torch
from faults import Faults
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger


class Regression(L.LightningModule):
    def __init__(self, folder: Path, lr: float) -> None:
        super().__init__()
        self.net = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1))
        self.lr, self.faults = lr, Faults(folder)

    def training_step(self, batch: tuple[torch.Tensor, torch.Tensor], index: int) -> torch.Tensor:
        x, y = batch
        y = 30 * y if self.trainer.global_step in self.faults.poison else y
        loss = torch.nn.functional.mse_loss(self.net(x), y) + 1.0
        self.log("train_loss", loss)
        return loss

    def on_train_batch_end(self, outputs, batch, index) -> None:
        self.faults.strike(self.trainer.global_step, next(self.parameters()))

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), lr=self.lr)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", required=True)
    parser.add_argument("--ckpt")
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--lr", type=float, default=1e-2)
    args = parser.parse_args()
    L.seed_everything(1)
    torch.set_num_threads(1)
    out = Path(args.out)
    out.mkdir(parents=True, exist_ok=True)
    x = torch.randn(40_000, 8)
    data = torch.utils.data.TensorDataset(x, x.sum(1, keepdim=True).sin())
    trainer = L.Trainer(
        max_steps=args.steps,
        accelerator="cpu",
        default_root_dir=out,
        logger=CSVLogger(out, flush_logs_every_n_steps=5),
        log_every_n_steps=1,
        enable_progress_bar=False,
        callbacks=[ModelCheckpoint(every_n_train_steps=20, save_top_k=-1)],
    )
    trainer.fit(Regression(out, args.lr), torch.utils.data.DataLoader(data, batch_size=16), ckpt_path=args.ckpt)


if __name__ == "__main__":
    main()
