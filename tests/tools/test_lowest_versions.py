"""The lowest versions that are declared are those that are tested."""

import pytest

from tools.lowest_versions import lowest


def test_bounds_become_pins():
    declared = ["numpy>=1.26", "av>=17.1,<19", "weights==0.1.0", "mkdocstrings[python] >= 0.26"]
    assert lowest(declared) == ["numpy==1.26", "av==17.1", "weights==0.1.0", "mkdocstrings==0.26"]


@pytest.mark.parametrize("requirement", ["numpy", "numpy<2", "numpy~=1.26"])
def test_a_dependency_without_a_lower_bound_is_an_error(requirement):
    with pytest.raises(ValueError, match="states no lowest version"):
        lowest([requirement])
