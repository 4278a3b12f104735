"""The optimisation, on plain arrays: cost, oracle, Frank-Wolfe, rounding. No word of videos."""
