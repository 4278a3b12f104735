"""Meta-World and MuJoCo, imported in one place, for rendering without a screen."""

from __future__ import annotations

import os
import warnings
from pathlib import Path

from objectstates.base.errors import MissingExtraError

# Read once, when MuJoCo is imported. OSMesa renders in software, the same on every machine.
os.environ.setdefault("MUJOCO_GL", "osmesa")
if os.environ["MUJOCO_GL"] == "osmesa":
    os.environ.setdefault("PYOPENGL_PLATFORM", "osmesa")
os.environ.setdefault("LP_NUM_THREADS", "1")

try:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import fast_simplification
        import metaworld
        import mujoco
        from metaworld.env_dict import ALL_V3_ENVIRONMENTS as ENVIRONMENTS
        from metaworld.policies import ENV_POLICY_MAP as POLICIES
except ImportError as problem:
    raise MissingExtraError(
        f"simulated clips need the extra 'simulated' ({problem}): "
        "pip install 'objectstates[simulated]'"
    ) from problem
except AttributeError as problem:  # raised by PyOpenGL where the library is missing
    raise MissingExtraError(
        f"MUJOCO_GL={os.environ['MUJOCO_GL']} finds no rendering library ({problem}): "
        "apt-get install libosmesa6"
    ) from problem

ASSETS = Path(metaworld.__file__).parent / "assets"
MESHES = ASSETS / "objects" / "meshes"

__all__ = ["ASSETS", "ENVIRONMENTS", "MESHES", "POLICIES", "fast_simplification", "mujoco"]
