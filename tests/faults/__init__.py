"""Disturbed runs and bad input: the long selections run by ``make torture``."""
