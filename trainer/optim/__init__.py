"""The update of the model: gradients measured and clipped, a gate, the fp16 loss scale, and AdamW over this rank's shards."""

from .adamw import Hyperparameters
from .sharded_adamw import ShardedAdamW

__all__ = ["Hyperparameters", "ShardedAdamW"]
