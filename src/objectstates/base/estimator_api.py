"""What scikit-learn expects of an estimator, without importing it, which takes a second.

``sklearn.base.clone``, ``sklearn.utils.validation.check_is_fitted`` and searches over parameters
work as with ``sklearn.base.BaseEstimator``.
"""

from __future__ import annotations

import sys
from dataclasses import MISSING, Field, fields
from typing import TYPE_CHECKING, Any, Self, cast

from objectstates.base.errors import SettingError


class NotFittedError(SettingError, AttributeError):
    """The estimator was used before it was fitted."""


def not_fitted_error(estimator: object) -> NotFittedError:
    """Where scikit-learn is imported, it is also a ``sklearn.exceptions.NotFittedError``."""
    kind: Any = NotFittedError
    if theirs := sys.modules.get("sklearn.exceptions"):
        kind = type("NotFittedError", (NotFittedError, theirs.NotFittedError), {})
    name = type(estimator).__name__
    message = f"This {name} instance is not fitted yet: call fit first, or load a result"
    return cast(NotFittedError, kind(message))


class Estimator:
    """Base of a dataclass whose fields are the parameters of an estimator."""

    if TYPE_CHECKING:  # what is learned, whose names end in ``_``

        def __getattr__(self, name: str) -> Any: ...

        def __setattr__(self, name: str, value: Any) -> None: ...

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters by name, in the order of the names; ``deep`` changes nothing."""
        del deep
        return {field.name: getattr(self, field.name) for field in self._parameters()}

    def set_params(self, **parameters: Any) -> Self:
        """Set parameters, and return the estimator."""
        known = [field.name for field in self._parameters()]
        for name, value in parameters.items():
            if name not in known:
                raise SettingError(
                    f"Invalid parameter {name!r} for estimator {self!r}: there are "
                    f"{', '.join(known)}"
                )
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        """The parameters that are not their defaults."""
        changed = {
            field.name: value
            for field in self._parameters()
            if (value := getattr(self, field.name)) != field.default or field.default is MISSING
        }
        return f"{type(self).__name__}({', '.join(f'{k}={v!r}' for k, v in changed.items())})"

    def __sklearn_tags__(self) -> Any:
        """It learns without targets, and not from an array."""
        from sklearn.utils import InputTags, Tags, TargetTags

        return Tags(
            estimator_type=None,
            target_tags=TargetTags(required=False),
            transformer_tags=None,
            regressor_tags=None,
            classifier_tags=None,
            no_validation=True,
            input_tags=InputTags(two_d_array=False),
        )

    def _parameters(self) -> list[Field[Any]]:
        return sorted(fields(self), key=lambda field: field.name)  # type: ignore[arg-type]
