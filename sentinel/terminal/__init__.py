"""The terminal: plain lines, and a live view where there is a terminal. Only shows; decides nothing."""
