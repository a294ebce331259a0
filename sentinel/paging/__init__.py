"""Telling a person. One module per channel; the page's words are decided by the engine and only delivered here."""
