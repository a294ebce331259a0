"""Describes a run for people and programs: status, incidents, lineage, logs, reports. Read from its directory alone."""
