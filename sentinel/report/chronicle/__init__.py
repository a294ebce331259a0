"""Writes the logbook of a run from its journal and streams, as the teams of OPT and BLOOM kept theirs by hand."""
