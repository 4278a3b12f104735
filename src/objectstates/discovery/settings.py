"""The settings of a discovery, which values each may have, and which combinations."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from itertools import pairwise
from numbers import Integral, Real
from typing import Any, Literal, NamedTuple, get_args

import numpy as np

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
from objectstates.data.clips import MAX_STATES

MOST = 2**32  # of whole numbers: seeds of all libraries are below it


@dataclass(eq=False, repr=False)
class Settings:
    """The parameters of :class:`~objectstates.JointDiscovery`, which describes them."""

    nu: float = 3.0
    mu: float = 1e-4
    lam: float = 1e-2
    detection_weight: float = 0.0
    time_unit: TimeUnit = "clip"
    labelling: Labelling = "held_out"
    reject: Reject = "none"
    constraint: ConstraintName = "at_least_one"
    target: Target = "joint"
    changes: int | Literal["auto"] = 1
    optional: tuple[int, ...] = ()
    price: float = 0.55
    pattern: str | None = None
    solver: Solver = "block"
    tol: float = 0.01
    max_passes: int = 500
    restarts: int | None = None
    seed: int = 0
    reduce: int | None = None
    verdict: bool = True
    on_infeasible: OnInfeasible = "skip"
    device: str = "cpu"

    def as_json(self) -> dict[str, Any]:
        """The parameters in order of declaration, without NumPy scalars."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        values["optional"] = list(map(int, self.optional))
        return {k: v.item() if isinstance(v, np.generic) else v for k, v in values.items()}


class Rule(NamedTuple):
    """Which values a parameter may have: "must be ...", and whether one does."""

    text: str
    allows: Callable[[Any], bool]


def _number(least: float) -> Rule:
    return Rule(
        f"a number of at least {least:g}", lambda value: least <= _as_float(value, Real) < math.inf
    )


def _positive() -> Rule:
    return Rule("a number above 0", lambda value: 0 < _as_float(value, Real) < math.inf)


def _whole(least: int, *, optional: bool = False) -> Rule:
    return Rule(
        f"a whole number of at least {least} and below 2^32",
        lambda value: (optional and value is None) or least <= _as_float(value, Integral) < MOST,
    )


def _one_of(choices: Any) -> Rule:
    values = get_args(choices)
    return Rule(f"one of {', '.join(values)}", lambda value: value in values)


CHANGES = Rule(
    f"a whole number from 1 to {MAX_STATES - 1}, or auto",
    lambda value: value == "auto" or 1 <= _as_float(value, Integral) < MAX_STATES,
)
RULES: Mapping[str, Rule] = {
    "nu": _number(0),
    "detection_weight": _number(0),
    "mu": _positive(),
    "lam": _positive(),
    "tol": _positive(),
    "max_passes": _whole(1),
    "restarts": _whole(1, optional=True),
    "seed": _whole(0),
    "reduce": _whole(1, optional=True),
    "constraint": _one_of(ConstraintName),
    "target": _one_of(Target),
    "solver": _one_of(Solver),
    "time_unit": _one_of(TimeUnit),
    "labelling": _one_of(Labelling),
    "on_infeasible": _one_of(OnInfeasible),
    "reject": _one_of(Reject),
    "changes": CHANGES,
    "optional": Rule(
        "numbers of actions, such as (2,)",
        lambda value: (
            isinstance(value, tuple | list)
            and all(1 <= _as_float(number, Integral) < MAX_STATES for number in value)
        ),
    ),
    "price": _number(0),
    "pattern": Rule(
        "letters, one per state, such as ABA; or none",
        lambda value: (
            value is None or (isinstance(value, str) and value.isalpha() and value.isascii())
        ),
    ),
    "verdict": Rule("true or false", lambda value: isinstance(value, bool)),
}
_OUT_OF_CORE: Mapping[str, Rule] = {"shards": _whole(1, optional=True), "processes": _whole(0)}


def check_settings(settings: Mapping[str, Any]) -> None:
    """Raise :class:`SettingError` for the first parameter with a value that makes no sense."""
    _check(RULES, settings)
    if settings["reject"] == "auto" and settings["labelling"] != "held_out":
        raise SettingError(
            "`reject` 'auto' needs `labelling` 'held_out': scores of a classifier that was learned "
            "on a clip do not tell whether it is like the others"
        )
    _check_chain(settings)


def _check_chain(settings: Mapping[str, Any]) -> None:
    pattern = settings["pattern"]
    if settings["changes"] == "auto":
        if pattern is not None or settings["optional"]:
            raise SettingError("`changes` auto: give a number with `optional` and `pattern`")
        if settings["target"] == "state":
            raise SettingError("`changes` auto: actions are compared, which `target` leaves out")
        return
    changes = int(settings["changes"])
    if settings["optional"] and settings["target"] != "joint":
        raise SettingError("`optional`: a missing step is found by both sides: use `target` joint")
    beyond = [number for number in settings["optional"] if number > changes]
    if beyond:
        raise SettingError(f"`optional`: there is no action {beyond[0]}: `changes` is {changes}")
    if len(set(settings["optional"])) == changes and changes:
        raise SettingError("`optional`: one action at least must be in every clip")
    if pattern is not None and len(pattern) != changes + 1:
        raise SettingError(
            f"`pattern` {pattern!r} must have {changes + 1} letters, one per state: `changes` is "
            f"{changes}"
        )
    if pattern is not None and any(one == other for one, other in pairwise(pattern)):
        raise SettingError(f"`pattern` {pattern!r}: a state must look unlike the one before it")
    if settings["device"] != "cpu" and (changes > 1 or settings["optional"]):
        raise SettingError("`device`: chains of changes are solved on the CPU: use cpu")


def check_in_memory(settings: Mapping[str, Any]) -> None:
    """The same for combinations that a fit in memory excludes."""
    if settings["reduce"] is not None and settings["device"] != "cpu":
        raise SettingError(
            "`device`: in memory, features are reduced on the CPU: use cpu, or fit out of core "
            "(`out_of_core`; in Python `fit_folder`)"
        )


def check_out_of_core(
    settings: Mapping[str, Any], shards: int | None, processes: int, ray_address: str | None
) -> int:
    """The same for :meth:`JointDiscovery.fit_folder`; the number of shards."""
    _check(_OUT_OF_CORE, {"shards": shards, "processes": processes})
    if settings["reject"] != "none":
        raise SettingError("`reject`: clips cannot be rejected out of core: leave it out")
    if settings["device"] != "cpu" and ray_address is not None:
        raise SettingError("`device`: shards on a Ray cluster run on its CPUs: use cpu")
    return max(int(processes), 1) if shards is None else int(shards)


def _check(rules: Mapping[str, Rule], settings: Mapping[str, Any]) -> None:
    for name, rule in rules.items():
        if not rule.allows(settings[name]):
            raise SettingError(f"`{name}` must be {rule.text}, not {settings[name]!r}")


def _as_float(value: Any, kind: type[Any]) -> float:
    """A setting as a float; NaN, which no bound admits, where it is not of this kind."""
    if isinstance(value, bool) or not isinstance(value, kind):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.inf
