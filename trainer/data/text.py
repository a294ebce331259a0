"""Between text and tokens: bytes as they are, a Hugging Face `tokenizers` file, or nothing but the ids themselves."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from ..exits import ConfigError, DataError

END_OF_DOCUMENT = "<|endoftext|>"
# What well-known tokenizers call the token between two documents, in this order (GPT-2, Llama 3, Llama 2, Gemma, BERT).
KNOWN_ENDS = (END_OF_DOCUMENT, "<|end_of_text|>", "</s>", "<eos>", "[SEP]")


class Bytes:
    """Each byte is a token. There is none left over to part documents with."""

    name = "bytes"
    unit = "byte"
    vocab_size = 256
    end_of_document: int | None = None

    def encode(self, texts: Sequence[bytes]) -> list[np.ndarray]:
        return [np.frombuffer(text, np.uint8) for text in texts]

    def decode(self, tokens: np.ndarray) -> bytes:
        return tokens.astype(np.uint8).tobytes()


class Ids:
    """Tokens of an unknown tokenizer (Megatron's files do not name it)."""

    name = "unknown"
    unit = "token"

    def encode(self, texts: Sequence[bytes]) -> list[np.ndarray]:  # noqa: ARG002 - the same method as the others'
        raise ConfigError("the data names no tokenizer, so text cannot become tokens; prepare it with trainer.data for that")

    def decode(self, tokens: np.ndarray) -> bytes:
        """The ids in decimal."""
        return " ".join(map(str, tokens.tolist())).encode()


class JsonTokenizer:
    """A tokenizer.json; read at the first use, so that a run that only trains does not need the package."""

    unit = "token"

    def __init__(self, path: Path, end: str | None = None) -> None:
        """`end`: the token that parts documents; the first of KNOWN_ENDS that it has, if None."""
        self.name = path.name
        self._path = path
        self._end = end

    @cached_property
    def _tokenizer(self) -> Any:
        tokenizers = imported_tokenizers()
        try:
            tokenizer = tokenizers.Tokenizer.from_file(str(self._path))
        except Exception as error:  # noqa: BLE001 - the package raises plain Exception
            raise DataError(f"{self._path}: is no tokenizer file ({error}); give the tokenizer.json of a trained one") from None
        tokenizer.no_truncation()  # a file may carry both from the model it was made for
        tokenizer.no_padding()
        return tokenizer

    @property
    def vocab_size(self) -> int:
        """One more than the highest id; added tokens count, and there may be gaps."""
        ids: Iterable[int] = self._tokenizer.get_vocab().values()
        return max(ids) + 1

    @property
    def end_of_document(self) -> int | None:
        """Raises ConfigError for a token that it does not have."""
        if self._end is not None:
            found: int | None = self._tokenizer.token_to_id(self._end)
            if found is None:
                raise ConfigError(f"--end-of-document {self._end!r}: {self._path} has no such token; name another")
            return found
        return next((found for name in KNOWN_ENDS if (found := self._tokenizer.token_to_id(name)) is not None), None)

    def encode(self, texts: Sequence[bytes]) -> list[np.ndarray]:
        """Without special tokens. What is not UTF-8 becomes U+FFFD."""
        words = [text.decode("utf-8", "replace") for text in texts]
        return [np.array(found.ids, np.int64) for found in self._tokenizer.encode_batch_fast(words, add_special_tokens=False)]

    def decode(self, tokens: np.ndarray) -> bytes:
        text: str = self._tokenizer.decode(tokens.tolist(), skip_special_tokens=False)
        return text.encode()


def imported_tokenizers() -> Any:
    """The package. Raises ConfigError where it is missing."""
    try:
        import tokenizers
    except ImportError:
        raise ConfigError("the package tokenizers is not installed; pip install tokenizers, or use --tokenizer bytes") from None
    return tokenizers


def train_tokenizer(texts: Iterator[bytes], vocab_size: int, path: Path) -> None:
    """Write a byte-level BPE (GPT-2's kind, Radford et al. 2019) of at most so many tokens; id 0 ends a document.

    Every byte has a token of its own, so any text can be encoded. Raises ConfigError.
    """
    tokenizers = imported_tokenizers()
    if vocab_size < 257:
        raise ConfigError(f"--tokenizer train:{vocab_size}: every byte and the end of a document take 257 tokens; ask for more")
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    alphabet = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=vocab_size, special_tokens=[END_OF_DOCUMENT], initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator((text.decode("utf-8", "replace") for text in texts), trainer)
    tokenizer.save(str(path))
