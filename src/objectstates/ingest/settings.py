"""The settings that a corpus is made with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from math import inf
from typing import TYPE_CHECKING, Any

from objectstates.base.choices import (
    BOX_CONTEXT,
    CHUNK_SECONDS,
    DETECTION_THRESHOLD,
    PAPER_INGEST,
    TRACKLET_SECONDS,
    ChunkKind,
)
from objectstates.base.errors import SettingError
from objectstates.ingest.time_scale import (
    MOST_FPS,
    PAPER_SAMPLES,
    SAMPLES,
    Seconds,
    TimeScale,
    scale_for,
)
from objectstates.track.tracker import WORKING_SIDE
from objectstates.video.clip_list import ClipSpan

if TYPE_CHECKING:  # workers need no pyarrow
    from objectstates.data.corpus import Corpus

VERSION = 7  # of observations, part of cache keys: raise it when their content may change
GPU_BATCH = 128  # frames of one run of a backbone, while those before are tracked


@dataclass(frozen=True)
class ObserveSettings:
    """Settings of ``observe.py``: what is read of the frames of a clip, and at which rates.

    scale : lengths of tracklets and chunks, and rates of sampling.
    context : factor by which boxes are enlarged before their features are pooled.
    max_side : frames are shrunk so that their longer side has at most this many pixels.
    words : also extract the descriptors of the paper's bags of words.
    image_fps : frames per second of folders of images.
    batch : sampled frames passed to the detector and the backbone at once; more than 1 is faster
        on a GPU only.
    """

    scale: TimeScale = field(default_factory=TimeScale)
    context: float = BOX_CONTEXT
    max_side: int = 480
    words: bool = False
    image_fps: float = 25.0
    batch: int = 1

    @property
    def detect_fps(self) -> float:
        """Rate of the frames on which the detector and the backbone run."""
        return self.scale.detect_fps(PAPER_SAMPLES if self.words else SAMPLES)

    @property
    def read_fps(self) -> float:
        """Frames read per second; the paper's trajectories need all."""
        return MOST_FPS if self.words else self.scale.track_fps

    @property
    def gray_side(self) -> int:
        """Pixels of the longer side of gray frames; trajectories take those of the RGB ones."""
        return self.max_side if self.words else min(self.max_side, WORKING_SIDE)


@dataclass(frozen=True)
class IngestSettings:
    """All that a corpus depends on, beside the clips.

    detector : KIND or KIND:NAME, see ``detect/registry.py``; ``object_name`` is the object's class.
    threshold : the least score of a detection.
    appearance : the backbone, see ``features/registry.py``.
    chunks : "dense" (object motion and frame appearance) or "paper" (bags of words).
    conv_words : the backbone whose cells become words of those bags; "appearance" for that one.
    device : where torch models run.
    change_columns : add the change profile to the dense features of chunks.
    signals : of robot datasets: "none", or features of the robot to add, such as "action"; "auto"
        takes the states and the commands of the joints.
    tracklet_seconds, chunk_seconds : lengths; "auto" chooses by the clips, see `scale_for`.
    changes : how many changes a clip shows in order: "auto" lengths are those for one of them.
    context, max_side, image_fps : see `ObserveSettings`.
    """

    detector: str = "motion"
    object_name: str | None = None
    threshold: float = DETECTION_THRESHOLD
    appearance: str = "lite0"
    chunks: ChunkKind = "dense"
    conv_words: str = "appearance"
    change_columns: bool = True
    signals: str = "none"
    device: str = "cpu"
    tracklet_seconds: Seconds = "auto"
    chunk_seconds: Seconds = "auto"
    changes: int = 1
    context: float = ObserveSettings.context
    max_side: int = ObserveSettings.max_side
    image_fps: float = ObserveSettings.image_fps
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("context", "image_fps", "max_side"):
            if not getattr(self, name) > 0:
                raise SettingError(f"`{name}` must be above 0, not {getattr(self, name)!r}")
        for name in ("tracklet_seconds", "chunk_seconds"):
            value = getattr(self, name)
            if value != "auto" and (isinstance(value, str) or not 0 < value < inf):
                raise SettingError(f'`{name}` must be above 0, or "auto", not {value!r}')
        if isinstance(self.changes, bool) or self.changes < 1:
            raise SettingError(f"`changes` must be 1 or more, not {self.changes!r}")
        if self.chunks not in ("dense", "paper"):
            raise SettingError(f"`chunks` must be dense or paper, not {self.chunks!r}")

    @classmethod
    def paper(cls, **settings: Any) -> IngestSettings:
        """The paper's settings, except those given.

        >>> IngestSettings.paper().appearance, IngestSettings.paper().conv_words
        ('resnet50', 'vgg16')
        """
        return cls(**{**PAPER_INGEST, **settings})

    @property
    def backbones(self) -> tuple[str, str | None]:
        """The backbones of tracklets and of words; None for no other one."""
        words = None if self.conv_words == "appearance" else self.conv_words
        return self.appearance, words if self.chunks == "paper" else None

    def scale(self, clips: Sequence[ClipSpan]) -> TimeScale:
        """The time scale of a corpus of these clips; the paper's for its bags of words."""
        tracklet, chunk = self.tracklet_seconds, self.chunk_seconds
        if self.chunks == "paper":
            tracklet = TRACKLET_SECONDS if tracklet == "auto" else tracklet
            chunk = CHUNK_SECONDS if chunk == "auto" else chunk
        return scale_for(clips, tracklet, chunk, changes=self.changes, image_fps=self.image_fps)

    def observe(self, scale: TimeScale) -> ObserveSettings:
        return ObserveSettings(
            scale,
            self.context,
            self.max_side,
            self.chunks == "paper",
            self.image_fps,
            GPU_BATCH if self.device.startswith("cuda") else 1,
        )


def settings_of(corpus: Corpus) -> IngestSettings:
    """The settings that ``corpus`` was made with."""
    known = {setting.name for setting in fields(IngestSettings)}
    facts = corpus.info.get("ingest")
    if not isinstance(facts, dict) or facts.get("version") != VERSION:
        raise SettingError("`like`: the corpus was not made by this version of ingest")
    given = {name: value for name, value in facts.items() if name in known}
    for name, value in given.items():
        if not _is_like(value, getattr(IngestSettings, name), name):
            raise SettingError(f"`like`: the corpus says that `{name}` is {str(value)[:60]!r}")
    return IngestSettings(**given)


def _is_like(value: Any, usual: Any, name: str) -> bool:
    """Whether the value of a setting is of the type of the usual one."""
    if isinstance(usual, bool) or isinstance(value, bool):
        return isinstance(usual, bool) and isinstance(value, bool)
    if name in ("tracklet_seconds", "chunk_seconds"):
        return isinstance(value, str | int | float)
    if usual is None:
        return value is None or isinstance(value, str)
    return isinstance(value, int | float if isinstance(usual, float) else type(usual))
