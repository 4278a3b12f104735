"""Compile the kernels of a fit in memory, and the largest one of ingestion.

``python -m tools.light_kernels`` solves a tiny problem with random features. Unlike
``tools.compile_kernels`` it needs numpy, scipy and numba alone, which are installed where the
package is built (``kernel_hook.py``).
"""

from __future__ import annotations

import numpy as np

from objectstates.base.choices import SideName
from objectstates.features.lasting_pieces import StepLimits, find_steps
from objectstates.solver.cost import factored
from objectstates.solver.frank_wolfe import minimise
from objectstates.solver.in_memory import InMemoryProblem
from objectstates.solver.oracle import one_row, ordered_states
from objectstates.solver.problem import JointProblem, make_side

CLIPS, ROWS = 3, 6  # clips, and rows of each side in a clip
SIZES: dict[SideName, int] = {"action": 2, "state": 24}
"""Features of a row: fewer than there are rows, and more, which are factored differently."""


def main() -> None:
    fit()
    frames, exposure = np.zeros((9, 4, 4, 3), np.uint8), np.zeros((9, 3), np.float32)
    find_steps(frames, exposure, StepLimits(half=8.0, least=4.0, tie=0.5))


def fit() -> None:
    """Solve a problem, and learn from its labels."""
    rng = np.random.default_rng(0)
    offsets = ROWS * np.arange(CLIPS + 1)
    start = np.tile(np.arange(float(ROWS)), CLIPS)
    n_rows = len(start)
    action = one_row(offsets, linear=np.zeros((n_rows, 1)), times=start + 0.5)
    state = ordered_states(start, start + 1, offsets, linear=np.zeros((n_rows, 2)))
    sides = {
        side: factored(rng.standard_normal((n_rows, size)), 1e-2) for side, size in SIZES.items()
    }
    joint = JointProblem(
        make_side(sides["action"].cost, action), make_side(sides["state"].cost, state), nu=1.0
    )
    problem = InMemoryProblem(joint, lambda side, *given: sides[side].classifier(*given))
    minimise(problem, max_passes=60)
    rounding = problem.kept_rounding()
    problem.learn("action", rounding.action)
    problem.learn("state", rounding.state)


if __name__ == "__main__":
    main()
