"""The nouns of Sentinel: frozen dataclasses and closed unions, standard library only, no behaviour beyond their own shape."""
