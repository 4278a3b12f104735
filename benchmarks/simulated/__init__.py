"""Renders simulated manipulations with exact truth: ``python -m benchmarks.simulated``."""
