"""tests/trainers/hf_script.py with the line that this is about: `supervise(trainer).train()`. Samples may be poisoned, too."""

from __future__ import annotations

from pathlib import Path

import torch
from faults import Faults
from hf_script import Striking, Texts
from transformers import GPT2Config, GPT2LMHeadModel, HfArgumentParser, Trainer, TrainingArguments, set_seed

from sentinel.client.data_order import permuted
from sentinel.integrations.hf import supervise

SEED = 42  # of TrainingArguments


class Poisoned(Texts):
    """`poison` in FAULTS: a range of sample indices, in Sentinel's order, whose rows are noise."""

    def __init__(self, poison: range) -> None:
        super().__init__()
        size = len(self.ids)
        bad = [permuted(index % size, size, SEED, index // size) for index in poison]
        self.ids[bad] = self.ids[bad].flip(1)


def main() -> None:
    (args,) = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()
    set_seed(args.seed)
    torch.set_num_threads(1)
    Path(args.output_dir).mkdir(parents=True, exist_ok=True)
    config = GPT2Config(vocab_size=64, n_positions=16, n_embd=32, n_layer=2, n_head=2, bos_token_id=0, eos_token_id=0)
    folder = Path(args.output_dir)
    texts = Poisoned(Faults(folder).poison)
    trainer = Trainer(GPT2LMHeadModel(config), args, train_dataset=texts, callbacks=[Striking(folder)])
    supervise(trainer).train()


if __name__ == "__main__":
    main()
