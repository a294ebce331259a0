"""A script as Hugging Face's users write them: a tiny GPT-2, TrainingArguments from flags, transformers.Trainer. It knows nothing
of Sentinel; the faults are asked for by a variable."""

from __future__ import annotations

from pathlib import Path

import torch
from faults import Faults
from transformers import GPT2Config, GPT2LMHeadModel, HfArgumentParser, Trainer, TrainerCallback, TrainingArguments, set_seed


class Texts(torch.utils.data.Dataset):
    def __init__(self, count: int = 4000) -> None:
        generator = torch.Generator().manual_seed(1)
        start = torch.randint(0, 32, (count, 1), generator=generator)
        self.ids = (start + torch.arange(16)) % 64

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        return {"input_ids": self.ids[index], "labels": self.ids[index]}


class Striking(TrainerCallback):
    def __init__(self, folder: Path) -> None:
        self.faults = Faults(folder)

    def on_step_end(self, args, state, control, model=None, **kwargs):
        self.faults.strike(state.global_step, next(model.parameters()))


class Poisoned(Trainer):
    """In a window of steps the labels are noise."""

    def compute_loss(self, model, inputs, **kwargs):
        if self.state.global_step in Faults(Path(self.args.output_dir)).poison:
            inputs["labels"] = torch.randint(0, 64, inputs["labels"].shape)
        return super().compute_loss(model, inputs, **kwargs)


def main() -> None:
    (args,) = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()
    set_seed(args.seed)
    torch.set_num_threads(1)
    Path(args.output_dir).mkdir(parents=True, exist_ok=True)
    config = GPT2Config(vocab_size=64, n_positions=16, n_embd=32, n_layer=2, n_head=2, bos_token_id=0, eos_token_id=0)
    trainer = Poisoned(GPT2LMHeadModel(config), args, train_dataset=Texts(), callbacks=[Striking(Path(args.output_dir))])
    trainer.train(resume_from_checkpoint=args.resume_from_checkpoint)


if __name__ == "__main__":
    main()
