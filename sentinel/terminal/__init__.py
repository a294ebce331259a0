"""Shows a run on the terminal: plain lines, or a live view where the terminal can draw one."""
