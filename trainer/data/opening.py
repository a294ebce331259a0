"""Which corpus a run's settings mean."""

from __future__ import annotations

from pathlib import Path

import torch.distributed as dist

from ..config import Config
from ..exits import ConfigError, DataError
from .corpus import Corpus
from .library import read_corpus
from .megatron import open_megatron, prefix_of
from .shards import MANIFEST, open_shards


def open_corpus(config: Config) -> Corpus:
    """What data.path names, and no larger a vocabulary than the model's. Raises DataError and ConfigError."""
    path, seq_len, vocab_size = config.data.path, config.data.seq_len, config.model.vocab_size
    if path is None:
        corpus = read_corpus(seq_len)
    elif is_megatron(path):
        corpus = open_megatron(prefix_of(path), seq_len, vocab_size)
    elif Path(path).exists():
        corpus = open_shards(folder_of(Path(path)), seq_len)
    else:
        raise DataError(f"data.path {path}: does not exist (seen from {Path.cwd()}), nor does {path}.idx; --set data.path=FOLDER")
    if corpus.vocab_size > vocab_size:
        raise ConfigError(
            f"model.vocab_size {vocab_size}: {corpus.origin} holds tokens up to {corpus.vocab_size - 1}; "
            f"--set model.vocab_size={corpus.vocab_size}"
        )
    return corpus


def same_on_all_ranks(corpus: Corpus, group: dist.ProcessGroup) -> Corpus:
    """The corpus, if it is the same everywhere. Raises DataError on every rank where it is not: each host has files of its own,
    and the default corpus is that of its Python."""
    digests: list[str] = [""] * dist.get_world_size(group)
    dist.all_gather_object(digests, corpus.digest, group=group)
    for rank, digest in enumerate(digests):
        if digest != digests[0]:
            raise DataError(
                f"{corpus.origin}: is {digests[0]} on rank 0 and {digest} on rank {rank}; they would train on different data: "
                "copy it to every host, or give them the same Python for the default corpus"
            )
    return corpus


def is_megatron(path: str) -> bool:
    prefix = prefix_of(path)
    return not Path(path).is_dir() and (Path(f"{prefix}.idx").exists() or Path(f"{prefix}.bin").exists())


def folder_of(path: Path) -> Path:
    """A manifest stands for its folder. Raises DataError for any other file."""
    if path.name == MANIFEST:
        return path.parent
    if not path.exists():
        raise DataError(f"{path}: does not exist, nor does {path}.idx; name a prepared folder, or Megatron's prefix")
    if not path.is_dir():
        raise DataError(f"{path}: is a file; name a prepared folder: python -m {__package__} prepare {path} --out FOLDER")
    return path
