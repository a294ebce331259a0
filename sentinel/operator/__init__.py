"""What people ask of a run, from whichever surface: the request, its answer, and the run that nobody supervises."""
