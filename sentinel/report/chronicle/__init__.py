"""The logbook of a run, written from what is on record: the kind of page OPT's and BLOOM's teams kept by hand."""
