"""Readers of other projects' files, as corpora or ground truth; ours is ``corpus_io.py``."""
