"""Films manipulations in a simulator, with exact truth: ``python -m benchmarks.simulated``."""
