"""Benchmarks of retrieval and discovery on simulated narrated videos."""
