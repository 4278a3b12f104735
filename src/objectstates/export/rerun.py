"""Rerun: the video, the boxes and the scores on one timeline."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import numpy as np

from objectstates.base.errors import MissingExtraError, VideoError
from objectstates.base.file_names import existing_path
from objectstates.export.sampling import check_fps, encode_jpeg
from objectstates.export.videos import ExportSource, ReadableVideo, readable_videos
from objectstates.video.reader import read_frames

TIMELINE = "video_time"
_COLOURS = (
    *((127, 127, 127), (31, 119, 180), (255, 127, 14)),  # of no state, state 1, state 2
    *((0, 158, 115), (204, 121, 167), (148, 103, 189), (140, 86, 75), (188, 189, 34)),
    (23, 190, 207),
)


def write_rerun(
    source: ExportSource, folder: Path, *, fps: float = 10.0, all_tracklets: bool = False
) -> list[str]:
    """One ``VIDEO.rrd`` per video.

    MP4 files are embedded as they are. Rerun does not play others: of them ``fps`` frames per
    second are embedded.
    """
    check_fps(fps)
    try:
        import rerun
    except ImportError as problem:
        raise MissingExtraError(
            "rerun needs the Rerun SDK: pip install 'objectstates[rerun]'"
        ) from problem
    problems: list[str] = []
    classes = [
        (k, source.names.of_state(k), colour)
        for k, colour in enumerate(_COLOURS[: source.n_actions + 2])
    ]
    for video in readable_videos(source, problems):
        # A constant id per video: the viewer replaces a recording that is opened again.
        recording = rerun.RecordingStream(
            "objectstates", recording_id=uuid.uuid5(uuid.NAMESPACE_URL, video.video)
        )
        path = folder / f"{video.name}.rrd"
        recording.save(path, default_blueprint=_layout())
        broken = False
        try:
            recording.send_recording_name(video.name)
            recording.log("/", rerun.AnnotationContext(classes), static=True)
            _log_video(rerun, recording, video, fps, problems)
            _log_boxes(rerun, recording, video, source.label, all_tracklets)
            _log_scores(rerun, recording, video)
        except VideoError as problem:
            problems.append(f"left out {problem}")
            broken = True
        finally:
            recording.disconnect()
        if broken:
            path.unlink()
    return problems


def _layout() -> Any:
    import rerun.blueprint as views

    return views.Vertical(
        views.Spatial2DView(origin="video", name="video"),
        views.TimeSeriesView(origin="scores", name="scores"),
        row_shares=[3, 1],
    )


def _log_video(
    rerun: Any, recording: Any, video: ReadableVideo, fps: float, problems: list[str]
) -> None:
    if _embedded(rerun, recording, video):
        return
    with read_frames(video.info.path, fps=fps, image_fps=video.image_fps) as reading:
        for frame in reading:
            recording.send_columns(
                "video",
                indexes=[rerun.TimeColumn(TIMELINE, duration=[frame.time])],
                columns=rerun.EncodedImage.columns(
                    blob=[encode_jpeg(frame.image)], media_type=["image/jpeg"]
                ),
            )
        problems += reading.problems


def _embedded(rerun: Any, recording: Any, video: ReadableVideo) -> bool:
    """Embed the file itself if it is an MP4 without rotation in a codec that Rerun plays."""
    path = video.info.path
    if path.suffix.lower() != ".mp4" or path.is_dir() or video.info.rotation:
        return False
    asset = rerun.AssetVideo(path=existing_path(path))
    try:
        stamps = asset.read_frame_timestamps_nanos()
    except (RuntimeError, ValueError):
        return False
    recording.log("video", asset, static=True)
    recording.send_columns(
        "video",
        indexes=[rerun.TimeColumn(TIMELINE, duration=1e-9 * (stamps - stamps.min()))],
        columns=rerun.VideoFrameReference.columns_nanos(stamps),
    )
    return True


def _log_boxes(
    rerun: Any, recording: Any, video: ReadableVideo, label: str, all_tracklets: bool
) -> None:
    """A row per time with all its boxes, and an empty row where a tracklet ends."""
    rows: dict[float, list[tuple[list[float], int]]] = {}
    tracklets = [t for c in video.clips for t in c.boxed_tracklets(unlabelled=all_tracklets)]
    for t in tracklets:
        for time, *corners in t.boxes.tolist():
            rows.setdefault(time, []).append((corners, t.state))
    for end in {t.end for t in tracklets}:
        rows.setdefault(end, [])
    times = sorted(rows)
    if not times:
        return
    boxes = np.array([corners for time in times for corners, _ in rows[time]]).reshape(-1, 4)
    states = [state for time in times for _, state in rows[time]]
    lengths = [len(rows[time]) for time in times]
    columns = rerun.Boxes2D.columns(
        centers=(boxes[:, :2] + boxes[:, 2:]) / 2,
        half_sizes=(boxes[:, 2:] - boxes[:, :2]) / 2,
        class_ids=states,
        labels=[f"{label}: state {state}" if state else label for state in states],
    )
    recording.send_columns(
        "video/boxes",
        indexes=[rerun.TimeColumn(TIMELINE, duration=times)],
        columns=columns.partition(lengths),
    )


def _log_scores(rerun: Any, recording: Any, video: ReadableVideo) -> None:
    """Scores over time, one series per clip and label; the actions as text log entries."""
    for clip in video.clips:
        lines = {
            label: [(c.time, score) for c, score in zip(clip.chunks, scores, strict=True)]
            for label, scores in zip(
                clip.result.action_labels, clip.chunk_scores.T[2:], strict=True
            )
        }
        for k in range(clip.result.n_states):
            lines[f"state_{k + 1}"] = [(t.time, t.scores[k]) for t in clip.tracklets]
        for name, points in lines.items():
            known = [(time, score) for time, score in points if not np.isnan(score)]
            if known:
                recording.send_columns(
                    rerun.new_entity_path(["scores", clip.name, name]),
                    indexes=[rerun.TimeColumn(TIMELINE, duration=[time for time, _ in known])],
                    columns=rerun.Scalars.columns(scalars=[score for _, score in known]),
                )
        if clip.actions:
            times, labels = [a.time for a in clip.actions], [a.label for a in clip.actions]
            recording.send_columns(
                rerun.new_entity_path(["actions", clip.name]),
                indexes=[rerun.TimeColumn(TIMELINE, duration=times)],
                columns=rerun.TextLog.columns(text=labels),
            )
