"""The decoder GPT. `sizes` knows it from its settings alone, without torch; `gpt` is the model itself.

Nothing is imported here, so that --check answers at once.
"""
