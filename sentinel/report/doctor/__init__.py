"""`sentinel doctor`: what is seen of a run that exists, what is not and why, and the remedy of each."""
