"""A scene: Meta-World's environment of a task, with distractors on the table."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import MethodType
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.simulated.distractors import (
    Distractor,
    add_to,
    recoloured,
    sample_household,
    visible_shapes,
)
from benchmarks.simulated.simulator import ENVIRONMENTS, MESHES, fast_simplification, mujoco
from benchmarks.simulated.tasks import Manipulation, Neighbour, manipulation
from objectstates.base.cache import cache_folder
from objectstates.base.storage import write_atomically

Floats = npt.NDArray[np.float64]

TWIN_SHARE = 0.4  # fraction of clips with a second object of the same class
SAME_PAINT_SHARE = 0.5  # fraction of twins with the object's colours
KEPT_TRIANGLES = 0.35  # fraction of the robot's, which take most of the rendering time
TABLE_X, TABLE_Y = 0.62, (0.42, 0.95)  # metres
HAND = ("hand", "rightclaw", "leftclaw", "rightpad", "leftpad")


class RejectedError(Exception):
    """A random sample failed a check; the message is counted, and another is drawn."""


@dataclass(frozen=True)
class Scene:
    """A sampled environment, and the roles of its bodies.

    distractors : in the order of their bodies, ``thing0``, ``thing1``, ...
    neighbour : a second object that is manipulated too.
    """

    task: Manipulation
    env: Any
    distractors: tuple[Distractor, ...]
    neighbour: Neighbour | None = None

    @property
    def objects(self) -> tuple[Manipulation, ...]:
        """A manipulation of every object; states of all of them make the state of the scene."""
        return (self.task,) if self.neighbour is None else (self.task, self.neighbour.task)

    @property
    def model(self) -> Any:
        return self.env.model

    @property
    def data(self) -> Any:
        return self.env.data

    def part(self) -> set[int]:
        return subtree(self.model, [name for task in self.objects for name in task.part])

    def object(self) -> set[int]:
        """Bodies of all objects with their parts."""
        whole = [name for task in self.objects for name in task.whole]
        return subtree(self.model, whole) | self.part()

    def robot(self) -> set[int]:
        return subtree(self.model, ("base", *HAND))

    def distractor_bodies(self) -> list[int]:
        return [self.model.body(f"thing{index}").id for index in range(len(self.distractors))]

    def value(self) -> Floats:
        """The state: (1,) of a joint or (3,) of a position, of one object after the other."""
        return np.concatenate([self.value_of(task) for task in self.objects])

    def value_of(self, task: Manipulation) -> Floats:
        """The state of the object of ``task`` alone."""
        kind, name = task.value
        if kind == "joint":
            return np.array(self.data.joint(name).qpos[:1])
        return np.array(self.data.body(name).xpos)

    def columns(self, task: Manipulation) -> slice:
        """Where `value` has the state of the object of ``task``."""
        start = 0
        for other in self.objects:
            size = 1 if other.value[0] == "joint" else 3
            if other.value == task.value:
                return slice(start, start + size)
            start += size
        raise ValueError(f"{task.name} is no task of this scene")

    def observe_for(self, step: Manipulation) -> None:
        """Make the environment observe what the policy of ``step`` expects."""
        own = ENVIRONMENTS[step.metaworld]
        self.env._get_pos_objects = MethodType(own._get_pos_objects, self.env)  # noqa: SLF001


def build(
    task: Manipulation, rng: np.random.Generator, neighbour: Neighbour | None = None
) -> Scene:
    """Sample distractors, build the environment, reset it and place the distractors.

    There is no twin beside a ``neighbour``: the table is full.
    """
    distractors = sample_household(int(rng.integers(1, 4)), _excluded_kinds(task), rng)
    if neighbour is None and rng.uniform() < TWIN_SHARE:
        twin, model = twins(task.environment or task.name)[int(rng.integers(2))]
        keeps_paint = rng.uniform() < SAME_PAINT_SHARE
        distractors = [twin if keeps_paint else recoloured(twin, model, rng), *distractors[:2]]

    def add_distractors(spec: Any) -> None:
        if neighbour is not None:
            _add_neighbour(spec, neighbour)
        for index, distractor in enumerate(distractors):
            add_to(spec, f"thing{index}", distractor, rng)

    scene = Scene(task, _environment(task, add_distractors), tuple(distractors), neighbour)
    scene.env.seed(int(rng.integers(100_000)))
    scene.env.reset()
    scene.env.reset_mocap_welds()
    if neighbour is not None:
        scene.model.body(task.whole[0]).pos += neighbour.aside
        place = [rng.uniform(*each) for each in neighbour.place]
        scene.model.body(neighbour.task.whole[0]).pos = place
    for each in scene.objects:
        if each.friction:
            _add_friction(scene, each)
    place_distractors(scene, rng)
    return scene


def _add_neighbour(spec: Any, neighbour: Neighbour) -> None:
    """Copy a second object into a scene, under its own names; far away until it is placed."""
    prefix, root = "neighbour_", neighbour.task.whole[0]
    source = mujoco.MjSpec.from_file(_scene_file(neighbour.task.metaworld))
    spec.worldbody.add_frame().attach_body(source.body(root), prefix, "")
    for named in (*spec.bodies, *spec.joints, *spec.sites):
        named.name = named.name.removeprefix(prefix)
    spec.body(root).pos = (3, 3, 0)


@lru_cache(maxsize=32)
def _scene_file(name: str) -> str:
    """The MuJoCo model of an environment of Meta-World."""
    return str(ENVIRONMENTS[name]().fullpath)


def _add_friction(scene: Scene, task: Manipulation) -> None:
    """Make the joint stay where it is left: friction, no spring, limits as wide as its states."""
    model = scene.model
    joint = model.joint(task.value[1])
    model.dof_frictionloss[joint.dofadr] = task.friction
    model.jnt_stiffness[joint.id] = 0
    start = float(scene.value_of(task)[0])
    low, high = model.jnt_range[joint.id]
    ends = low, high, start, start + task.change
    model.jnt_range[joint.id] = min(ends), max(ends)


def _excluded_kinds(task: Manipulation) -> frozenset[str]:
    """Kinds of distractor that look like the object or its part."""
    return frozenset({"mug"} if "coffee" in task.name else {task.noun})


def _environment(task: Manipulation, add_distractors: Callable[[Any], None]) -> Any:
    """Meta-World's environment, of random layout; ``add_distractors`` edits its specification."""
    base = ENVIRONMENTS[task.metaworld]

    class WithDistractors(base):  # type: ignore[misc, valid-type]
        def _initialize_simulation(self) -> tuple[Any, Any]:
            spec = mujoco.MjSpec.from_file(self.fullpath)
            for mesh in spec.meshes:
                if "xyz_base/" in mesh.file:
                    mesh.file = str(fewer_triangles(MESHES / "xyz_base" / Path(mesh.file).name))
            _name_all(spec)
            add_distractors(spec)
            model = spec.compile()
            return model, mujoco.MjData(model)

        def _step_mujoco_simulation(self, ctrl: Any, n_frames: int) -> None:
            """As in the base class; also records which bodies touch in any substep."""
            self.data.ctrl[:] = ctrl
            self.contacts: set[tuple[int, int]] = set()  # pairs of bodies
            for _ in range(n_frames):
                mujoco.mj_step(self.model, self.data)
                pairs = self.model.geom_bodyid[self.data.contact.geom]
                self.contacts.update(map(tuple, pairs.tolist()))
            mujoco.mj_rnePostConstraint(self.model, self.data)

    env = WithDistractors()
    env._set_task_called = True  # noqa: SLF001 - Meta-World has no public way
    env._freeze_rand_vec = False  # noqa: SLF001
    env.seeded_rand_vec = True
    env._partially_observable = False  # noqa: SLF001
    env.__dict__.pop("sawyer_observation_space", None)  # cached for another observability
    env.max_path_length = 10**9
    return env


def _name_all(spec: Any) -> None:
    for body in spec.bodies:
        if not body.name and body.parent is not None:
            body.name = f"{body.parent.name}_inner"
        for joint in body.joints:
            if not joint.name:
                joint.name = f"{body.name}_joint"


def fewer_triangles(source: Path) -> Path:
    """A coarser copy of a mesh (binary STL), kept in the cache between runs."""
    target = cache_folder() / "simulated" / f"{source.stem}-{KEPT_TRIANGLES}.stl"
    if not target.exists():
        record = np.dtype([("normal", "<f4", 3), ("corners", "<f4", (3, 3)), ("tag", "<u2")])
        corners = np.fromfile(source, record, offset=84)["corners"]
        points, index = np.unique(corners.reshape(-1, 3), axis=0, return_inverse=True)
        triangles = index.reshape(-1, 3).astype(np.int32)
        points, triangles = fast_simplification.simplify(points, triangles, 1 - KEPT_TRIANGLES)
        coarse = np.zeros(len(triangles), record)
        coarse["corners"] = points[triangles]
        header = b" " * 80 + np.uint32(len(triangles)).tobytes()
        write_atomically(target, header + coarse.tobytes())
    return target


@lru_cache(maxsize=32)
def twins(name: str) -> tuple[tuple[Distractor, Any], tuple[Distractor, Any]]:
    """The object of a task in its first and in its second state, with the model they come from.

    A separate part is left out: a second box has no lid, a second machine no mug.
    """
    task = manipulation(name)
    scene = Scene(task, _environment(task, lambda _: None), ())
    scene.env.seed(0)
    scene.env.reset()
    model, data = scene.model, scene.data
    bodies = subtree(model, task.whole) if task.separate else scene.object()
    geoms = visible_geoms(model, bodies)
    origin = model.body(task.whole[0]).pos * (1, 1, 0)
    found = []
    for state in task.states:
        mujoco.mj_forward(model, data)
        shapes = visible_shapes(model, data, geoms, origin)
        found.append((Distractor(task.noun, shapes, None if task.separate else state), model))
        if not task.separate:
            joint = data.joint(task.value[1])
            joint.qpos[0] += task.change
    return found[0], found[1]


def place_distractors(scene: Scene, rng: np.random.Generator) -> None:
    """Put all distractors on the table, clear of the object and of one another."""
    model, data = scene.model, scene.data
    mujoco.mj_forward(model, data)
    taken = [
        footprint(model, data, subtree(model, (*each.whole, *each.part))) for each in scene.objects
    ]
    for body, distractor in zip(scene.distractor_bodies(), scene.distractors, strict=True):
        low, high = footprint(model, data, {body})
        reach = np.abs([low, high]).max(axis=0)  # from its origin, which is at x = y = 0
        twin = distractor.kind == scene.task.noun
        yaw = rng.uniform(-0.5, 0.5) if twin else rng.uniform(0, 2 * math.pi)
        radius = reach if twin else np.full(2, np.linalg.norm(reach))
        place = _free_place(taken, radius, rng)
        model.body_pos[body] = [*place, 0]
        model.body_quat[body] = [math.cos(yaw / 2), 0, 0, math.sin(yaw / 2)]
        mujoco.mj_forward(model, data)
        taken.append(footprint(model, data, {body}))


def _free_place(
    taken: list[tuple[Floats, Floats]], radius: Floats, rng: np.random.Generator
) -> Floats:
    for _ in range(200):
        place = np.array([rng.uniform(-TABLE_X, TABLE_X), rng.uniform(*TABLE_Y)])
        if all(
            np.any((place + radius < low - 0.04) | (place - radius > high + 0.04))
            for low, high in taken
        ):
            return place
    raise RejectedError("no room for a thing")


def subtree(model: Any, roots: Iterable[str]) -> set[int]:
    """Ids of these bodies and all their descendants."""
    found = {model.body(root).id for root in roots}
    for body in range(1, model.nbody):  # parents come before children
        if int(model.body_parentid[body]) in found:
            found.add(body)
    return found


def visible_geoms(model: Any, bodies: set[int]) -> list[int]:
    """Geometries that Meta-World renders (groups 0 to 2); the others serve collisions."""
    return [
        geom
        for geom in range(model.ngeom)
        if int(model.geom_bodyid[geom]) in bodies and model.geom_group[geom] <= 2
    ]


def footprint(model: Any, data: Any, bodies: set[int]) -> tuple[Floats, Floats]:
    """Least and greatest x, y in metres of the visible geometry of the bodies."""
    signs = np.array(np.meshgrid(*[(-1, 1)] * 3)).reshape(3, -1).T
    corners = []
    for geom in visible_geoms(model, bodies):
        box = model.geom_aabb[geom]
        corners.append(
            data.geom_xpos[geom]
            + (box[:3] + signs * box[3:]) @ data.geom_xmat[geom].reshape(3, 3).T
        )
    points = np.concatenate(corners)[:, :2]
    return points.min(axis=0), points.max(axis=0)
