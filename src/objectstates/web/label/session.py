"""A session of labelling: which frames, which boxes, and the detector learned from them.

It does not depend on HTTP. All methods may be called from several threads. What a user does is on
disk before the method returns; a new session in the same folder goes on where the last one ended.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from objectstates.base.cache import content_digest
from objectstates.base.errors import DetectorError, LabelError, ObjectStatesError, VideoError
from objectstates.base.storage import make_folder
from objectstates.detect import fewshot
from objectstates.detect.fewshot_training import MIN_IMAGES
from objectstates.export.names import safe_name
from objectstates.video.clip_list import ClipSpan
from objectstates.video.reader import Frame
from objectstates.web.label.decoded_frames import DecodedFrames
from objectstates.web.label.following import follow
from objectstates.web.label.frame_choice import FrameChoice
from objectstates.web.label.labels_file import (
    MAX_BOXES,
    How,
    LabelBox,
    LabelledFrame,
    LabelsFile,
    frame_key,
    video_reference,
)
from objectstates.web.label.trainer import Request, Trainer
from objectstates.web.label.training_record import TrainingRecord

FIRST_TRAINING = 5  # boxes by hand, before which proposals would be guesses
LEAST_SCORE = 0.15  # of a proposal: a weaker one hinders more than it helps
ENOUGH_RECALL = 0.9  # with which the page suggests to finish

Publish = Callable[[str, Mapping[str, Any]], None]


@dataclass(frozen=True)
class Followed:
    """Boxes that were followed from one frame, and wait for confirmation."""

    id: int
    clip: str
    time: float
    frames: tuple[LabelledFrame, ...]

    def to_json(self) -> dict[str, Any]:
        frames = [frame.to_json() for frame in self.frames]
        return {"id": self.id, "clip": self.clip, "time": self.time, "frames": frames}


class LabelSession:
    """Labels of one kind of object in some clips.

    folder : gets ``labels.json``, ``proposals.npz``, ``training.json`` and at the end the detector.
    next_command : given the detector, the command to go on with, which the page shows.
    publish : called with the kind and the data of an event, from any thread.
    """

    def __init__(
        self,
        clips: Sequence[ClipSpan],
        object_name: str,
        folder: str | Path,
        *,
        next_command: Callable[[Path], str] | None = None,
        publish: Publish | None = None,
    ) -> None:
        name = object_name.strip()
        if not name or not name.isprintable() or len(name) > 60:
            raise LabelError("`object` must be a name of at most 60 characters, such as drawer")
        if not clips:
            raise LabelError("there is no clip to label: give videos")
        self.object_name = name
        self.folder = make_folder(Path(folder), "out")
        self._clips = {clip.id: clip for clip in clips}
        self._next_command = next_command
        self._publish = publish
        self._lock = threading.RLock()
        self._labels = LabelsFile(self.folder / "labels.json", name)
        self._choice = FrameChoice(clips)
        self._skipped: set[tuple[str, int]] = set()
        self._images = DecodedFrames()
        self._followed: Followed | None = None
        self._follow_number = 0
        self._training = TrainingRecord(self.folder / "training.json")
        self._detector = self._load_detector()
        self._progress: dict[str, Any] | None = None
        self._problem = ""
        self._stopped = threading.Event()
        self._trainer = Trainer(self._trained)
        self._looks = threading.Thread(target=self._prepare, name="looks", daemon=True)

    # --- life ---------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin the work in the background."""
        self._looks.start()
        if self._labels_changed():
            self._train()

    def close(self) -> None:
        """End all background work; nothing is lost."""
        self._stopped.set()
        self._trainer.close()
        if self._looks.is_alive():
            self._looks.join(10)

    def video_of(self, clip: str) -> Path | None:
        """The video of a clip of the session."""
        found = self._clips.get(clip)
        return None if found is None else found.video

    @property
    def detector_path(self) -> Path:
        """The trained detector, once there is one."""
        return self.folder / f"{safe_name(self.object_name)}.npz"

    # --- what the page shows ------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """All that the page shows, apart from the frame."""
        with self._lock:
            return {
                "object": self.object_name,
                "folder": str(self.folder),
                "clips": self._clips_state(),
                "frames": [frame.to_json() for frame in self._labels.of_clips(self._clips)],
                "counts": self._labels.counts(self._clips),
                "first_training": FIRST_TRAINING,
                "enough_recall": ENOUGH_RECALL,
                "training": self._training_state(),
                "finished": self._finished_state(),
            }

    def _clips_state(self) -> list[dict[str, str]]:
        failed = self._choice.failed
        return [
            {"id": clip, **({"failed": failed[clip]} if clip in failed else {})}
            for clip in self._clips
        ]

    def _training_state(self) -> dict[str, Any]:
        return {
            "busy": self._trainer.busy,
            "final": self._trainer.final,
            "progress": self._progress,
            "has_detector": self._detector is not None,
            "recalls": self._training.recalls,
            "problem": self._problem,
        }

    def _finished_state(self) -> dict[str, Any] | None:
        final = self._training.final
        if final is None or not self.detector_path.is_file():
            return None
        return {
            **final,
            "path": str(self.detector_path),
            "command": "" if self._next_command is None else self._next_command(self.detector_path),
            "outdated": final.get("digest") != self._digest(),
        }

    def next_frame(self, skip: tuple[str, float] | None = None) -> dict[str, Any] | None:
        """The frame to label next; ``skip`` is one that the user passed by. None if all are."""
        with self._lock:
            if skip is not None:
                self._skipped.add(frame_key(*skip))
            for _ in range(len(self._clips) + 1):
                found = self._choice.next(self._labels.frames, self._skipped)
                if found is None:
                    return None
                try:
                    return self.frame(found[0], found[1] / 1000)
                except VideoError:
                    self._skipped.add(found)
        return None

    def frame(self, clip: str, time: float | None) -> dict[str, Any]:
        """The frame of a clip nearest to a time, its labels, and what the detector proposes.

        time : seconds; None for the middle of the clip.
        """
        with self._lock:
            if time is None:
                time = self._middle(clip)
            image, extent = self._image(clip, time), self._choice.extent(clip)
            labelled = self._labels.frames.get(frame_key(clip, image.time))
            proposals = [] if labelled is not None else self._proposals(image)
            return {
                "clip": clip,
                "time": image.time,
                "start": extent.start,
                "end": extent.end,
                "width": extent.width,
                "height": extent.height,
                "labelled": labelled is not None,
                "boxes": [box.to_json() for box in labelled.boxes] if labelled else [],
                "proposals": proposals,
            }

    def _middle(self, clip: str) -> float:
        self._known(clip)
        extent = self._choice.extent(clip)
        return (extent.start + extent.end) / 2

    def _known(self, clip: str) -> ClipSpan:
        if clip not in self._clips:
            raise LabelError(f"there is no clip {clip[:60]!r}")
        return self._clips[clip]

    def _image(self, clip: str, time: float) -> Frame:
        """The decoded frame, at its own time; raise for a clip or a time that is not there."""
        return self._images.at(self._known(clip), self._choice.extent(clip), time)

    def _proposals(self, frame: Frame) -> list[dict[str, Any]]:
        if self._detector is None:
            return []
        found = self._detector.with_threshold(LEAST_SCORE).detect([frame])[0]
        sure = int((found.scores >= self._detector.threshold).sum())
        # As many as a labelled frame has at most: one key accepts them all, also wrong ones. One
        # doubtful box rather than none.
        most = max([1, *(len(frame.boxes) for frame in self._labels.frames.values())])
        shown = min(max(sure, 1), most, len(found))
        return [
            {"box": [round(float(v), 2) for v in box], "sure": n < sure}
            for n, box in enumerate(found.boxes[:shown])
        ]

    # --- labelling ----------------------------------------------------------------------------

    def label(
        self, clip: str, time: float, boxes: Sequence[tuple[Sequence[float], How]]
    ) -> dict[str, Any]:
        """Set the boxes of a frame; none means that the object is not visible in it."""
        if len(boxes) > MAX_BOXES:
            raise LabelError(f"{len(boxes)} boxes in one frame are more than {MAX_BOXES}")
        with self._lock:
            image, extent = self._image(clip, time), self._choice.extent(clip)
            drawn = [LabelBox.of(box, how) for box, how in boxes]
            inside = tuple(box.inside(extent.width, extent.height) for box in drawn)
            self._labels.put(
                LabelledFrame(
                    clip,
                    video_reference(self._labels.path, self._clips[clip].video),
                    round(image.time, 6),
                    extent.width,
                    extent.height,
                    inside,
                )
            )
            self._changed()
            return self.frame(clip, image.time)

    def unlabel(self, clip: str, time: float) -> dict[str, Any]:
        """Remove all labels of a frame."""
        self._known(clip)
        with self._lock:
            key = frame_key(clip, time)
            if key in self._labels.frames:
                self._labels.remove(key)
                self._changed()
            return self.frame(clip, time)

    def follow(self, clip: str, time: float) -> dict[str, Any]:
        """Follow the boxes of a labelled frame through the clip, to be confirmed."""
        with self._lock:
            frame = self._labels.frames.get(frame_key(clip, time))
            if frame is None or not frame.boxes or clip not in self._clips:
                raise LabelError("there is no box to follow: draw one first")
            extent, video = self._choice.extent(clip), self._clips[clip].video
        boxes = np.array([box.corners for box in frame.boxes])
        found = follow(video, frame.time, boxes, start=extent.start, end=extent.end)
        frames = []
        for at, moved in found:
            with suppress(LabelError):  # it has left the frame
                followed = tuple(
                    LabelBox.of(box, "followed").inside(extent.width, extent.height)
                    for box in moved.tolist()
                )
                frames.append(replace(frame, time=round(at, 6), boxes=followed))
        with self._lock:
            self._follow_number += 1
            self._followed = Followed(self._follow_number, clip, frame.time, tuple(frames))
            return self._followed.to_json()

    def accept_followed(self, number: int, first: float, last: float) -> int:
        """Keep the followed boxes from ``first`` to ``last`` (seconds); returns how many frames.

        Frames that a person has labelled keep their labels.
        """
        with self._lock:
            waiting = self._followed
            if waiting is None or waiting.id != number:
                raise LabelError("these boxes wait no longer: follow the box again")
            self._followed = None
            kept = [frame for frame in waiting.frames if first <= frame.time <= last]
            kept = [frame for frame in kept if not self._is_by_hand(frame)]
            if kept:
                self._labels.put(*kept)
                self._changed()
            return len(kept)

    def _is_by_hand(self, frame: LabelledFrame) -> bool:
        known = self._labels.frames.get(frame.key)
        return known is not None and known.by_hand

    # --- training -----------------------------------------------------------------------------

    def finish(self) -> None:
        """Train the detector that the user keeps, in the background."""
        with self._lock:
            counts = self._labels.counts(self._clips)
            if counts["with_box"] < MIN_IMAGES:
                raise LabelError(
                    f"{counts['with_box']} frames have a box: label at least {MIN_IMAGES}, better "
                    "a dozen, of different clips"
                )
            self._problem = ""
            self._trainer.request(Request(self._labels.path, self.detector_path, final=True))
        self._tell()

    def _changed(self) -> None:
        """Labels were changed: they are on disk already."""
        self._train()
        self._tell()

    def _train(self) -> None:
        counts = self._labels.counts(self._clips)
        if counts["by_hand"] >= FIRST_TRAINING and counts["with_box"] >= MIN_IMAGES:
            self._trainer.request(Request(self._labels.path, self.folder / "proposals.npz"))

    def _labels_changed(self) -> bool:
        """Whether the labels are others than the last training saw, as after a crash."""
        last = self._training.recalls[-1:]
        return not last or last[0].get("digest") != self._digest()

    def _digest(self) -> str:
        return content_digest(self._labels.path) if self._labels.path.exists() else ""

    def _trained(self, request: Request, answer: dict[str, Any]) -> None:
        """An answer of the training process, in the trainer's thread."""
        with self._lock:
            match answer["kind"]:
                case "progress":
                    stage = {name: answer[name] for name in ("stage", "done", "total")}
                    self._progress = {**stage, "final": request.final}
                case "trained":
                    self._problem = ""
                    if not request.final:
                        self._detector = self._load_detector()
                case "recall":
                    self._remember(request, answer)
                case "failed":
                    self._problem = str(answer["error"])
                case "done":
                    self._progress = None
        self._tell("label.progress" if answer["kind"] == "progress" else "label.state")

    def _remember(self, request: Request, answer: dict[str, Any]) -> None:
        used = answer["counts"]  # by the training: the labels may have changed since
        facts = {"recall": answer["recall"], "boxes": used["boxes"], "clips": used["videos"]}
        facts["digest"] = answer["digest"]
        try:
            self._training.add(facts, final=request.final)
        except OSError as problem:
            self._problem = f"{self._training.path} cannot be written: {problem.strerror}"

    def _load_detector(self) -> fewshot.FewShotDetector | None:
        with suppress(DetectorError):  # none yet, or of another version: it is trained again
            return fewshot.load(self.folder / "proposals.npz")
        return None

    def _prepare(self) -> None:
        self._choice.probe(self._stopped.is_set)
        self._tell()  # which clips cannot be read
        try:
            self._choice.prepare(self._stopped.is_set)
        except ObjectStatesError as problem:
            with self._lock:
                self._problem = str(problem)
            self._tell()

    def _tell(self, kind: str = "label.state") -> None:
        with self._lock:
            data = {
                "clips": self._clips_state(),
                "counts": self._labels.counts(self._clips),
                "training": self._training_state(),
                "finished": self._finished_state(),
            }
        if self._publish is not None:
            self._publish(kind, data)
