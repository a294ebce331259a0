"""Turns readings into verdicts and findings: one file for each phenomenon. Others use `bank.DetectorBank` alone."""
