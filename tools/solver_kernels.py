"""Compile the kernels of a fit in memory: ``python -m tools.solver_kernels``.

It solves a tiny problem with random features. Unlike ``tools.compile_kernels`` it needs the
packages of the solver alone (numpy, scipy, numba), which ``kernel_hook.py`` installs where the
package is built.
"""

from __future__ import annotations

import numpy as np

from objectstates.base.choices import SideName
from objectstates.solver.cost import factored
from objectstates.solver.frank_wolfe import minimise
from objectstates.solver.in_memory import InMemoryProblem
from objectstates.solver.oracle import one_row, ordered_states
from objectstates.solver.problem import JointProblem, make_side

CLIPS, ROWS = 3, 6  # clips, and rows of each side in a clip
SIZES: dict[SideName, int] = {"action": 2, "state": 24}
"""Features of a row: fewer than there are rows, and more, which are factored differently."""


def main() -> None:
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
