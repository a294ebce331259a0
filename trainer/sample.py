"""python -m trainer.sample RUN_DIR: a text of the model of a checkpoint, so that a person sees what it learned.

The settings come from the checkpoint itself. Reads, and changes nothing.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from .checkpoint.listing import folder_of, place_of
from .checkpoint.verifying import Verified, list_steps, name_of, verify
from .config import Config
from .config.loading import changed, checked
from .exits import PROGRAM, ConfigError, DataError, TrainerError
from .printable import printable

if TYPE_CHECKING:
    from .model.gpt import GPT

PROMPT = "\n"  # separates the parts of most texts, and every tokenizer has it


def main(arguments: Sequence[str]) -> int:
    """The exit code: 0, 3 for a wrong command, 4 for what cannot be read."""
    try:
        args = _parser().parse_args(arguments)
        print(sample(args), flush=True)
    except TrainerError as error:
        print(f"trainer.sample: {error}", file=sys.stderr)
        return error.code
    return 0


def sample(args: argparse.Namespace) -> str:
    """What is printed. Raises TrainerError."""
    found = newest(args.place) if args.step is None else verify(place_of(folder_of(args.place), args.step))
    config = settings_of(found)
    if args.data is not None:
        config = changed(config, data={"path": args.data})
    import torch

    from .data import open_corpus
    from .model.generation import generate

    text = open_corpus(config).text
    begin = text.encode([args.prompt.encode()])[0]
    if not len(begin):
        raise ConfigError("--prompt '': one token at least is needed to begin with; write some text")
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = model_of(found, config, device)
    generator = torch.Generator().manual_seed(args.seed)
    prompt = torch.tensor(begin.astype("int64"), device=device)
    tokens = generate(model, prompt, args.tokens, generator, args.temperature, args.top_k)
    written = printable(text.decode(tokens.cpu().numpy()))
    loss = (found.manifest.get("metrics") or {}).get("loss")
    header = f"step {found.step}" + (f", training loss {loss:.3f}" if isinstance(loss, float) else "")
    return f"{header}, temperature {args.temperature:g}, seed {args.seed}\n{written}"


def newest(place: Path) -> Verified:
    """The newest checkpoint whose every byte holds. Raises DataError with the first thing that is wrong."""
    folder, wrong = folder_of(place), ""
    for step in reversed(list_steps(folder)):
        try:
            return verify(folder / name_of(step))
        except DataError as error:
            wrong = wrong or f"; the newest: {error}"
    raise DataError(f"{folder}: holds no checkpoint that can be read{wrong}")


def settings_of(found: Verified) -> Config:
    """Those it was trained with. Raises DataError for a manifest without them."""
    try:
        return checked(found.manifest["config"])
    except (KeyError, ConfigError) as error:
        raise DataError(f"{found.path}: its manifest holds no settings this program knows ({error})") from None


def model_of(found: Verified, config: Config, device: object) -> GPT:
    """The whole model on one device, for reading. Raises DataError where a parameter is missing."""
    import torch

    from .checkpoint.contents import Contents
    from .model.gpt import build_model

    model: GPT = build_model(config, found.manifest["padded_vocab"]).to_empty(device=torch.device(str(device)))
    contents = Contents(found.path)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name not in contents:
                raise DataError(f"{found.path}: has no parameter {name}, which its settings ask for")
            parameter.copy_(contents.parameter(name))
    model.eval()
    return model


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ConfigError(f"{message}; see python -m {PROGRAM}.sample --help")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog=f"python -m {PROGRAM}.sample", description="Print a text that the model of a checkpoint continues.")
    add = parser.add_argument
    add("place", type=Path, metavar="RUN_DIR", help="a run directory, or a trainer's --out-dir")
    add("--step", type=int, metavar="N", help="of this checkpoint (default: the newest that holds)")
    add("--prompt", default=PROMPT, metavar="TEXT", help="what it goes on from (default: a new line)")
    add("--tokens", type=_number(int, 1, 100_000), default=400, metavar="N", help="how many to write (400)")
    add("--temperature", type=_number(float, 0, 100), default=0.8, metavar="T", help="0: always the likeliest (0.8)")
    add("--top-k", type=_number(int, 0, 10**9), default=40, metavar="K", help="from the K likeliest; 0: from all (40)")
    add("--seed", type=_number(int, 0, 2**63 - 1), default=1337, metavar="N", help="the same one writes the same text (1337)")
    add("--data", metavar="PATH", help="where the data lies now, for its tokenizer, if it was moved")
    return parser


def _number(kind: type[int] | type[float], least: float, most: float) -> Callable[[str], float]:
    def parse(text: str) -> float:
        try:
            value: float = kind(text)
        except ValueError:
            value = math.nan
        if not least <= value <= most:
            raise argparse.ArgumentTypeError(f"{text!r} is not a number from {least:g} to {most:g}")
        return value

    return parse


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
