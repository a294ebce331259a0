"""What each op means, in plain torch: the specification the kernels are tested against, and what runs where nothing is built."""
