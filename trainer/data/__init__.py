"""What a run trains on: the corpora it can open, and the loader that cuts batches from them. README.md has the formats."""

from .corpus import Corpus
from .library import read_corpus
from .loader import Batch, Loader
from .opening import open_corpus, same_on_all_ranks

__all__ = ["Batch", "Corpus", "Loader", "open_corpus", "read_corpus", "same_on_all_ranks"]
