"""Triton kernels against the functions of ``batched_torch.py``; interpreted without a GPU."""

import numpy as np
import pytest

from objectstates.solver.oracle import one_row
from tests.solver.backends import device_name
from tests.solver.problems import random_constraints

torch = pytest.importorskip("torch", reason="needs the extra torch")
DEVICE = device_name()  # before kernels are defined, which may be interpreted
pytest.importorskip("triton", reason="Triton is not part of torch everywhere")

from objectstates.solver.scale import batched_torch, triton_kernels  # noqa: E402


@pytest.mark.parametrize("n_states", [1, 2])
@pytest.mark.parametrize("shape", [(70, 12), (300, 128), (1500, 600), (5, 1), (0, 4), (0, 0)])
def test_products_are_those_of_float64(shape, n_states):
    rng = np.random.default_rng(0)
    rows = torch.as_tensor(rng.standard_normal(shape).astype(np.float32), device=DEVICE)
    labels = rng.standard_normal((shape[0], n_states)) * (rng.random((shape[0], 1)) < 0.7)
    labels = torch.as_tensor(labels, device=DEVICE)
    sums = torch.as_tensor(rng.standard_normal((n_states, 1 + shape[1])), device=DEVICE)
    for name, given in (("scores", sums), ("factor_sums", labels)):
        found = getattr(triton_kernels, name)(rows, 0.1, given)
        expected = getattr(batched_torch, name)(rows, 0.1, given)
        assert found.shape == expected.shape
        assert found.cpu().numpy() == pytest.approx(expected.cpu().numpy(), abs=1e-11)


@pytest.mark.filterwarnings("ignore:invalid value encountered in multiply")  # 0 inf, not used
@pytest.mark.parametrize("exactly_one", [False, True])
@pytest.mark.parametrize("pairwise", [False, True])
def test_steps_of_more_clips_than_a_warp_has_threads(exactly_one, pairwise):
    """From the same flows at the same scores, for action and states in turn.

    One step at a time: after it labellings are equal but for rounding, which chooses among them.
    """
    rng = np.random.default_rng(1)
    sizes = rng.integers(4, 9, 35)
    state = random_constraints(rng, tuple(sizes), forbid=0.1, exactly_one=exactly_one)
    offsets = np.concatenate([[0], np.cumsum(rng.integers(2, 6, 35))])
    times = rng.uniform(0, 7, offsets[-1])
    action = one_row(offsets, linear=np.zeros((offsets[-1], 1)), times=times)
    batches = [batched_torch.batch_clips(side, np.arange(35), DEVICE) for side in (action, state)]
    flows = []
    for batch in batches:
        allowed = torch.where(batch.linear.isinf(), batch.linear, 0.0)
        flows.append(batched_torch.cheapest_paths(allowed, batch.before, batch.blocked)[1])
    weights = torch.as_tensor([3.0, 0.2], dtype=torch.float64, device=DEVICE)
    for _ in range(4):
        for k, (batch, side) in enumerate(zip(batches, (action, state), strict=True)):
            name = "state_distortion" if k else "action_distortion"
            other = batched_torch.labels_of(flows[1 - k])
            scores = torch.as_tensor(rng.standard_normal(side.linear.shape), device=DEVICE)
            results = []
            for kernels in (triton_kernels, batched_torch):
                flow = flows[k].clone()
                distortion = getattr(kernels, name)(batches[1], batches[0], other)
                changes, sums = kernels.frank_wolfe_steps(
                    batch, scores, distortion, flow, weights=weights, steps=1, pairwise=pairwise
                )
                results.append([distortion, changes, sums, flow])
            for found, expected in zip(*results, strict=True):
                assert found.cpu().numpy() == pytest.approx(expected.cpu().numpy(), abs=1e-9)
            flows[k] = results[1][3]
