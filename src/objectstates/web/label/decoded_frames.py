"""Decoded frames of the clips that are labelled; the last few are kept."""

from __future__ import annotations

from collections import OrderedDict

from objectstates.base.errors import LabelError
from objectstates.video.clip_list import ClipSpan
from objectstates.video.frames_at import frames_at
from objectstates.video.reader import Frame
from objectstates.web.label.frame_choice import ClipExtent
from objectstates.web.label.labels_file import Key, frame_key

KEPT = 16  # frames: a page asks for the same one several times


class DecodedFrames:
    """Frames by clip and time; the caller holds a lock."""

    def __init__(self) -> None:
        self._kept: OrderedDict[Key, Frame] = OrderedDict()

    def at(self, clip: ClipSpan, extent: ClipExtent, time: float) -> Frame:
        """The frame nearest to ``time`` (seconds), at its own time; raise if there is none."""
        if not extent.start - 0.001 <= time <= extent.end + 0.001:
            raise LabelError(
                f"clip {clip.id!r} has no frame at {time:g} s: it lasts from {extent.start:g} to "
                f"{extent.end:g} s"
            )
        key = frame_key(clip.id, time)
        if key not in self._kept:
            _, frame = next(frames_at(clip.video, [time], tolerance=1.0))
            self._kept[key] = self._kept[frame_key(clip.id, frame.time)] = frame
            while len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        return self._kept[key]
