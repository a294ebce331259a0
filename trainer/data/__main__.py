"""python -m trainer.data prepare INPUT... --out DIR | show DATA | verify DATA: make prepared tokens, look at them, check them.

INPUT is a text file (one document), a .jsonl or .jsonl.gz file (one document a line), or a folder of them. DATA is a folder made
so, or Megatron's prefix. Exits with 3 where an option is wrong and 4 where the data is.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

from ..exits import BAD_DATA, FINISHED, INTERRUPTED, ConfigError, DataError, TrainerError
from ..printable import printable
from .inputs import Inputs, find_sources
from .library import HELD_OUT_EVERY, library_root
from .megatron import open_megatron, prefix_of
from .opening import folder_of, is_megatron
from .prepare import PrepareOptions, prepare
from .shards import open_shards, read_manifest
from .verify import verify_megatron, verify_shards


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ConfigError(f"{message}; see {self.prog} --help")


def arguments_parser() -> argparse.ArgumentParser:
    """Its parse_args raises ConfigError."""
    parser = _Parser(prog=f"python -m {__package__}", description=__doc__.split(":", 1)[1].strip())
    commands = parser.add_subparsers(required=True, metavar="prepare|show|verify", parser_class=_Parser)
    make = commands.add_parser("prepare", help="turn text into shards of tokens")
    make.add_argument("inputs", nargs="*", type=Path, metavar="INPUT", help="text files, .jsonl files, folders of them")
    make.add_argument("--stdlib", action="store_true", help="the default corpus: this Python's own sources")
    make.add_argument("--out", type=Path, required=True, metavar="DIR", help="a new or empty folder")
    make.add_argument("--tokenizer", default="bytes", help="bytes (default), a tokenizer.json, or train:VOCAB to train one here")
    make.add_argument("--end-of-document", metavar="TOKEN", help="written behind each document; default: the tokenizer's own")
    make.add_argument("--jsonl-key", default="text", metavar="KEY", help="where a line has its text (default text)")
    make.add_argument("--shard-tokens", type=int, default=1 << 28, metavar="N", help="tokens a shard at most (default 2^28)")
    make.add_argument(
        "--held-out-every", type=int, default=HELD_OUT_EVERY, metavar="N",
        help="one document of so many is held out; of fewer files than that, such a part of each one's end (default 20)",
    )  # fmt: skip
    make.set_defaults(command=prepare_command)
    look = commands.add_parser("show", help="what the data is, and the text of one of its sequences")
    look.add_argument("data", metavar="DATA", help="a prepared folder, or Megatron's prefix")
    look.add_argument("--sequence", type=int, default=0, metavar="N", help="which to print (default 0)")
    look.add_argument("--seq-len", type=int, default=128, metavar="T", help="how long sequences are (default 128)")
    look.set_defaults(command=show_command)
    check = commands.add_parser("verify", help="read every byte: digests, sizes, token ids")
    check.add_argument("data", metavar="DATA", help="a prepared folder, or Megatron's prefix")
    check.add_argument("--vocab-size", type=int, metavar="N", help="of Megatron's data, which does not tell it")
    check.set_defaults(command=verify_command)
    return parser


def prepare_command(args: argparse.Namespace) -> str:
    if not args.inputs and not args.stdlib:
        raise ConfigError("prepare: nothing to prepare; name files or folders, or --stdlib")
    for option, value, least in (("--shard-tokens", args.shard_tokens, 1), ("--held-out-every", args.held_out_every, 2)):
        if value < least:
            raise ConfigError(f"{option} {value}: must be at least {least}")
    library = library_root() if args.stdlib else None
    inputs = Inputs(find_sources(args.inputs), library, args.jsonl_key, args.held_out_every)
    with progress() as bar:
        training = bar("tokenizer", inputs.bytes) if args.tokenizer.startswith("train:") else lambda _: None
        options = PrepareOptions(args.tokenizer, args.end_of_document, args.shard_tokens)
        made = prepare(inputs, args.out, options, training, bar("tokens", inputs.bytes))
    return (
        f"{args.out}: {made.tokens('train')} tokens of {made.documents.train} documents to train on, "
        f"{made.tokens('held_out')} of {made.documents.held_out} held out, vocabulary {made.vocab_size}, {made.dtype}; "
        f"train with --set data.path={args.out} model.vocab_size={made.vocab_size}"
    )


def show_command(args: argparse.Namespace) -> str:
    if args.seq_len < 1:
        raise ConfigError(f"--seq-len {args.seq_len}: must be at least 1")
    if is_megatron(args.data):
        corpus = open_megatron(prefix_of(args.data), args.seq_len, 2**31)
        lines = ["Megatron's, tokenizer unknown"]
    else:
        corpus = open_shards(folder_of(Path(args.data)), args.seq_len)
        manifest, _ = read_manifest(folder_of(Path(args.data)))
        documents = manifest.documents
        lines = [f"{manifest.dtype}, vocabulary {manifest.vocab_size}, tokenizer {corpus.text.name}",
                f"{documents.train} documents to train on, {documents.held_out} held out (one of {manifest.held_out_every})",
                f"{len(manifest.train)} + {len(manifest.held_out)} shards"]  # fmt: skip
    if not 0 <= args.sequence < corpus.size:
        raise ConfigError(f"--sequence {args.sequence}: there are {corpus.size} of them, counted from 0")
    name, offset = corpus.place_of(args.sequence)
    lines += [
        f"{len(corpus.train)} tokens to train on, {len(corpus.held_out)} held out; digest {corpus.digest}",
        f"sequence {args.sequence} of {corpus.size}, from {name}, {corpus.text.unit} {offset}:",
        printable(corpus.text.decode(corpus.sequence(args.sequence))),
    ]
    return "\n".join(lines)


def verify_command(args: argparse.Namespace) -> str:
    with progress() as bar:
        if is_megatron(args.data):
            prefix = prefix_of(args.data)
            size = Path(f"{prefix}.bin").stat().st_size if Path(f"{prefix}.bin").exists() else 0
            count = verify_megatron(prefix, args.vocab_size, bar("verify", size))
            unknown = "" if args.vocab_size is not None else "; token ids not looked at: it takes --vocab-size"
            return f"{args.data}: {count} tokens, the index is whole{unknown}"
        folder = folder_of(Path(args.data))
        manifest, _ = read_manifest(folder)
        verify_shards(folder, bar("verify", sum(file.bytes for file in manifest.files)))
    return f"{args.data}: {len(manifest.files)} files, every digest and every token as the manifest says"


@contextmanager
def progress() -> Iterator[Callable[[str, int], Callable[[int], None]]]:
    """Bars over bytes on stderr, where a person looks; silent elsewhere."""
    console = Console(stderr=True)
    columns = TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn()
    with Progress(*columns, console=console, disable=not console.is_terminal) as shown:

        def bar(name: str, total: int) -> Callable[[int], None]:
            task = shown.add_task(name, total=total)
            return lambda count: shown.advance(task, count)

        yield bar


def main(words: Sequence[str] | None = None) -> int:
    try:
        args = arguments_parser().parse_args(words)
        print(args.command(args), flush=True)
    except TrainerError as error:
        print(f"trainer.data: {error}", file=sys.stderr)
        return error.code
    except OSError as error:
        print(f"trainer.data: {DataError(error)}", file=sys.stderr)
        return BAD_DATA
    except KeyboardInterrupt:
        print("trainer.data: interrupted; a preparation that was under way left nothing", file=sys.stderr)
        return INTERRUPTED
    return FINISHED


if __name__ == "__main__":
    sys.exit(main())
