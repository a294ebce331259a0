"""All that a machine with a GPU can tell, by one command (`make gpu`), and kept: a failure of one part hides no other."""
