"""Reads policy files with line numbers, checks and explains them. The language itself is `sentinel.policy`."""
