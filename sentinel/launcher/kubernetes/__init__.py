"""Kubernetes by the names of JobSets: `answers` judges, `template` makes the object, `calls` asks, `jobsets` is the launcher."""
