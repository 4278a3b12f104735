"""From a chance to yes, no or unsure."""

import numpy as np
import pytest

from objectstates.data.success import LIKELY, UNLIKELY, reached_by


@pytest.mark.parametrize(
    ("chance", "said"),
    [(0.0, "no"), (UNLIKELY, "no"), (0.7, "unsure"), (LIKELY, "yes"), (1.0, "yes"), (np.nan, "")],
)
def test_what_a_chance_is_called(chance: float, said: str) -> None:
    assert reached_by(chance) == said
