"""The settings of a training run. `sections` says what there is; `loading` reads them from presets, YAML files and --set."""

from .sections import Config

__all__ = ["Config"]
