"""The table of manipulations: bodies, states and camera views.

Names of bodies and joints are Meta-World's. Unnamed ones get a name when a scene is
built: ``<body>_joint`` for a joint, ``<parent>_inner`` for a body.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from objectstates.base.errors import SettingError

Range = tuple[float, float]
Point = tuple[float, float, float]


@dataclass(frozen=True)
class View:
    """Where cameras may be placed. Degrees and metres; azimuth 90 looks along +y, from the robot.

    primary : azimuths of four clips in five; ``secondary`` are those of the others.
    centre : what the camera looks at, from the origin of the object's first body.
    """

    centre: Point
    primary: Range
    secondary: tuple[Range, ...]
    elevation: Range
    distance: Range


@dataclass(frozen=True)
class Manipulation:
    """One task of Meta-World, after which the object looks different.

    noun : the class of the object. Some clips have a second one, a twin, that is never touched.
    states : names of the states before and after.
    whole, part : root bodies of the object, and of the piece that moves.
    separate : the part is an object of its own, and the state is its position (a lid, a mug).
    value : ``joint`` (m or rad) or ``pos`` (xyz of a body, m) and its name.
    least_change : smallest change of the value that counts, in its unit.
    change : the joint's value of the second state less that of the first; 0 if ``separate``.
    travel : change after which the hand releases the object; None to let the policy finish.
    friction : added to the joint (N or Nm), and springs removed, so that it stays in place.
    approach : where the hand goes first, from the origin of the object; None to go straight.
    withdraw : displacements in metres of the hand, in order, before it goes up.
    clearance : height in metres at which the hand passes over everything.
    reach, pace : speeds of the hand, as fractions of the policy's, before and during the action.
    touch_slows : false where slowing down at the first touch would make the grasp fail.
    environment : Meta-World's task with this scene and policy; None: the one of the same name.
    keeps_hold : the hand still holds the part after this step; ``withdraw`` moves both.
    """

    name: str
    action: str
    noun: str
    states: tuple[str, str]
    whole: tuple[str, ...]
    part: tuple[str, ...]
    value: tuple[str, str]
    least_change: float
    view: View
    clearance: float
    pace: Range
    change: float = 0.0
    travel: float | None = None
    friction: float = 0.0
    approach: Point | None = None
    withdraw: tuple[Point, ...] = ()
    separate: bool = False
    reach: Range = (0.5, 1.0)
    touch_slows: bool = True
    environment: str | None = None
    keeps_hold: bool = False

    @property
    def metaworld(self) -> str:
        """Meta-World's name of environment and policy."""
        return f"{self.environment or self.name}-v3"


@dataclass(frozen=True)
class Neighbour:
    """A second object in a scene.

    aside : by how much the first object moves to make room, in metres.
    place : ranges of x, y, z of the second one's body, in metres.
    """

    task: Manipulation
    aside: Point
    place: tuple[Range, Range, Range]


_DRAWER = Manipulation(
    name="drawer-open",
    action="open drawer",
    noun="drawer",
    states=("closed", "open"),
    whole=("drawer",),
    part=("drawer_link",),
    value=("joint", "goal_slidey"),
    least_change=0.12,
    travel=0.145,
    clearance=0.33,
    pace=(0.15, 0.5),
    view=View((0, -0.16, 0.09), (128, 168), ((12, 40),), (-46, -24), (0.95, 1.3)),
    change=-0.158,
    friction=1.0,
)
_DOOR = Manipulation(
    name="door-open",
    action="open door of a safe",
    noun="safe",
    states=("closed", "open"),
    whole=("door",),
    part=("door_link",),
    value=("joint", "doorjoint"),
    least_change=1.0,
    travel=1.28,
    clearance=0.42,
    pace=(0.35, 0.7),
    view=View((-0.08, -0.15, 0), (108, 150), ((18, 38),), (-38, -18), (1.15, 1.5)),
    change=-1.3,
    friction=0.1,
)
_WINDOW = Manipulation(
    name="window-open",
    action="slide window open",
    noun="window",
    states=("closed", "open"),
    whole=("window",),
    part=("windowb_a",),
    value=("joint", "window_slide"),
    least_change=0.17,
    travel=0.19,
    clearance=0.4,
    pace=(0.2, 0.5),
    view=View((0.03, 0, 0), (105, 145), ((215, 240), (300, 325)), (-32, -10), (0.95, 1.25)),
    change=0.197,
    friction=1.0,
)
_FAUCET = Manipulation(
    name="faucet-open",
    action="turn faucet on",
    noun="faucet",
    states=("closed", "open"),
    whole=("faucetBase",),
    part=("faucet_link2",),
    value=("joint", "knob_Joint_1"),
    least_change=1.2,
    travel=1.5,
    clearance=0.36,
    pace=(0.25, 0.7),
    view=View((0, 0, 0.08), (112, 155), ((20, 45), (215, 235)), (-50, -30), (0.72, 0.95)),
    change=1.57,
    friction=0.1,
)
_COFFEE = Manipulation(
    name="coffee-pull",
    action="pull mug out",
    noun="coffee machine",
    states=("mug under machine", "mug away"),
    whole=("coffee_machine",),
    part=("obj",),
    value=("pos", "obj"),
    least_change=0.08,
    clearance=0.38,
    pace=(0.2, 0.5),
    separate=True,
    reach=(0.95, 1.0),
    touch_slows=False,
    view=View((0, -0.16, 0.14), (112, 155), ((22, 42),), (-38, -16), (0.95, 1.25)),
)
_HANDLE = Manipulation(
    name="handle-press",
    action="press handle down",
    noun="handle box",
    states=("up", "down"),
    whole=("box",),
    part=("handle_link",),
    value=("joint", "handle_link_joint"),
    least_change=0.06,
    travel=0.085,
    clearance=0.36,
    pace=(0.12, 0.35),
    view=View((0, -0.08, 0.1), (112, 155), ((22, 45),), (-38, -16), (0.8, 1.1)),
    change=-0.097,
    reach=(0.7, 1.0),
)
_PLATE = Manipulation(
    name="plate-slide",
    action="slide plate into rack",
    noun="rack",
    states=("plate outside", "plate inside"),
    whole=("puck_goal",),
    part=("puck_channel",),
    value=("pos", "puck_channel_inner"),
    least_change=0.15,
    clearance=0.3,
    pace=(0.3, 0.6),
    separate=True,
    view=View((0, -0.14, 0.04), (112, 155), ((22, 45),), (-50, -28), (0.9, 1.2)),
    withdraw=((0, 0, 0.07), (0, -0.22, 0)),
    travel=0.25,
)
_ALL = (
    _DRAWER,
    replace(
        _DRAWER,
        name="drawer-close",
        action="close drawer",
        states=("open", "closed"),
        travel=None,
        change=0.148,
        pace=(0.2, 0.6),
    ),
    _DOOR,
    replace(
        _DOOR,
        name="door-close",
        action="close door of a safe",
        states=("open", "closed"),
        travel=None,
        change=1.29,
    ),
    _WINDOW,
    replace(
        _WINDOW,
        name="window-close",
        action="slide window shut",
        states=("open", "closed"),
        change=-0.195,
    ),
    _FAUCET,
    replace(
        _FAUCET,
        name="faucet-close",
        action="turn faucet off",
        states=("open", "closed"),
        change=-1.57,
        pace=(0.25, 0.7),
    ),
    Manipulation(
        name="box-close",
        action="put lid on box",
        noun="box",
        states=("open", "closed"),
        whole=("boxbody",),
        part=("boxbodytop",),
        value=("pos", "top_link"),
        least_change=0.15,
        clearance=0.32,
        pace=(0.3, 0.5),
        separate=True,
        view=View((0, -0.1, 0.05), (115, 160), ((205, 240), (300, 335)), (-52, -30), (0.85, 1.15)),
    ),
    _COFFEE,
    Manipulation(
        name="lever-pull",
        action="pull lever up",
        noun="lever",
        states=("down", "up"),
        whole=("lever",),
        part=("lever_link1",),
        value=("joint", "LeverAxis"),
        least_change=0.8,
        clearance=0.42,
        pace=(0.3, 0.9),
        view=View((0.05, -0.05, 0.22), (110, 150), ((20, 40),), (-32, -12), (1.0, 1.3)),
        change=-1.57,
        friction=1.5,
        withdraw=((0, -0.12, 0),),
        travel=1.45,
        approach=(0.12, -0.29, 0.12),
    ),
    Manipulation(
        name="dial-turn",
        action="turn dial",
        noun="dial",
        states=("towards robot", "away from robot"),
        whole=("dial",),
        part=("dial_inner",),
        value=("joint", "knob_Joint_1"),
        least_change=1.2,
        clearance=0.3,
        pace=(0.2, 0.5),
        view=View((0, 0, 0.04), (112, 155), ((20, 45),), (-58, -36), (0.6, 0.85)),
        change=-1.56,
    ),
    _HANDLE,
    replace(
        _HANDLE,
        name="handle-pull",
        action="pull handle up",
        states=("down", "up"),
        change=0.1,
        withdraw=((0, -0.12, 0),),
        pace=(0.7, 1.0),
        travel=0.09,
    ),
    _PLATE,
    replace(
        _PLATE,
        name="plate-slide-back",
        action="slide plate out of rack",
        states=("plate inside", "plate outside"),
        travel=0.14,
        least_change=0.1,
        withdraw=(),
        pace=(0.3, 0.7),
    ),
    Manipulation(
        name="door-unlock",
        action="turn lock of a safe",
        noun="safe",
        states=("locked", "unlocked"),
        whole=("door",),
        part=("lock_link",),
        value=("joint", "lock_link_joint"),
        least_change=1.2,
        change=-1.5,
        travel=1.45,
        clearance=0.42,
        pace=(0.08, 0.4),
        withdraw=((0, -0.12, 0),),
        view=View((0, -0.12, 0.02), (100, 140), ((25, 45),), (-34, -12), (0.68, 0.9)),
    ),
    Manipulation(
        name="button-press",
        action="press button in",
        noun="button box",
        states=("out", "in"),
        whole=("box",),
        part=("button",),
        value=("joint", "btnbox_joint"),
        least_change=0.04,
        travel=0.058,
        clearance=0.36,
        pace=(0.03, 0.1),
        view=View((0, -0.08, 0), (120, 165), ((15, 50),), (-38, -16), (0.7, 0.95)),
        change=-0.06,
        friction=2.0,
        withdraw=((0, -0.1, 0),),
    ),
    Manipulation(
        name="assembly",
        action="put ring on peg",
        noun="peg",
        states=("ring beside", "ring on peg"),
        whole=("peg",),
        part=("RoundNut",),
        value=("pos", "RoundNut"),
        least_change=0.12,
        clearance=0.36,
        pace=(0.7, 1.0),
        separate=True,
        view=View((0, -0.1, 0.0), (112, 155), ((22, 50),), (-50, -28), (0.8, 1.1)),
        touch_slows=False,
    ),
)

MANIPULATIONS = {each.name: each for each in _ALL}


def manipulation(name: str) -> Manipulation:
    """The manipulation of this name, or an error that lists all names."""
    try:
        return MANIPULATIONS[name]
    except KeyError:
        raise SettingError(
            f"there is no simulated task {name!r}: choose from {', '.join(MANIPULATIONS)}"
        ) from None
