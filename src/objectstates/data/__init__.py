"""Clips, corpora, results and ground truth, in memory and on disk; nothing that computes them."""
