"""Checkpoints that are either whole and provably unchanged, or not there.

torch.distributed.checkpoint writes the shards. Around it is the commit order of PROTOCOL.md: unique temporary directory →
write → sync files and directory → manifest with size and sha256 of every file → rename → sync parent. A directory without a
valid manifest is not a checkpoint. Reading verifies first and falls back to older ones, never to newer.

`verifying` and `choosing` read, and so do `reading`, `index` and `pickled`, which run nothing that a file says; `writing`,
`committing` and `saving` write; `retention` deletes. What is named here loads no torch, so that `python -m trainer.checkpoint
list` answers at once; `writing.load` and `saving.Saver` do.
"""

from .choosing import choose_resume, discard_unfinished, stored_padding
from .verifying import Verified, compare_numbers, digest_of, list_steps, name_of, read_manifest, verify

__all__ = [
    "Verified",
    "choose_resume",
    "compare_numbers",
    "digest_of",
    "discard_unfinished",
    "list_steps",
    "name_of",
    "read_manifest",
    "stored_padding",
    "verify",
]
