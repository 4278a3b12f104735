"""The optimisation problem on arrays: costs, constraints, Frank-Wolfe, rounding. No corpora."""
