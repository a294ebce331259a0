"""Other people's trainers, unchanged: a profile says where their numbers and checkpoints lie and which flags change what."""
