"""The motion detector on the train clips of the simulated tasks, and on annotated real clips.

    python -m benchmarks.motion_detector ../shared/data/sim [--boxes 6] [--annotations FILE]

``recall`` is the fraction of annotated frames in which one of the boxes matches the object.
``coverage`` and ``on object`` are those of tracklets, as in ``objectstates benchmark``: the
fraction of annotated times at which a tracklet covers the object, and that of tracklets on it.
``per clip`` is the number of tracklets, ``ms`` the time of the detector, after the change profile.
``--annotations`` names a file as ``annotations.json``, whose videos are in ``--videos``, or beside
it.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
import numpy.typing as npt

from benchmarks.detector import TASKS, TRAIN_CLIPS, known
from objectstates.base.geometry import MATCH_IOU, iou, paired_iou
from objectstates.data.formats.truth_files import read_truth
from objectstates.data.truth import ClipTruth
from objectstates.detect.change_detector import BOXES, ClipProposals, MotionDetector
from objectstates.features.change_profile import clip_change
from objectstates.ingest.time_scale import TimeScale
from objectstates.track.tracker import Tracker
from objectstates.track.tracklets import TrackPiece, cut_tracks
from objectstates.video.clip_list import ClipSpan
from objectstates.video.reader import Frame, probe, read_frames

Floats = npt.NDArray[np.float64]
MAX_SIDE = 480  # pixels, as in ingest
SCALE = TimeScale()  # the same for all clips, so that their numbers of tracklets compare
DETECT_FPS = SCALE.detect_fps()


@dataclass(frozen=True)
class Row:
    """One clip; ``covered`` and ``hits`` are fractions, ``seconds`` of the detector alone."""

    hits: float
    covered: float
    tracklets: int
    on_object: int
    seconds: float


def judge(clip: ClipSpan, truth: ClipTruth, boxes: int = BOXES) -> Row:
    """Detect and track in a clip, and compare with its annotated boxes."""
    video = probe(clip.video)
    change = clip_change(clip.video, clip.start, clip.end, image_fps=video.fps)
    detector = MotionDetector(boxes).for_clip(clip, video).with_change(change)
    start = time.process_time()
    blank = Frame(float(truth.times[0]), np.zeros((video.height, video.width, 3), np.uint8))
    detector.detect([blank])
    seconds = time.process_time() - start
    zoom = min(1.0, MAX_SIDE / max(video.width, video.height))
    pieces = tracklets(clip, detector)
    known_at = np.isfinite(truth.boxes).all(axis=1)
    covered = np.zeros(len(truth.times), bool)
    on_object = 0
    for piece in pieces:
        own = np.asarray(piece.boxes, np.float64) / zoom
        on_object += paired_iou(own, truth.boxes_at(piece.times)).mean() >= MATCH_IOU
        during = np.flatnonzero((truth.times >= piece.start) & (truth.times < piece.end))
        nearest = np.abs(truth.times[during, None] - piece.times[None]).argmin(axis=1)
        covered[during] |= paired_iou(own[nearest], truth.boxes[during]) >= MATCH_IOU
    hits = recall(detector, truth, (video.height, video.width))
    return Row(hits, float(covered[known_at].mean()), len(pieces), on_object, seconds)


def recall(detector: ClipProposals, truth: ClipTruth, size: tuple[int, int]) -> float:
    """Fraction of annotated times, five per second at most, at which a box matches."""
    blank = np.zeros((*size, 3), np.uint8)
    due = np.diff(np.floor(truth.times * DETECT_FPS + 1e-6), prepend=-1) > 0
    hits = []
    for at in np.flatnonzero(due & np.isfinite(truth.boxes).all(axis=1)).tolist():
        found = detector.detect([Frame(float(truth.times[at]), blank)])[0]
        hits.append(iou(found.boxes, truth.boxes[[at]]).max(initial=0.0) >= MATCH_IOU)
    return float(np.mean(hits))


def tracklets(clip: ClipSpan, detector: ClipProposals) -> list[TrackPiece]:
    """The tracklets of a clip as `observe` cuts them, without features."""
    tracker, last = Tracker(longest=SCALE.longest_track), -1
    with read_frames(
        clip.video, clip.start, clip.end, fps=SCALE.track_fps, max_side=MAX_SIDE
    ) as reading:
        tracks = []
        for frame in reading:
            period = int(np.floor(frame.time * DETECT_FPS + 1e-6))
            found = detector.detect([frame])[0] if period != last else None
            gray = np.asarray(cv2.cvtColor(frame.image, cv2.COLOR_RGB2GRAY), np.uint8)
            tracker.update(frame.time, gray, found)
            tracks += tracker.pop_finished()
            last = period
    return cut_tracks(tracks + tracker.finish())


def annotated(path: Path, videos: Path) -> dict[str, list[tuple[ClipSpan, ClipTruth]]]:
    """Clips with both boxes, by the folder of their video."""
    groups: dict[str, list[tuple[ClipSpan, ClipTruth]]] = {}
    for name, truth in read_truth(path).items():
        clip = ClipSpan(name, videos / f"{name}.mp4")
        groups.setdefault(name.split("/", maxsplit=1)[0], []).append((clip, truth))
    return groups


def report(name: str, clips: Iterable[tuple[ClipSpan, ClipTruth]], boxes: int) -> None:
    rows = [judge(clip, truth, boxes) for clip, truth in clips]
    count = sum(row.tracklets for row in rows)
    print(
        f"{name:18} {np.mean([row.hits for row in rows]):6.3f}  "
        f"{np.mean([row.covered for row in rows]):8.3f}  "
        f"{sum(row.on_object for row in rows) / max(count, 1):9.3f}  {count / len(rows):8.1f}  "
        f"{1000 * np.median([row.seconds for row in rows]):5.0f}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--boxes", type=int, default=BOXES)
    parser.add_argument("--annotations", type=Path)
    parser.add_argument("--videos", type=Path)
    arguments = parser.parse_args()
    print("clips              recall  coverage  on object  per clip     ms")
    for task in TASKS:
        report(task, known(arguments.folder / task, TRAIN_CLIPS), arguments.boxes)
    if arguments.annotations:
        videos = arguments.videos or arguments.annotations.parent
        for name, clips in annotated(arguments.annotations, videos).items():
            report(name, clips, arguments.boxes)


if __name__ == "__main__":
    main()
