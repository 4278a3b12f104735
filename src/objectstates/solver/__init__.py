"""The optimisation, on plain arrays: costs, oracle, Frank-Wolfe, rounding. Knows nothing of videos."""
