"""Shipped remediation policies, as package data. Sentinel finds them beside its own package (`policy_files.loading.SHIPPED`)."""
