"""Foundations that know nothing of videos or the method: errors, files, cache, geometry, numba."""
