"""Make the picture of docs/failures.md: ``python -m tools.failure_pictures``.

The demo's clips are processed twice with the paper's settings: with the shipped detector and with
``motion``. Of each run the clip with the most false positives is shown: the tracklets labelled
state 1 and state 2 (blue and orange boxes) and the action between them; thin white boxes are
the ground truth.
"""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np

from objectstates.app.workspace import Workspace
from objectstates.base.cache import cache_folder
from objectstates.data.clips import TrackletLabel
from objectstates.data.formats.truth_files import read_truth
from objectstates.data.result import Result
from objectstates.data.truth import ClipTruth
from objectstates.discovery.estimator import JointDiscovery
from objectstates.ingest.pipeline import IngestSettings, ingest_to
from objectstates.parallel.pool import default_processes
from objectstates.video.clip_list import find_clips
from objectstates.video.frames_at import frames_at

CLIPS = Path(__file__).parents[1] / "src" / "objectstates" / "demo" / "drawer"
OUT = Path(__file__).parents[1] / "docs" / "images"
PAPER = JointDiscovery.paper()
COLOURS = {1: (86, 180, 233), 2: (230, 159, 0)}
WHITE = (255, 255, 255)


def discover(settings: IngestSettings, truth: dict[str, ClipTruth]) -> Result:
    with tempfile.TemporaryDirectory() as place:
        workspace = Workspace(place)
        ingest_to(
            workspace.corpus,
            find_clips(sorted(CLIPS.glob("*.mp4"))),
            settings,
            truth=truth,
            cache=cache_folder() / "ingest",
            processes=default_processes(),
        )
        return workspace.fit(PAPER)[0]


def clips_with(result: Result, kind: TrackletLabel) -> list[int]:
    """Clips with tracklets of this kind that are labelled with a state, most of them first."""
    wrong = (result.state > 0) & (result.corpus.tracklets.label == kind)
    counts = np.bincount(result.tracklet_clip[wrong], minlength=len(result.clips))
    return [int(n) for n in np.argsort(-counts, kind="stable") if counts[n]]


def strip(result: Result, clip: int, truth: ClipTruth) -> np.ndarray:
    """State 1, action and state 2 of a clip, side by side, in RGB."""
    table = result.corpus.tracklets
    moments: list[tuple[float, int | None]] = [(float(result.action_time[clip]), None)]
    for state, at in ((1, 0), (2, 2)):
        rows = np.flatnonzero((result.tracklet_clip == clip) & (result.state == state))
        best = int(rows[np.argmax(result.state_scores[rows, state - 1])])
        moments.insert(at, (float(table.time[best]), best))
    video = result.corpus.videos[clip]
    assert video is not None
    pictures = []
    frames = dict(frames_at(video, [time for time, _ in moments]))
    for time, row in moments:
        frame = frames[time]
        image = frame.image.copy()
        draw(image, truth.boxes_at(np.array([frame.time]))[0], WHITE, 1)
        name = "action"
        if row is not None:
            boxes = table.boxes[table.box_offsets[row] : table.box_offsets[row + 1]]
            state = int(result.state[row])
            draw(image, boxes[np.abs(boxes[:, 0] - frame.time).argmin(), 1:], COLOURS[state], 2)
            name = f"state {state}"
        text = f"{name}, {frame.time:.1f} s"
        cv2.putText(image, text, (6, 16), cv2.FONT_HERSHEY_SIMPLEX, 0.5, WHITE, 1, cv2.LINE_AA)
        pictures.append(image)
    return np.hstack(pictures)


def draw(image: np.ndarray, box: np.ndarray, colour: tuple[int, int, int], width: int) -> None:
    x1, y1, x2, y2 = (round(float(v)) for v in box)
    cv2.rectangle(image, (x1, y1), (x2, y2), colour, width, cv2.LINE_AA)


def main() -> None:
    truth = read_truth(CLIPS)
    settings = IngestSettings(detector=f"fewshot:{CLIPS / 'drawer.npz'}", object_name="drawer")
    runs = [discover(s, truth) for s in (settings, replace(settings, detector="motion"))]
    rows = []
    for result in runs:
        clips = clips_with(result, TrackletLabel.FALSE_POSITIVE)
        print(f"false positives in {len(clips)} of {len(result.clips)} clips")
        rows += [strip(result, n, truth[result.clips[n]]) for n in clips[:1]]
    picture = cv2.cvtColor(np.vstack(rows), cv2.COLOR_RGB2BGR)
    cv2.imwrite(str(OUT / "failure-detector.jpg"), picture, [cv2.IMWRITE_JPEG_QUALITY, 85])


if __name__ == "__main__":
    main()
