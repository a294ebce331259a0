"""A person's requests to a run and their answers, from any surface, also where nobody supervises the run."""
