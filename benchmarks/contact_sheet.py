"""Contact sheet of a corpus: ``python -m benchmarks.contact_sheet CORPUS OUT.png``.

One row per clip, time from left to right: frames with the boxes of the tracklets at that time; the
higher the detection score, the thicker the line.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import cv2
import numpy as np

from objectstates import Corpus
from objectstates.data.clips import Clip
from objectstates.video.reader import read_frames

COLOURS = ((230, 159, 0), (86, 180, 233), (0, 158, 115), (240, 228, 66), (213, 94, 0))


def row(clip: Clip, columns: int, width: int) -> np.ndarray:
    """Evenly spaced frames of the clip, side by side."""
    start, end = clip.start or 0.0, clip.end or clip.chunks[-1].end
    images = []
    for time in start + (end - start) * (np.arange(columns) + 0.5) / columns:
        with read_frames(clip.video or "", time, end) as frames:
            frame = next(iter(frames))
        image = frame.image.copy()
        for index, tracklet in enumerate(clip.tracklets):
            if tracklet.start <= time < tracklet.end and tracklet.boxes:
                box = min(tracklet.boxes, key=lambda b: abs(b.time - time))
                first, last = (round(box.x1), round(box.y1)), (round(box.x2), round(box.y2))
                thickness = 1 + round(2 * tracklet.score)
                cv2.rectangle(image, first, last, COLOURS[index % len(COLOURS)], thickness)
        height = round(image.shape[0] * width / image.shape[1])
        small = cv2.resize(image, (width, height), interpolation=cv2.INTER_AREA)
        cv2.putText(small, f"{time:.1f}", (3, 12), cv2.FONT_HERSHEY_PLAIN, 0.8, (255, 255, 255))
        images.append(small)
    return np.hstack(images)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--columns", type=int, default=8)
    parser.add_argument("--width", type=int, default=180)
    parser.add_argument("--rows", type=int, default=8)
    options = parser.parse_args()
    clips = list(Corpus.load(options.corpus))[: options.rows]
    rows = [row(clip, options.columns, options.width) for clip in clips]
    height = max(len(r) for r in rows)
    sheet = np.vstack([np.pad(r, ((0, height - len(r)), (0, 0), (0, 0))) for r in rows])
    cv2.imwrite(str(options.out), cv2.cvtColor(sheet, cv2.COLOR_RGB2BGR))


if __name__ == "__main__":
    main()
