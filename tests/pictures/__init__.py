"""`make pictures`: every picture of the documents, made anew from two real runs. `__main__` is the verb."""
