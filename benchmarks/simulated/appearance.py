"""Domain randomisation: random textures, colours and lights of a scene."""

from __future__ import annotations

import colorsys
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from benchmarks.simulated.scene import Scene
from benchmarks.simulated.simulator import ASSETS, mujoco

TEXTURES = [
    "brick1",
    "darkwood",
    "floor1",
    "floor2",
    "granite",
    "light_wood",
    "light_wood_v2",
    "light_wood_v3",
    "marble",
    "metal",
    "metal1",
    "metal2",
    "navy_blue",
    "plaster1",
    "wood",
    "wood1",
    "wood2",
    "wood3",
    "wood4",
    "wood_light",
]

# Geometry groups of MuJoCo; a rendering can leave some out.
WORLD, ROBOT, STATIC, MOVING, DISTRACTORS, HIDDEN = range(6)


def randomise(scene: Scene, rng: np.random.Generator) -> dict[str, Any]:
    """Randomise the appearance of a scene; returns the choices. Call once, after the episode."""
    model = scene.model
    facts: dict[str, Any] = {
        "table_texture": _randomise_texture(model, "T_table", rng),
        "floor_texture": _randomise_texture(model, "T_floor", rng),
        "object_hue_shift": float(rng.uniform()) if rng.uniform() < 0.7 else 0.0,
        "robot_hue_shift": float(rng.uniform()) if rng.uniform() < 0.5 else 0.0,
    }
    _randomise_sky(model, rng)
    _shift_hues(scene, facts["object_hue_shift"], facts["robot_hue_shift"], rng)
    _randomise_lights(model, rng)
    _assign_groups(scene)
    return facts


def _randomise_texture(model: Any, name: str, rng: np.random.Generator) -> str | None:
    """Replace a texture by a tinted one of Meta-World; None if the scene has no such texture."""
    index = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_TEXTURE, name)
    if index < 0:
        return None
    pick = str(rng.choice(TEXTURES))
    tint = colorsys.hsv_to_rgb(rng.uniform(), rng.uniform(0, 0.35), rng.uniform(0.6, 1.0))
    width, height = int(model.tex_width[index]), int(model.tex_height[index])
    channels, start = int(model.tex_nchannel[index]), int(model.tex_adr[index])
    side = height // 6 if height == 6 * width else height  # of a cube's six faces
    picture = np.asarray(cv2.imread(str(ASSETS / "textures" / f"{pick}.png")))[..., ::-1]
    face = cv2.resize(picture, (width, side), interpolation=cv2.INTER_AREA) * np.array(tint)
    full = np.full((height, width, 4), 255, np.uint8)
    full[..., :3] = np.concatenate([face.astype(np.uint8)] * (height // side))
    model.tex_data[start : start + width * height * channels] = full[..., :channels].ravel()
    return pick


def _randomise_sky(model: Any, rng: np.random.Generator) -> None:
    for index in np.flatnonzero(model.tex_type == mujoco.mjtTexture.mjTEXTURE_SKYBOX):
        start, channels = int(model.tex_adr[index]), int(model.tex_nchannel[index])
        pixels = int(model.tex_width[index] * model.tex_height[index])
        colour = colorsys.hsv_to_rgb(rng.uniform(), rng.uniform(0, 0.4), rng.uniform(0.2, 0.85))
        flat = np.resize((255 * np.array(colour)).astype(np.uint8), (pixels, channels))
        model.tex_data[start : start + pixels * channels] = flat.ravel()


def _shift_hues(scene: Scene, hue: float, robot_hue: float, rng: np.random.Generator) -> None:
    """Shift the hues of object, robot and walls; a twin with the same materials changes too."""
    model = scene.model
    whole, robot = scene.object(), scene.robot()
    painted = set()
    for geom in np.flatnonzero(model.geom_group <= 2):
        body, material = int(model.geom_bodyid[geom]), int(model.geom_matid[geom])
        if body in whole:
            shift = hue
        elif body in robot:
            shift = robot_hue
        elif model.body(body).name == "RetainingWall":
            shift = float(rng.uniform())
        else:
            continue
        if material < 0:
            model.geom_rgba[geom, :3] = _shifted(model.geom_rgba[geom, :3], shift, rng)
        elif material not in painted:
            painted.add(material)
            colour = _shifted(model.mat_rgba[material, :3], shift, rng)
            if body in whole and hue and model.mat_texid[material].max() >= 0:  # tints its texture
                colour = colorsys.hsv_to_rgb(hue, rng.uniform(0.1, 0.6), rng.uniform(0.6, 1))
            model.mat_rgba[material, :3] = colour


def _shifted(
    colour: npt.NDArray[np.float32], shift: float, rng: np.random.Generator
) -> tuple[float, float, float]:
    hue, saturation, value = colorsys.rgb_to_hsv(*np.clip(colour, 0, 1).tolist())
    saturation = min(1.0, saturation * rng.uniform(0.6, 1.3))
    return colorsys.hsv_to_rgb(
        (hue + shift) % 1, saturation, float(np.clip(value * rng.uniform(0.6, 1.3), 0.06, 1))
    )


def _randomise_lights(model: Any, rng: np.random.Generator) -> None:
    warm = 1 + rng.uniform(-0.12, 0.12) * np.array([1, 0, -1])
    for light in range(model.nlight):
        model.light_diffuse[light] = np.clip(
            model.light_diffuse[light] * rng.uniform(0.35, 1.9) * warm, 0, 1
        )
        direction = model.light_dir[light] + rng.normal(0, 0.35, 3)
        direction[2] = min(direction[2], -0.2)
        model.light_dir[light] = direction / np.linalg.norm(direction)
        model.light_castshadow[light] = 0
    model.vis.headlight.ambient[:] = rng.uniform(0.32, 0.55) * warm
    model.vis.headlight.diffuse[:] = rng.uniform(0.2, 0.5) * warm


def _assign_groups(scene: Scene) -> None:
    model = scene.model
    groups = np.zeros(model.nbody, int)  # by body
    for bodies, group in (
        (scene.robot(), ROBOT),
        (scene.object(), STATIC),
        (scene.part(), MOVING),
        (scene.distractor_bodies(), DISTRACTORS),
    ):
        groups[sorted(bodies)] = group
    visible = model.geom_group <= 2
    model.geom_group[:] = np.where(visible, groups[model.geom_bodyid], HIDDEN)
