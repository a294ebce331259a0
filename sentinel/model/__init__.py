"""The nouns of Sentinel: frozen dataclasses and closed unions, without behaviour. Standard library only."""
