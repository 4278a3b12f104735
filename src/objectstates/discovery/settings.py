"""The settings of a discovery: which values each parameter may have, and which combinations."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, Protocol, get_args

from objectstates.base.choices import (
    ConstraintName,
    Labelling,
    OnInfeasible,
    Reject,
    Solver,
    Target,
    TimeUnit,
)
from objectstates.base.errors import SettingError


class Rule(Protocol):
    """Which values a parameter may have; ``str`` completes "must be ..."."""

    def allows(self, value: Any) -> bool: ...


@dataclass(frozen=True)
class Number:
    """A finite number from ``least`` on, or above it."""

    least: float
    above: bool = False

    def allows(self, value: Any) -> bool:
        number = _as_float(value, Real)
        return self.least <= number < math.inf and not (self.above and number == self.least)

    def __str__(self) -> str:
        return f"a number {'above' if self.above else 'of at least'} {self.least:g}"


@dataclass(frozen=True)
class Whole:
    """An integer from ``least`` on; None too if ``optional``."""

    least: int
    optional: bool = False

    def allows(self, value: Any) -> bool:
        if value is None:
            return self.optional
        return self.least <= _as_float(value, Integral) < math.inf

    def __str__(self) -> str:
        return f"a whole number of at least {self.least}"


@dataclass(frozen=True)
class OneOf:
    """One of the values of a ``Literal``."""

    choices: Any

    def allows(self, value: Any) -> bool:
        return value in get_args(self.choices)

    def __str__(self) -> str:
        return f"one of {', '.join(get_args(self.choices))}"


RULES: Mapping[str, Rule] = {
    "nu": Number(0),
    "detection_weight": Number(0),
    "mu": Number(0, above=True),
    "lam": Number(0, above=True),
    "tol": Number(0, above=True),
    "max_passes": Whole(1),
    "restarts": Whole(1),
    "seed": Whole(0),
    "reduce": Whole(1, optional=True),
    "constraint": OneOf(ConstraintName),
    "target": OneOf(Target),
    "solver": OneOf(Solver),
    "time_unit": OneOf(TimeUnit),
    "labelling": OneOf(Labelling),
    "on_infeasible": OneOf(OnInfeasible),
    "reject": OneOf(Reject),
}
_OUT_OF_CORE: Mapping[str, Rule] = {"shards": Whole(1, optional=True), "processes": Whole(0)}


def check_settings(settings: Mapping[str, Any]) -> None:
    """Raise :class:`SettingError` for the first parameter with a value that makes no sense."""
    _check(RULES, settings)
    if settings["reject"] == "auto" and settings["labelling"] != "held_out":
        raise SettingError(
            "`reject` 'auto' needs `labelling` 'held_out': scores of a classifier that was learned "
            "on a clip do not tell whether it is like the others"
        )


def check_in_memory(settings: Mapping[str, Any]) -> None:
    """The same for combinations that a fit in memory excludes."""
    if settings["reduce"] is not None and settings["device"] != "cpu":
        raise SettingError(
            "`device`: in memory, features are reduced on the CPU: use cpu, or fit out of core "
            "(fit_folder)"
        )


def check_out_of_core(
    settings: Mapping[str, Any], shards: int | None, processes: int, ray_address: str | None
) -> int:
    """The same for :meth:`JointDiscovery.fit_folder`; the number of shards."""
    _check(_OUT_OF_CORE, {"shards": shards, "processes": processes})
    if settings["reject"] != "none":
        raise SettingError("`reject`: clips cannot be rejected out of core")
    if settings["device"] != "cpu" and ray_address is not None:
        raise SettingError("`device`: shards on a Ray cluster run on its CPUs: use cpu")
    return max(int(processes), 1) if shards is None else int(shards)


def _check(rules: Mapping[str, Rule], settings: Mapping[str, Any]) -> None:
    for name, rule in rules.items():
        if not rule.allows(settings[name]):
            raise SettingError(f"`{name}` must be {rule}, not {settings[name]!r}")


def _as_float(value: Any, kind: type[Any]) -> float:
    """A setting as a float; NaN, which no bound admits, where it is not of this kind."""
    if isinstance(value, bool) or not isinstance(value, kind):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.inf
