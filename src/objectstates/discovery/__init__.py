"""The estimator: from a corpus to a result. No optimisation, which is in ``solver/``."""
