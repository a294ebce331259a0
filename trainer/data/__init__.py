"""What a run trains on: the corpora it can open, and the loader that cuts batches from them. README.md has the formats."""

from trainer.data.corpus import Corpus
from trainer.data.library import read_corpus
from trainer.data.loader import Batch, Loader
from trainer.data.opening import open_corpus, same_on_all_ranks

__all__ = ["Batch", "Corpus", "Loader", "open_corpus", "read_corpus", "same_on_all_ranks"]
