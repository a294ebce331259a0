"""What a person or a program asks of a run: its status, its incidents, its report. Read from the journal, never guessed."""
