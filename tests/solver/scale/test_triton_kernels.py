"""The kernels for a GPU must do what the same functions do as torch tensors.

Where there is no GPU but Triton, its interpreter runs them, on the same numbers.
"""

import os

import numpy as np
import pytest

from objectstates.solver.oracle import one_row
from tests.solver.problems import random_constraints

torch = pytest.importorskip("torch", reason="needs the extra torch")
if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"  # read when kernels are defined
pytest.importorskip("triton", reason="Triton is not part of torch everywhere")

from objectstates.solver.scale import batched_torch as padded  # noqa: E402
from objectstates.solver.scale import triton_kernels as gpu_kernels  # noqa: E402

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@pytest.mark.parametrize("n_states", [1, 2])
@pytest.mark.parametrize("shape", [(70, 12), (300, 128), (1500, 600), (5, 1)])
def test_products_are_those_of_float64(shape, n_states):
    rng = np.random.default_rng(0)
    rows = torch.as_tensor(rng.standard_normal(shape).astype(np.float32), device=DEVICE)
    labels = rng.standard_normal((shape[0], n_states)) * (rng.random((shape[0], 1)) < 0.7)
    labels = torch.as_tensor(labels, device=DEVICE)
    whole = torch.as_tensor(rng.standard_normal((n_states, 1 + shape[1])), device=DEVICE)
    for name, given in (("scores", whole), ("sums", labels)):
        found = getattr(gpu_kernels, name)(rows, 0.1, given)
        expected = getattr(padded, name)(rows, 0.1, given)
        assert found.shape == expected.shape
        assert found.cpu().numpy() == pytest.approx(expected.cpu().numpy(), abs=1e-11)


@pytest.mark.filterwarnings("ignore:invalid value encountered in multiply")  # 0 inf, not used
@pytest.mark.parametrize("exactly_one", [False, True])
@pytest.mark.parametrize("pairwise", [False, True])
def test_visits_are_those_of_tensors(exactly_one, pairwise):
    """From the same flows by the same scores, visit after visit, action and states in turn.

    One step each: after it labellings are equal but for rounding, which chooses between them.
    """
    rng = np.random.default_rng(1)
    sizes = rng.integers(4, 9, 35)  # more clips than a warp has threads
    state = random_constraints(rng, tuple(sizes), forbid=0.1, exactly_one=exactly_one)
    offsets = np.concatenate([[0], np.cumsum(rng.integers(2, 6, 35))])
    action = one_row(
        offsets, linear=np.zeros((offsets[-1], 1)), times=rng.uniform(0, 7, offsets[-1])
    )
    sides = [padded.pad(side, np.arange(35), DEVICE) for side in (action, state)]
    flows = []
    for side in sides:
        allowed = torch.where(side.linear.isinf(), side.linear, 0.0)
        flows.append(padded.cheapest_paths(allowed, side.before, side.closed)[1])
    weights = torch.as_tensor([3.0, 0.2], dtype=torch.float64, device=DEVICE)
    for _ in range(8):
        for k, (side, rows) in enumerate(zip(sides, (action.n_rows, state.n_rows), strict=True)):
            pulls = "pulls_on_states" if k else "pulls_on_action"
            other = padded.labels_of(flows[1 - k])
            scores = rng.standard_normal((rows, side.n_states))
            scores = torch.as_tensor(scores, device=DEVICE)
            told = []
            for tools in (gpu_kernels, padded):
                flow = flows[k].clone()
                pull = getattr(tools, pulls)(sides[1], sides[0], other)
                changes, facts = tools.visit(
                    side, scores, pull, flow, weights=weights, steps=1, pairwise=pairwise
                )
                told.append([pull, changes, facts, flow])
            for found, expected in zip(*told, strict=True):
                assert found.cpu().numpy() == pytest.approx(expected.cpu().numpy(), abs=1e-9)
            flows[k] = told[1][3]
