"""torchtitan itself on a machine without a GPU, its loop, checkpoints and metrics unchanged. Faults are asked for by a variable.

It runs on GPUs alone, so it is given here what it lacks: a device module of the CPU, a model of a few thousand parameters, a
text, and names in the place of Triton's kernels, which none of that uses.
"""

from __future__ import annotations

import json
import os
import random
import socket
import sys
import types
from pathlib import Path

import torch
import torch._dynamo
import torch._inductor.utils
import torch._utils
import torch.distributed
import torch.distributed.pipelining
import torch.nn.attention.flex_attention
import torch.nn.attention.varlen
from faults import Faults
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from torch.distributed.fsdp import FSDPModule

WORDS = [one + two for one in "bcdfgklmn" for two in ("ar", "el", "ion", "us", "at")]


def device_module() -> types.ModuleType:
    """torch.cpu, with what torchtitan asks of a device beside it."""
    module = types.ModuleType("cpu_device")
    module.__dict__.update({name: getattr(torch.cpu, name) for name in dir(torch.cpu) if not name.startswith("__")})
    module.get_device_name = lambda device=None: "CPU"
    module.get_device_properties = lambda device=None: types.SimpleNamespace(total_memory=2**34)
    module.reset_peak_memory_stats = module.empty_cache = module.set_device = lambda *device: None
    module.memory_stats = lambda device=None: {}
    return module


def pretend() -> None:
    """Before torchtitan is imported."""
    module = device_module()
    torch._utils._get_available_device_type = lambda: "cpu"
    torch._utils._get_device_module = lambda name: module
    torch.compile = lambda function=None, **options: function if function is not None else lambda one: one
    triton, language = types.ModuleType("triton"), types.ModuleType("triton.language")
    triton.jit, triton.language = (lambda function: function), language
    language.constexpr, language.tensor = int, object
    sys.modules.update({"triton": triton, "triton.language": language})
    own_factor = FSDPModule.set_gradient_divide_factor

    def set_factor(self: FSDPModule, factor: float) -> None:
        own_factor(self, factor)
        self.set_force_sum_reduction_for_comms(True)  # gloo multiplies nothing

    FSDPModule.set_gradient_divide_factor = set_factor
    barrier = torch.distributed.barrier
    torch.distributed.barrier = lambda *_, **__: barrier()  # gloo takes no device
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    alone = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    os.environ.update({} if "RANK" in os.environ else alone)  # torchrun has said it


def prepare(place: Path) -> None:
    """A text, its tokenizer, and a model of the size of both."""
    import datasets
    import torchtitan.tools.utils
    from torchtitan.hf_datasets import DatasetConfig
    from torchtitan.hf_datasets.text_datasets import DATASETS
    from torchtitan.models.llama3 import TransformerModelArgs, llama3_args

    draw = random.Random(1)
    texts = [" ".join(draw.choice(WORDS) for _ in range(300)) for _ in range(400)]
    DATASETS["words"] = DatasetConfig("", lambda path: datasets.Dataset.from_dict({"text": texts}), lambda row: row["text"])
    llama3_args["tiny"] = TransformerModelArgs(dim=32, n_layers=2, n_heads=2, vocab_size=512, rope_theta=500000)
    torchtitan.tools.utils.get_peak_flops = lambda name: 1e12
    place.mkdir(parents=True, exist_ok=True)
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel()
    tokenizer.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=500, special_tokens=["<b>", "<e>"], show_progress=False))
    rank = os.environ["RANK"]
    tokenizer.save(str(place / f"tokenizer.{rank}"))
    os.replace(place / f"tokenizer.{rank}", place / "tokenizer.json")  # another rank may be reading it
    config = {"bos_token": "<b>", "eos_token": "<e>"}
    (place / f"config.{rank}").write_text(json.dumps(config))
    os.replace(place / f"config.{rank}", place / "tokenizer_config.json")


def poison(places: range) -> None:
    """Samples of the stream whose labels are wrong, by their place in it."""
    from torchtitan.hf_datasets.text_datasets import HuggingFaceTextDataset as Data

    own_iter, own_state, own_load = Data.__iter__, Data.state_dict, Data.load_state_dict

    def samples(self: Data) -> object:
        self.given = getattr(self, "given", 0)
        for inputs, labels in own_iter(self):
            self.given += 1
            yield inputs, (labels * 7 + 3) % 500 if self.given - 1 in places else labels

    def load(self: Data, state: dict) -> None:
        self.given = state["given"]
        own_load(self, state)

    Data.__iter__, Data.load_state_dict = samples, load
    Data.state_dict = lambda self: own_state(self) | {"given": getattr(self, "given", 0)}


def main() -> None:
    torch.set_num_threads(1)
    pretend()
    place = Path(os.environ["PLACE"])
    prepare(place)
    from torchtitan import train

    own_forward = train.Trainer.forward_backward_step

    def forward(self: train.Trainer, *, input_dict: dict, labels: torch.Tensor, **more: object) -> torch.Tensor:
        if (input_dict["input"][:, 1:] != labels[:, :-1]).any():
            with (place / "poisoned.txt").open("a") as file:
                file.write(f"{os.environ.get('SENTINEL_ATTEMPT')} {self.step}\n")
        return own_forward(self, input_dict=input_dict, labels=labels, **more)

    train.Trainer.forward_backward_step = forward
    faults, own_step = Faults(place), train.Trainer.train_step
    poison(faults.poison)

    def train_step(self: train.Trainer, batches: object) -> None:
        faults.strike(self.step, next(self.model_parts[0].parameters()))
        own_step(self, batches)

    train.Trainer.train_step = train_step
    train.main(train.Trainer)


if __name__ == "__main__":
    main()
