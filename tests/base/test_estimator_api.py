import subprocess
import sys
from dataclasses import dataclass

import pytest
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import NotFittedError as SklearnNotFittedError

from objectstates.base.errors import SettingError
from objectstates.base.estimator_api import Estimator, not_fitted_error


@dataclass(eq=False, repr=False)
class Ours(Estimator):
    width: float
    alpha: float = 1.0
    names: tuple[str, ...] = ()


class Theirs(BaseEstimator):  # type: ignore[misc]
    def __init__(self, width, alpha=1.0, names=()):
        self.width, self.alpha, self.names = width, alpha, names


def test_parameters_are_used_as_in_scikit_learn():
    ours, theirs = Ours(2.0, names=("a",)), Theirs(2.0, names=("a",))
    for model in (ours, theirs):
        assert model.set_params(alpha=3) is model
    assert list(ours.get_params().items()) == list(theirs.get_params().items())
    assert repr(ours) == repr(theirs).replace("Theirs", "Ours")
    copy = clone(ours)
    assert copy is not ours
    assert copy.get_params() == ours.get_params()


def test_a_parameter_that_is_not_known_is_named_with_those_that_are():
    with pytest.raises(SettingError, match=r"'beta' .*alpha, names, width"):
        Ours(1.0).set_params(beta=1)


def test_the_error_can_be_caught_as_scikit_learns():
    with pytest.raises(SklearnNotFittedError, match="This Ours instance is not fitted yet"):
        raise not_fitted_error(Ours(1.0))


def test_scikit_learn_is_not_imported_with_the_estimator():
    script = (
        "import sys; from objectstates import JointDiscovery; sys.exit('sklearn' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
