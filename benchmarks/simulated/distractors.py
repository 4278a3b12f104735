"""Objects that are never touched: household objects, and twins of the manipulated object."""

from __future__ import annotations

import colorsys
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.simulated.simulator import MESHES, mujoco
from benchmarks.simulated.tasks import Point

Floats = npt.NDArray[np.float64]
Colour = tuple[float, float, float]
Quaternion = tuple[float, float, float, float]

UPRIGHT: Quaternion = (1, 0, 0, 0)
ABOUT_X: Quaternion = (0.70710678, 0.70710678, 0, 0)
ABOUT_Y: Quaternion = (0.70710678, 0, 0.70710678, 0)
GREY: Colour = (0.55, 0.55, 0.55)


@dataclass(frozen=True)
class Shape:
    """One rigid piece of a distractor, in metres from its origin on the table.

    kind : MuJoCo's name of a geometry, such as ``box``; ``mesh`` has a ``mesh`` in place of a size.
    mesh : a file under Meta-World's meshes or, in a twin, the name of a mesh of the scene.
    colour : None for a random one; ``paint`` selects one of the distractor's two random colours.
    material : of the scene, in place of a colour.
    """

    kind: str
    position: Point
    size: tuple[float, ...] = ()
    mesh: str | None = None
    quaternion: Quaternion = UPRIGHT
    colour: Colour | None = None
    paint: int = 0
    material: str | None = None


@dataclass(frozen=True)
class Distractor:
    """An object that is never touched. ``state`` is that of a twin, else None."""

    kind: str
    shapes: tuple[Shape, ...]
    state: str | None = None


def _mesh(file: str, position: Point, **facts: Any) -> Shape:
    return Shape("mesh", position, mesh=file, **facts)


HOUSEHOLD = {
    "mug": (
        _mesh("coffeemachine/mug.stl", (0, 0, 0.034)),
        _mesh("coffeemachine/handle.stl", (0.039, 0, 0.047), quaternion=ABOUT_X),
    ),
    "thermos": (
        _mesh("thermos/therm_base.stl", (0, 0, 0.02), colour=GREY),
        _mesh("thermos/therm_body.stl", (0, 0, 0.14)),
        _mesh("thermos/therm_cap.stl", (0, 0, 0.285), colour=GREY),
        _mesh("thermos/therm_handle.stl", (0, -0.135, 0.132), colour=GREY),
    ),
    "hammer": (
        Shape("capsule", (0, 0, 0.03), (0.02, 0.14), quaternion=ABOUT_Y),
        Shape("cylinder", (0.16, 0, 0.03), (0.026, 0.025), quaternion=ABOUT_Y, colour=GREY),
        Shape("cylinder", (0.16, 0, 0.03), (0.03, 0.06), quaternion=ABOUT_X, colour=GREY),
    ),
    "dial": (
        _mesh("dial/dial.stl", (0, 0, 0.018)),
        _mesh("dial/dialhead.stl", (0, 0, 0.051), colour=GREY),
    ),
    "basketball": (
        _mesh("basketball/basketballinner.stl", (0, 0, 0.03), colour=(0.05, 0.05, 0.05)),
        _mesh("basketball/basketballouter.stl", (0, 0, 0.03), colour=(0.9, 0.4, 0.1)),
    ),
    "block": (Shape("box", (0, 0, 0.03), (0.05, 0.035, 0.03)),),
    "carton": (
        Shape("box", (0, 0, 0.09), (0.06, 0.06, 0.09)),
        Shape("box", (0, 0, 0.12), (0.061, 0.03, 0.02), paint=1),
    ),
    "can": (
        Shape("cylinder", (0, 0, 0.06), (0.035, 0.06)),
        Shape("cylinder", (0, 0, 0.06), (0.0355, 0.025), paint=1),
    ),
}


def sample_household(
    number: int, absent: frozenset[str], rng: np.random.Generator
) -> list[Distractor]:
    """``number`` distractors of different kinds, none in ``absent``."""
    kinds = rng.permutation([kind for kind in HOUSEHOLD if kind not in absent])
    return [Distractor(str(kind), HOUSEHOLD[str(kind)]) for kind in kinds[:number]]


def visible_shapes(model: Any, data: Any, geoms: list[int], origin: Floats) -> tuple[Shape, ...]:
    """The pieces of a compiled scene in their present pose, from ``origin`` (3,), not rotated."""
    shapes = []
    for geom in geoms:
        place, turn = data.geom_xpos[geom].copy(), np.empty(4)
        mujoco.mju_mat2Quat(turn, data.geom_xmat[geom])
        mesh = int(model.geom_dataid[geom])
        kind = mujoco.mjtGeom(int(model.geom_type[geom])).name.removeprefix("mjGEOM_").lower()
        material = int(model.geom_matid[geom])
        if kind == "mesh":  # the compiler moved its frame to the mesh's centre of mass: undo
            place, turn = _before_centring(model, mesh, place, turn)
        shapes.append(
            Shape(
                kind,
                _three(place - origin),
                () if kind == "mesh" else tuple(map(float, model.geom_size[geom])),
                model.mesh(mesh).name if kind == "mesh" else None,
                (float(turn[0]), float(turn[1]), float(turn[2]), float(turn[3])),
                _three(model.geom_rgba[geom, :3]),
                material=model.mat(material).name if material >= 0 else None,
            )
        )
    return tuple(shapes)


def _three(values: Any) -> tuple[float, float, float]:
    x, y, z = map(float, values)
    return x, y, z


def _before_centring(model: Any, mesh: int, place: Floats, turn: Floats) -> tuple[Floats, Floats]:
    back, turned, shift = np.empty(4), np.empty(4), np.empty(3)
    mujoco.mju_negQuat(back, model.mesh_quat[mesh])
    mujoco.mju_mulQuat(turned, turn, back)
    mujoco.mju_rotVecQuat(shift, model.mesh_pos[mesh], turned)
    return place - shift, turned


def recoloured(distractor: Distractor, model: Any, rng: np.random.Generator) -> Distractor:
    """The same distractor with the hues of all its materials shifted by one random angle."""
    shift = rng.uniform(0.15, 0.85)
    shapes = []
    for shape in distractor.shapes:
        old = model.mat(shape.material).rgba[:3] if shape.material else shape.colour
        hue, saturation, value = colorsys.rgb_to_hsv(*_three(old))
        fresh = (hue + shift) % 1, max(saturation, rng.uniform(0.1, 0.5)), max(value, 0.15)
        shapes.append(replace(shape, colour=colorsys.hsv_to_rgb(*fresh), material=None))
    return replace(distractor, shapes=tuple(shapes))


def add_to(spec: Any, name: str, distractor: Distractor, rng: np.random.Generator) -> None:
    """Add a body ``name``, far below the table until placed. The robot can collide with it."""
    body = spec.worldbody.add_body(name=name, pos=[0, 0, -5])
    paints = [
        colorsys.hsv_to_rgb(rng.uniform(), rng.uniform(0.2, 0.9), rng.uniform(0.35, 0.95))
        for _ in range(2)
    ]
    for index, shape in enumerate(distractor.shapes):
        facts: dict[str, Any] = {
            "type": getattr(mujoco.mjtGeom, f"mjGEOM_{shape.kind.upper()}"),
            "pos": list(shape.position),
            "quat": list(shape.quaternion),
            "rgba": [*(shape.colour or paints[shape.paint]), 1],
            "contype": 0,
            "conaffinity": 1,
            "group": 1,
            "mass": 0,
        }
        if shape.material:
            facts["material"] = shape.material
        if shape.kind == "mesh":
            facts["meshname"] = _mesh_name(spec, f"{name}_{index}", str(shape.mesh))
        else:
            facts["size"] = [*shape.size, 0, 0, 0][:3]
        body.add_geom(**facts)


def _mesh_name(spec: Any, name: str, mesh: str) -> str:
    """A mesh of the scene as it is; one from a file under the new ``name``."""
    if not mesh.endswith(".stl"):
        return mesh
    added = spec.add_mesh(name=name, file=str(MESHES / mesh))
    added.inertia = mujoco.mjtMeshInertia.mjMESH_INERTIA_SHELL
    return name
