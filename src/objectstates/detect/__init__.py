"""Detectors: from frames to boxes with scores, one file per kind; no tracking."""
