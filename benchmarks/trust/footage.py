"""Corpora as filmed: each manipulation ingested with several detectors, right and wrong ones.

A *source* is the clips of one manipulation with their true actions and boxes. It is ingested

- ``fewshot``: with a detector trained on clips that are not in the corpus;
- ``given``: with the true boxes of the object;
- ``motion``: with the default detector;
- ``gripper``: with the boxes of the robot's hand, as a wrong detector would give;
- ``jittered``: with true boxes, each second moved by about their size;
- ``idle``, ``idle-motion``: only the part before the action, where nothing changes;
- ``cut``: of every clip only what comes before the action, or only what comes after it;
- ``static``: a still picture of every clip.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import av
import numpy as np

from objectstates.data.clips import TrackletLabel
from objectstates.data.corpus import Corpus
from objectstates.data.formats.truth_files import read_truth
from objectstates.data.truth import ClipTruth
from objectstates.data.truth_labels import label_corpus
from objectstates.detect.fewshot_training import train
from objectstates.detect.from_truth import train_labels
from objectstates.evaluation.benchmark.manipulations import find_manipulations, read_manipulation
from objectstates.ingest.pipeline import IngestSettings, ingest_to
from objectstates.video.clip_list import ClipSpan
from objectstates.video.frames_at import frames_at

MARGIN = 0.3  # seconds between the action and a span without it
SHORTEST = 1.5  # seconds of such a span
STILL_SECONDS = 6.0


@dataclass(frozen=True, eq=False)
class Source:
    """The clips of a manipulation.

    train : clips for training a detector; empty where there are none to spare.
    gripper : where the boxes of the hand are known, by clip: times (k,) and boxes (k, 4).
    """

    name: str
    clips: tuple[ClipSpan, ...]
    truth: Mapping[str, ClipTruth]
    train: tuple[ClipSpan, ...] = ()
    gripper: Mapping[str, tuple[np.ndarray, np.ndarray]] | None = None


def simulated_sources(folder: Path) -> Iterator[Source]:
    """The manipulations of a folder with exact truth; their clips are cropped at one side."""
    for where in find_manipulations(folder):
        found = read_manipulation(where)
        gripper = {clip.id: _gripper(clip.video.with_suffix(".json")) for clip in found.test}
        yield Source(found.name, found.test, found.truth, found.train, gripper)


def _gripper(path: Path) -> tuple[np.ndarray, np.ndarray]:
    content = json.loads(path.read_text())
    boxes = [box or [np.nan] * 4 for box in content["gripper"]["box_visible"]]
    return np.arange(len(boxes)) / content["fps"], np.array(boxes, np.float64)


def droid_sources(folder: Path, annotations: Path) -> Iterator[Source]:
    """The groups of real clips in ``annotations``, those that are usable."""
    rows = [row for row in json.loads(annotations.read_text()) if row["usable"]]
    truth = read_truth(annotations)
    for group in sorted({row["group"] for row in rows}):
        names = [row["file"].removesuffix(".mp4") for row in rows if row["group"] == group]
        clips = tuple(ClipSpan(name, folder / f"{name}.mp4") for name in names)
        yield Source(group, clips, {name: truth[name] for name in names})


def bottle_source(folder: Path) -> Source:
    """Episodes of a humanoid that lifts, carries and puts down a tube: the action is all of it."""
    clips, truth = [], {}
    videos = {int(path.stem[-6:]): path for path in (folder / "videos").rglob("*.mp4")}
    for row in json.loads((folder / "annotations.json").read_text()):
        if row["box_after"] is None:
            continue
        name = f"episode_{row['episode_index']:06d}"
        clips.append(ClipSpan(name, videos[row["episode_index"]]))
        times = np.array([0.0, row["duration_s"]])
        boxes = np.array([row["box_before"], row["box_after"]], np.float64)
        until = next(t for t in (row["settled"], row["put_down"], row["duration_s"]) if t)
        truth[name] = ClipTruth.single(name, (row["lift"] - 0.3, until), times, boxes)
    return Source("g1_bottle", tuple(clips), truth)


def all_sources(data: Path, simulated: Sequence[Path] = ()) -> list[Source]:
    """Those of ``../shared/data``, and of further folders of simulated clips."""
    own = Path(__file__).with_name("droid_annotations.json")
    sources = [
        source for folder in (data / "sim", *simulated) for source in simulated_sources(folder)
    ]
    for file in (data / "droid" / "annotations.json", own):
        sources += droid_sources(data / "droid", file)
    return [*sources, bottle_source(data / "real" / "g1_bottle")]


# --- ingest -------------------------------------------------------------------------------------


class Footage:
    """Ingests sources into ``out``, each corpus once; labels are those of the truth."""

    def __init__(self, out: Path, processes: int) -> None:
        self._out, self._processes = out, processes

    def corpus(self, source: Source, way: str) -> Corpus | None:
        """The corpus of a source ingested one way; None where the source does not allow it."""
        path = self._out / "corpora" / source.name / way
        if not path.exists():
            prepared = WAYS[way](source, self._out)
            if prepared is None:
                return None
            clips, detector = prepared
            ingest_to(
                path,
                clips,
                IngestSettings(detector=detector),
                cache=self._out / "cache",
                processes=self._processes,
            )
        return labelled(Corpus.load(path), source.truth)


def labelled(corpus: Corpus, truth: Mapping[str, ClipTruth]) -> Corpus:
    """Label by truth; clips are named ``<clip>`` or ``<clip>+<part>``.

    A still picture shows no second state: its tracklets that match are of state 1.
    """
    known = {name: truth[name.partition("+")[0]] for name in corpus.clip_ids}
    corpus = label_corpus(corpus, known)
    still = [name.endswith("+still") for name in corpus.clip_ids]
    state, action = corpus.tracklets.label.copy(), corpus.chunks.label.copy()
    for n in np.flatnonzero(still):
        rows = list(corpus.tracklet_rows(int(n)))
        state[rows] = np.where(state[rows] > 0, TrackletLabel.STATE_1, 0)
        action[list(corpus.chunk_rows(int(n)))] = 0
    return replace(
        corpus,
        tracklets=replace(corpus.tracklets, label=state),
        chunks=replace(corpus.chunks, label=action),
    )


Prepared = tuple[tuple[ClipSpan, ...], str]
"""Clips, and the detector as for ingest."""


def _fewshot(source: Source, out: Path) -> Prepared | None:
    if not source.train:
        return None
    path = out / "detectors" / f"{source.name}.npz"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        pairs = [(clip, source.truth[clip.id]) for clip in source.train]
        train(train_labels(pairs, source.name), seed=0).save(path)
    return source.clips, f"fewshot:{path}"


def _motion(source: Source, _: Path) -> Prepared:
    return source.clips, "motion"


def _given(source: Source, out: Path) -> Prepared:
    return source.clips, _boxes_of(source, source.clips, out / "boxes" / source.name / "given")


def _gripper_boxes(source: Source, out: Path) -> Prepared | None:
    if source.gripper is None:
        return None
    folder = out / "boxes" / source.name / "gripper"
    for clip in source.clips:
        _write_boxes(folder, clip, *source.gripper[clip.id])
    return source.clips, f"boxes:{folder}"


def _jittered(source: Source, out: Path) -> Prepared:
    rng = np.random.default_rng(0)

    def moved(times: np.ndarray, boxes: np.ndarray) -> np.ndarray:
        shifts = rng.normal(0, 0.8, (int(times.max(initial=0)) + 1, 2))[times.astype(int)]
        sizes = boxes[:, 2:] - boxes[:, :2]
        return np.asarray(boxes + np.tile(shifts * sizes, 2))

    folder = out / "boxes" / source.name / "jittered"
    return source.clips, _boxes_of(source, source.clips, folder, moved)


def _idle(source: Source, out: Path) -> Prepared | None:
    clips = _spans(source, parts=("before",))
    if clips is None:
        return None
    return clips, _boxes_of(source, clips, out / "boxes" / source.name / "idle")


def _idle_motion(source: Source, _: Path) -> Prepared | None:
    clips = _spans(source, parts=("before",))
    return None if clips is None else (clips, "motion")


def _cut(source: Source, out: Path) -> Prepared | None:
    clips = _spans(source, parts=("before", "after"))
    if clips is None:
        return None
    return clips, _boxes_of(source, clips, out / "boxes" / source.name / "cut")


def _static(source: Source, out: Path) -> Prepared:
    folder, clips = out / "stills" / source.name, []
    folder.mkdir(parents=True, exist_ok=True)
    for clip in source.clips:
        path = folder / f"{clip.id.replace('/', '_')}.mp4"
        if not path.exists():
            _film_still(clip, path)
        clips.append(ClipSpan(f"{clip.id}+still", path))
    first = {clip.id: clip.start or 0.0 for clip in source.clips}
    boxes = out / "boxes" / source.name / "static"
    times = np.arange(0, STILL_SECONDS, 1 / 25)
    for clip in clips:
        name = clip.id.removesuffix("+still")
        box = source.truth[name].boxes_at(np.array([first[name]]))
        _write_boxes(boxes, clip, times, np.repeat(box, len(times), axis=0))
    return tuple(clips), f"boxes:{boxes}"


WAYS: dict[str, Callable[[Source, Path], Prepared | None]] = {
    "fewshot": _fewshot,
    "given": _given,
    "motion": _motion,
    "gripper": _gripper_boxes,
    "jittered": _jittered,
    "idle": _idle,
    "idle-motion": _idle_motion,
    "cut": _cut,
    "static": _static,
}


def _spans(source: Source, parts: tuple[str, ...]) -> tuple[ClipSpan, ...] | None:
    """One span of each clip, before or after the action in turn; None if most are too short."""
    found = []
    for n, clip in enumerate(source.clips):
        part = parts[n % len(parts)]
        start, end = source.truth[clip.id].action
        if part == "before":
            span = (clip.start or 0.0, start - MARGIN)
        else:
            span = (end + MARGIN, clip.end or float(source.truth[clip.id].times[-1]))
        if span[1] - span[0] >= SHORTEST:
            found.append(ClipSpan(f"{clip.id}+{part}", clip.video, *span))
    return tuple(found) if len(found) >= len(source.clips) / 2 else None


def _boxes_of(
    source: Source,
    clips: tuple[ClipSpan, ...],
    folder: Path,
    moved: Callable[[np.ndarray, np.ndarray], np.ndarray] | None = None,
) -> str:
    """Write the object's boxes as a detector's; none during the action if few are annotated."""
    for clip in clips:
        truth = source.truth[clip.id.partition("+")[0]]
        times, boxes = truth.times, truth.boxes
        if len(times) < 10:  # one before and one after the action
            times = np.arange(0, max(times[-1], truth.action[1]) + 0.5, 1 / 30)
            boxes = truth.boxes_at(times)
            boxes[truth.phase(times) == 1] = np.nan
        _write_boxes(folder, clip, times, boxes if moved is None else moved(times, boxes))
    return f"boxes:{folder}"


def _write_boxes(folder: Path, clip: ClipSpan, times: np.ndarray, boxes: np.ndarray) -> None:
    """In MOT's format, numbered by frames."""
    folder.mkdir(parents=True, exist_ok=True)
    rate = 1 / float(np.median(np.diff(times)))
    lines = [
        f"{round(time * rate) + 1},1,{x1:.2f},{y1:.2f},{x2 - x1:.2f},{y2 - y1:.2f},0.9"
        for time, (x1, y1, x2, y2) in zip(times, boxes, strict=True)
        if np.isfinite(x1)
    ]
    (folder / f"{clip.video.stem}.csv").write_text("\n".join(lines) + "\n")


def _film_still(clip: ClipSpan, path: Path) -> None:
    """A film of the clip's first frame, with a little noise as cameras have."""
    _, frame = next(iter(frames_at(clip.video, [clip.start or 0.0])))
    rng = np.random.default_rng(0)
    pixels = frame.image.astype(np.int16)
    with av.open(str(path), "w") as film:
        stream = film.add_stream("libx264", rate=25)
        stream.width, stream.height = pixels.shape[1] // 2 * 2, pixels.shape[0] // 2 * 2
        stream.pix_fmt = "yuv420p"
        for _ in range(int(STILL_SECONDS * 25)):
            noisy = np.clip(pixels + rng.integers(-3, 4, pixels.shape), 0, 255).astype(np.uint8)
            film.mux(stream.encode(av.VideoFrame.from_ndarray(noisy, format="rgb24")))
        film.mux(stream.encode())
