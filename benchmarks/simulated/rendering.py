"""Camera, rendering and encoding: from an episode to a video and its boxes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import av
import cv2
import numpy as np
import numpy.typing as npt

from benchmarks.simulated import appearance, truth
from benchmarks.simulated.episode import FPS, Episode
from benchmarks.simulated.scene import Floats, RejectedError, Scene, subtree
from benchmarks.simulated.simulator import mujoco
from benchmarks.simulated.tasks import View
from objectstates.base.storage import replacing

WIDTH, HEIGHT = 320, 240
OVERSAMPLING = 1.25  # of the picture, against jagged edges
PRIMARY_SHARE = 0.8
MOTIONS = {"static": 0.5, "shake": 0.25, "pan": 0.15, "shake+pan": 0.1}
LEAST_ARM_DISTANCE = 0.3  # metres from camera to robot
CHECKED_FRAMES = 7  # of each state, to see whether the object is in view
LEAST_SEEN = 3  # of those
SEEN_WHOLE, SEEN_PART = 0.8, 0.5  # visible shares from which object and part count as seen

# Static parts of the robot; not rendered where the camera does not see them.
_STATIC_ROBOT = frozenset(
    (
        "base",
        "controller_box",
        "head",
        "head_camera",
        "pedestal",
        "pedestal_feet",
        "right_arm_base_link",
        "right_l0",
        "right_torso_itb",
        "screen",
        "torso",
    )
)

Codes = npt.NDArray[np.int8]


@dataclass(frozen=True)
class CameraTrajectory:
    """A free camera, frame by frame: degrees (n,), metres (n,) and the point it looks at (n, 3)."""

    azimuth: Floats
    elevation: Floats
    distance: Floats
    centre: Floats
    fovy: float
    motion: str
    view: str

    def facts(self) -> dict[str, Any]:
        """For the JSON: kind of motion, and means over the frames."""
        return {
            "motion": self.motion,
            "view": self.view,
            "azimuth": round(float(self.azimuth.mean()), 2),
            "elevation": round(float(self.elevation.mean()), 2),
            "distance": round(float(self.distance.mean()), 3),
            "fovy": round(self.fovy, 2),
        }

    def eye(self, frame: int) -> Floats:
        """Where the camera is, (3,) metres."""
        azimuth, elevation = np.radians([self.azimuth[frame], self.elevation[frame]])
        level = np.cos(elevation)
        ahead = np.array([level * np.cos(azimuth), level * np.sin(azimuth), np.sin(elevation)])
        return np.asarray(self.centre[frame] - self.distance[frame] * ahead)

    def at(self, frame: int) -> Any:
        camera = mujoco.MjvCamera()
        camera.type = mujoco.mjtCamera.mjCAMERA_FREE
        camera.azimuth, camera.elevation = self.azimuth[frame], self.elevation[frame]
        camera.distance, camera.lookat[:] = self.distance[frame], self.centre[frame]
        return camera


def sample_camera(view: View, origin: Floats, n: int, rng: np.random.Generator) -> CameraTrajectory:
    """A camera for ``n`` frames that looks at an object at ``origin`` (3,)."""
    primary = rng.uniform() < PRIMARY_SHARE
    turns = (view.primary,) if primary else view.secondary
    azimuth = np.full(n, rng.uniform(*turns[int(rng.integers(len(turns)))]))
    elevation = np.full(n, rng.uniform(*view.elevation))
    distance = np.full(n, rng.uniform(*view.distance))
    aim = origin + view.centre + rng.uniform(-1, 1, 3) * [0.07, 0.07, 0.04]
    centre = np.tile(aim, (n, 1))
    fovy = float(rng.uniform(40, 50))
    motion = str(rng.choice(list(MOTIONS), p=list(MOTIONS.values())))
    if "shake" in motion:
        degrees = rng.uniform(0.3, 1.0)
        azimuth = azimuth + degrees * _smooth_noise(n, rng)
        elevation = elevation + 0.8 * degrees * _smooth_noise(n, rng)
        centre = centre + 0.008 * degrees * np.stack(
            [_smooth_noise(n, rng) for _ in range(3)], axis=1
        )
    if "pan" in motion:
        phase = np.linspace(-0.5, 0.5, n)
        azimuth = azimuth + phase * rng.uniform(5, 14) * rng.choice([-1, 1])
        distance = distance * (1 + phase * rng.uniform(-0.15, 0.15))
        centre = centre + phase[:, None] * rng.uniform(-0.06, 0.06, 3)
    side = "primary" if primary else "secondary"
    return CameraTrajectory(azimuth, elevation, distance, centre, fovy, motion, side)


def _smooth_noise(n: int, rng: np.random.Generator) -> Floats:
    """Smooth noise of about unit amplitude, (n,): a sum of four slow sine waves."""
    seconds = np.arange(n) / FPS
    waves = [
        rng.uniform(0.4, 1) * np.sin(2 * np.pi * (rng.uniform(0.25, 2.2) * seconds + rng.uniform()))
        for _ in range(4)
    ]
    return np.asarray(0.4 * np.sum(waves, axis=0))


class Renderer:
    """Renders the frames of an episode. Holds a graphics context: use :func:`open_renderer`."""

    def __init__(self, scene: Scene, episode: Episode, camera: CameraTrajectory) -> None:
        self.scene, self.episode, self.camera = scene, episode, camera
        model = self.model = scene.model
        self.codes = _codes(scene)
        size = int(WIDTH * OVERSAMPLING), int(HEIGHT * OVERSAMPLING)
        model.vis.quality.offsamples = 0
        model.vis.quality.shadowsize = 256
        model.vis.global_.offwidth, model.vis.global_.offheight = size
        model.vis.global_.fovy = camera.fovy
        self.gl = mujoco.GLContext(*size)
        self.gl.make_current()
        self.context = mujoco.MjrContext(model, mujoco.mjtFontScale.mjFONTSCALE_100.value)
        mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN.value, self.context)
        self.drawn = mujoco.MjvScene(model, maxgeom=600)
        for flag in (mujoco.mjtRndFlag.mjRND_SHADOW, mujoco.mjtRndFlag.mjRND_REFLECTION):
            self.drawn.flags[flag] = 0
        self.large = mujoco.MjrRect(0, 0, *size)
        self.small = mujoco.MjrRect(0, 0, WIDTH, HEIGHT)
        self.all = _showing(
            appearance.WORLD,
            appearance.ROBOT,
            appearance.STATIC,
            appearance.MOVING,
            appearance.DISTRACTORS,
        )
        # Table and walls still occlude.
        self.alone = _showing(appearance.WORLD, appearance.STATIC, appearance.MOVING)

    def close(self) -> None:
        self.context.free()
        self.gl.free()

    def pose(self, frame: int) -> None:
        """Set the scene to the pose of this frame."""
        data = self.scene.data
        data.qpos[:], data.qvel[:] = self.episode.poses[frame], 0
        mujoco.mj_kinematics(self.model, data)
        mujoco.mj_comPos(self.model, data)
        mujoco.mj_camlight(self.model, data)

    def segmentations(self, frame: int) -> tuple[Codes, Codes]:
        """Codes (height, width) of the posed frame without robot and distractors, and with both."""
        self._update(frame, self.alone)
        alone = self.codes[self._geoms()]
        self._update(frame, self.all)
        return alone, self.codes[self._geoms()]

    def picture(self, frame: int) -> npt.NDArray[np.uint8]:
        """RGB (height, width, 3) of the posed frame."""
        self._update(frame, self.all)
        pixels = self._render(self.large)
        size = WIDTH, HEIGHT
        return np.asarray(cv2.resize(pixels, size, interpolation=cv2.INTER_LINEAR), np.uint8)

    def _update(self, frame: int, option: Any) -> None:
        everything = mujoco.mjtCatBit.mjCAT_ALL.value
        camera = self.camera.at(frame)
        mujoco.mjv_updateScene(
            self.model, self.scene.data, option, None, camera, everything, self.drawn
        )

    def _render(self, where: Any) -> npt.NDArray[np.uint8]:
        pixels = np.empty((where.height, where.width, 3), np.uint8)
        mujoco.mjr_render(where, self.drawn, self.context)
        mujoco.mjr_readPixels(pixels, None, where, self.context)
        return np.ascontiguousarray(pixels[::-1])

    def _geoms(self) -> npt.NDArray[np.int32]:
        """Id of the geometry at each pixel (height, width); -1 for none."""
        flags = (mujoco.mjtRndFlag.mjRND_SEGMENT, mujoco.mjtRndFlag.mjRND_IDCOLOR)
        for flag in flags:
            self.drawn.flags[flag] = 1
        pixels = self._render(self.small).astype(np.int32)
        for flag in flags:
            self.drawn.flags[flag] = 0
        owner = np.full(self.drawn.ngeom + 2, -1, np.int32)
        for geom in self.drawn.geoms[: self.drawn.ngeom]:
            if geom.segid >= 0 and geom.objtype == mujoco.mjtObj.mjOBJ_GEOM:
                owner[geom.segid + 1] = geom.objid
        found: npt.NDArray[np.int32] = owner[
            pixels[..., 0] + (pixels[..., 1] << 8) + (pixels[..., 2] << 16)
        ]
        return found

    # ---- checks before rendering

    def check(self) -> None:
        """Raises :class:`RejectedError` unless all states are visible."""
        self._check_camera()
        actions = (frame for action in self.episode.actions for frame in action)
        bounds = [0, *actions, len(self.episode.poses)]
        for start, end in zip(bounds[::2], bounds[1::2], strict=True):
            sampled = np.linspace(start, end - 1, CHECKED_FRAMES).astype(int)
            if sum(map(self._is_seen, sampled.tolist())) < LEAST_SEEN:
                raise RejectedError("object occluded")

    def _check_camera(self) -> None:
        robot = np.isin(self.model.geom_bodyid, sorted(self.scene.robot()))
        for frame in range(0, len(self.episode.poses), 10):
            self.pose(frame)
            offset = self.scene.data.geom_xpos[robot] - self.camera.eye(frame)
            if np.linalg.norm(offset, axis=1).min() < LEAST_ARM_DISTANCE:
                raise RejectedError("camera hits arm")

    def _is_seen(self, frame: int) -> bool:
        self.pose(frame)
        alone, seen = self.segmentations(frame)
        whole, part = truth.object_mask(alone, separate=False), alone == truth.PART
        box = truth.box_of(whole)
        if box is None:
            raise RejectedError("object out of view")
        if box[0] < 1 or box[1] < 1 or box[2] >= WIDTH or box[3] >= HEIGHT:
            raise RejectedError("object cut by image border")
        visible = truth.object_mask(seen, separate=False).sum() > SEEN_WHOLE * whole.sum()
        return bool(visible and (seen == truth.PART).sum() >= SEEN_PART * part.sum())

    def hide_unseen(self) -> None:
        """Hide static parts of the robot that are out of view, for speed."""
        self.model.vis.global_.fovy = self.camera.fovy + 12
        seen: set[int] = set()
        for frame in np.linspace(0, len(self.episode.poses) - 1, 14).astype(int).tolist():
            self.pose(frame)
            self._update(frame, self.all)
            seen |= set(np.unique(self._geoms()).tolist())
        self.model.vis.global_.fovy = self.camera.fovy
        for geom in range(self.model.ngeom):
            name = self.model.body(int(self.model.geom_bodyid[geom])).name
            if geom not in seen and name in _STATIC_ROBOT:
                self.model.geom_group[geom] = appearance.HIDDEN


def _showing(*groups: int) -> Any:
    option = mujoco.MjvOption()
    option.sitegroup[:] = 0
    option.geomgroup[:] = 0
    option.geomgroup[list(groups)] = 1
    return option


def _codes(scene: Scene) -> Codes:
    """The code of each geometry (n + 1,), the last one that of none."""
    model = scene.model
    codes = np.zeros(model.ngeom + 1, np.int8)
    groups = {appearance.STATIC: truth.WHOLE, appearance.MOVING: truth.PART}
    hand = subtree(model, ("right_hand",))
    distractors = {
        body: truth.DISTRACTOR + index for index, body in enumerate(scene.distractor_bodies())
    }
    for geom in range(model.ngeom):
        body = int(model.geom_bodyid[geom])
        if body in hand:
            codes[geom] = truth.GRIPPER
        else:
            codes[geom] = distractors.get(
                body, groups.get(int(model.geom_group[geom]), truth.NOTHING)
            )
    return codes


@contextmanager
def open_renderer(scene: Scene, episode: Episode, camera: CameraTrajectory) -> Iterator[Renderer]:
    """A renderer whose graphics context is freed at the end."""
    renderer = Renderer(scene, episode, camera)
    try:
        yield renderer
    finally:
        renderer.close()


def render_clip(renderer: Renderer, path: Path, tick: Callable[[int], None]) -> truth.BoxLog:
    """Render and encode all frames; the file appears when it is complete."""
    boxes = truth.BoxLog(len(renderer.scene.distractors), renderer.scene.task.separate)
    with _encoding(path) as write:
        for frame in range(len(renderer.episode.poses)):
            renderer.pose(frame)
            boxes.add(*renderer.segmentations(frame))
            write(renderer.picture(frame))
            tick(1)
    return boxes


@contextmanager
def _encoding(path: Path) -> Iterator[Callable[[npt.NDArray[np.uint8]], None]]:
    """H.264 of one thread, so that the same frames give the same bytes."""
    options = {"movflags": "+faststart"}
    with (
        replacing(path) as temporary,
        av.open(str(temporary), "w", format="mp4", options=options) as container,
    ):
        stream = container.add_stream("libx264", rate=FPS)
        stream.width, stream.height, stream.pix_fmt = WIDTH, HEIGHT, "yuv420p"
        stream.options = {"crf": "25", "preset": "medium", "threads": "1", "g": "50"}

        def write(picture: npt.NDArray[np.uint8]) -> None:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))

        yield write
        container.mux(stream.encode())
