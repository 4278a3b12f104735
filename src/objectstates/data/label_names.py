"""What a user calls the two states and the action, such as closed, opening, open."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from objectstates.base.errors import SettingError

LONGEST = 60  # characters of a name


@dataclass(frozen=True)
class LabelNames:
    """Names to show in place of "state 1", "action" and "state 2".

    >>> names = LabelNames.of(states="closed,open")
    >>> names.state_1, names.action, names["state_2"], names.state_number("open")
    ('closed', 'action', 'open', 2)
    """

    state_1: str = "state 1"
    action: str = "action"
    state_2: str = "state 2"

    def __post_init__(self) -> None:
        for name in (self.state_1, self.action, self.state_2):
            if not isinstance(name, str) or not name.strip() or not name.isprintable():
                raise SettingError(f"{name!r} is no name: use printable text on one line")
            if len(name) > LONGEST:
                raise SettingError(f"the name {name[:20]!r}... is longer than {LONGEST} characters")
        if len({self.state_1, self.action, self.state_2}) < 3:
            raise SettingError(
                "`states` and `action` must be three different names, not "
                f"{self.state_1!r}, {self.action!r}, {self.state_2!r}"
            )

    @classmethod
    def of(cls, states: str | Sequence[str] | None = None, action: str | None = None) -> LabelNames:
        """From the settings: ``states`` such as "closed,open", ``action`` such as "opening"."""
        given: dict[str, str] = {}
        if states is not None:
            parts = states.split(",") if isinstance(states, str) else list(states)
            if len(parts) != 2:
                raise SettingError(f"`states` must be two names, such as closed,open, not {states}")
            given["state_1"], given["state_2"] = (str(part).strip() for part in parts)
        if action is not None:
            given["action"] = action.strip()
        return cls(**given)

    def __getitem__(self, label: str) -> str:
        """The name of "state_1", "action" or "state_2"."""
        return self.to_json()[label]

    def label(self, label: str) -> str:
        """The name of "state_1", "action" or "state_2", or the label itself if none was given.

        >>> LabelNames().label("state_1"), LabelNames.of(action="opening").label("action")
        ('state_1', 'opening')
        """
        return label if self[label] == LabelNames()[label] else self[label]

    def of_state(self, state: int) -> str:
        """The name of state 1 or 2; "no state" for 0."""
        return ("no state", self.state_1, self.state_2)[state]

    def state_number(self, text: str) -> int | None:
        """1 or 2 from the number or the name of a state; None for any other text."""
        known = {"1": 1, "2": 2, self.state_1.casefold(): 1, self.state_2.casefold(): 2}
        return known.get(text.strip().casefold())

    def to_json(self) -> dict[str, str]:
        """For the header of a result."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: Any) -> LabelNames:
        """Raise TypeError or ValueError unless ``values`` is what :meth:`to_json` returned."""
        return cls(**values)
