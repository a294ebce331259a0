"""Shipped remediation policies, as package data: read them with `importlib.resources.files("policies")`."""
