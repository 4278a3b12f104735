"""What a user calls the states and actions, such as closed, opening, open."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from objectstates.base.errors import SettingError
from objectstates.data.clips import MAX_STATES

LONGEST = 60  # characters of a name


@dataclass(frozen=True)
class LabelNames:
    """Names to show in place of "state 1", "action", "state 2" and so on.

    Two states of a chain with the same name look alike, such as the first and the last of
    closed, open, closed: they share a classifier (`pattern`).

    >>> names = LabelNames.of(states="closed,open")
    >>> names.state_1, names.action, names["state_2"], names.state_number("open")
    ('closed', 'action', 'open', 2)
    >>> LabelNames.of(states="closed,open,closed", action="opening,closing").pattern
    'ABA'
    """

    states: tuple[str, ...] = ("state 1", "state 2")
    actions: tuple[str, ...] = ("action",)

    def __post_init__(self) -> None:
        for name in (*self.states, *self.actions):
            if not isinstance(name, str) or not name.strip() or not name.isprintable():
                raise SettingError(f"{name!r} is no name: use printable text on one line")
            if len(name) > LONGEST:
                raise SettingError(f"the name {name[:20]!r}... is longer than {LONGEST} characters")
        if not 2 <= len(self.states) <= MAX_STATES or len(self.states) != len(self.actions) + 1:
            raise SettingError(
                f"{len(self.states)} names in `states` need {len(self.states) - 1} in `action`, "
                f"not {len(self.actions)}"
            )
        alike = any(one == other for one, other in pairwise(self.states))
        repeated = len(set(self.actions)) < len(self.actions) or {*self.states} & {*self.actions}
        if alike or repeated:
            raise SettingError(
                "`states` and `action` must be different names (a state may come back later in a "
                f"chain), not {', '.join(map(repr, self.labels.values()))}"
            )

    @classmethod
    def usual(cls, changes: int = 1) -> LabelNames:
        """The names where the user gave none.

        >>> LabelNames.usual(2).actions
        ('action 1', 'action 2')
        """
        if changes == 1:
            return cls()
        states = tuple(f"state {k + 1}" for k in range(changes + 1))
        return cls(states, tuple(f"action {k + 1}" for k in range(changes)))

    @classmethod
    def of(
        cls,
        states: str | Sequence[str] | None = None,
        action: str | Sequence[str] | None = None,
        changes: int | None = None,
    ) -> LabelNames:
        """From the settings: ``states`` such as "closed,open", ``action`` such as "opening".

        changes : how many there are, if that is known; else as many as there are names.
        """
        of_states, of_actions = _names(states), _names(action)
        count = changes
        if count is None:
            count = len(of_states) - 1 if of_states else len(of_actions) or 1
        if not 1 <= count < MAX_STATES:
            raise SettingError(f"`states` must be 2 to {MAX_STATES} names, such as closed,open")
        usual = cls.usual(count)
        for name, given, wanted in (
            ("states", of_states, count + 1),
            ("action", of_actions, count),
        ):
            if given and len(given) != wanted:
                raise SettingError(
                    f"`{name}` must be {wanted} names for {count} change{'s' * (count > 1)}, such "
                    f"as {'closed,open' if name == 'states' else 'opening'}, not {','.join(given)}"
                )
        return cls(of_states or usual.states, of_actions or usual.actions)

    @classmethod
    def of_change(cls, **given: str) -> LabelNames:
        """Of one change, from ``state_1``, ``action`` and ``state_2``; the usual by default."""
        names = {**cls().to_json(), **given}
        return cls((names.pop("state_1"), names.pop("state_2")), (names.pop("action"), *names))

    def change(self, k: int) -> LabelNames:
        """Those of action k (from 0) and the states before and after it."""
        return LabelNames(self.states[k : k + 2], self.actions[k : k + 1])

    @property
    def state_1(self) -> str:
        return self.states[0]

    @property
    def state_2(self) -> str:
        return self.states[1]

    @property
    def action(self) -> str:
        """Of the only action, or the first."""
        return self.actions[0]

    @property
    def pattern(self) -> str | None:
        """Which states look alike, such as "ABA"; None if all differ."""
        if len(set(self.states)) == len(self.states):
            return None
        seen = list(dict.fromkeys(self.states))
        return "".join(chr(ord("A") + seen.index(name)) for name in self.states)

    @property
    def labels(self) -> Mapping[str, str]:
        """Names by label, in order: state_1, action, state_2; in a chain state_1, action_1, ..."""
        chain = len(self.actions) > 1
        found = {"state_1": self.states[0]}
        for k, name in enumerate(self.actions, start=1):
            found[f"action_{k}" if chain else "action"] = name
            found[f"state_{k + 1}"] = self.states[k]
        return found

    def __getitem__(self, label: str) -> str:
        """The name of "state_1", "action", "state_2" and so on."""
        return self.labels[label]

    def label(self, label: str) -> str:
        """The name of a label, or the label itself if none was given.

        >>> LabelNames().label("state_1"), LabelNames.of(action="opening").label("action")
        ('state_1', 'opening')
        """
        usual = LabelNames.usual(len(self.actions))
        return label if self[label] == usual[label] else self[label]

    def of_state(self, state: int) -> str:
        """The name of state 1, 2 and so on; "no state" for 0."""
        return ("no state", *self.states)[state]

    def state_number(self, text: str) -> int | None:
        """From the number or the name of a state; None for any other text, or a repeated name."""
        wanted = text.strip().casefold()
        found = [
            k for k, name in enumerate(self.states, start=1) if wanted in (str(k), name.casefold())
        ]
        return found[0] if len(found) == 1 else None

    def action_number(self, text: str) -> int | None:
        """From the number or the name of an action, or nothing where there is one; else None.

        >>> LabelNames().action_number(""), LabelNames.usual(2).action_number("")
        (1, None)
        """
        wanted = text.strip().casefold()
        if not wanted and len(self.actions) == 1:
            return 1
        for k, name in enumerate(self.actions, start=1):
            if wanted in (str(k), name.casefold()):
                return k
        return None

    def to_json(self) -> dict[str, Any]:
        """For the header of a result."""
        if len(self.actions) == 1:
            return {"state_1": self.state_1, "action": self.action, "state_2": self.state_2}
        return {"states": list(self.states), "actions": list(self.actions)}

    @classmethod
    def from_json(cls, values: Any) -> LabelNames:
        """Raise TypeError or ValueError unless ``values`` is what :meth:`to_json` returned."""
        if isinstance(values, dict) and set(values) == {"states", "actions"}:
            return cls(tuple(values["states"]), tuple(values["actions"]))
        if not isinstance(values, dict) or not set(values) <= {"state_1", "action", "state_2"}:
            raise TypeError("the names are not those of states and actions")
        return cls.of_change(**values)


def classes_of(pattern: str | None, n_states: int) -> npt.NDArray[np.int64]:
    """(K,) the column of the classifier of each state, from a pattern such as "ABA".

    >>> classes_of("ABA", 3).tolist(), classes_of(None, 3).tolist()
    ([0, 1, 0], [0, 1, 2])
    """
    letters = pattern or "".join(chr(ord("A") + k) for k in range(n_states))
    seen = list(dict.fromkeys(letters))
    return np.array([seen.index(letter) for letter in letters], np.int64)


def _names(given: str | Sequence[str] | None) -> tuple[str, ...]:
    if given is None:
        return ()
    parts = given.split(",") if isinstance(given, str) else list(given)
    return tuple(str(part).strip() for part in parts)
