from pathlib import Path

import cv2
import numpy as np
import onnxruntime
import pytest

import objectstates
from objectstates.detect import fewshot
from objectstates.detect.precomputed_boxes import BoxesDetector
from objectstates.features import torch_backbones
from objectstates.features.lite0 import Lite0
from objectstates.features.torch_backbones import TorchBackbone
from objectstates.ingest.observe import DetectionLog, _ClipPass, observe
from objectstates.ingest.settings import ObserveSettings
from objectstates.ingest.time_scale import TimeScale
from objectstates.video.clip_list import ClipSpan
from objectstates.video.reader import probe
from tests.ingest.test_pipeline import BOX, FPS, scene
from tests.video.videos import write_video

DEMO = Path(objectstates.__file__).parent / "demo" / "drawer"


@pytest.fixture(scope="module")
def clip(tmp_path_factory):
    folder = tmp_path_factory.mktemp("clip")
    path = write_video(folder / "a.mp4", scene(3), fps=FPS, options={"crf": "18"})
    x1, y1, x2, y2 = BOX
    rows = [f"{i + 1},1,{x1},{y1},{x2 - x1},{y2 - y1},0.8" for i in range(60)]
    (folder / "a.csv").write_text("\n".join(rows) + "\n")
    span = ClipSpan("a", path)
    return span, BoxesDetector(folder / "a.csv").for_clip(span, probe(path))


@pytest.fixture(scope="module")
def observed(clip):
    backbone = Lite0()

    def call(settings=None, span=clip[0], **options):
        return observe(span, clip[1], backbone, settings or ObserveSettings(), **options)

    return call


def assert_same(one, two):
    for name, value in one.arrays().items():
        np.testing.assert_array_equal(value, getattr(two, name), err_msg=name)


def test_batches_change_nothing(observed):
    assert_same(observed()[0], observed(ObserveSettings(batch=7))[0])


def test_maps_kept_on_a_device_give_the_same(clip, monkeypatch):
    """In batches of any size, and whether or not there is room for the maps on the device."""
    torch = pytest.importorskip("torch", reason="torch is not installed (extra: torch)")
    torch.manual_seed(0)
    network = torch.nn.Conv2d(3, 8, 16, 16)
    backbone = TorchBackbone(network, network, name="tiny", stride=16, channels=8)

    def seen(batch, room):
        monkeypatch.setattr(torch_backbones, "KEPT_BYTES", room)
        return observe(clip[0], clip[1], backbone, ObserveSettings(words=True, batch=batch))[0]

    one = seen(1, 1 << 30)
    assert one.tracklet_feature.shape[1] == 4 * 8
    assert len(one.tracklet_feature) > 3
    cells_of_a_frame = 2 * 8 * (one.conv.shape[0] // 30)
    for other in (seen(7, 1 << 30), seen(1, 0), seen(1, 10 * cells_of_a_frame)):
        for name, value in one.arrays().items():
            if name != "problems":
                np.testing.assert_allclose(getattr(other, name), value, atol=1e-3, err_msg=name)


@pytest.mark.parametrize(
    ("size", "runs_per_frame"), [((320, 240), 1), ((320, 256), 1), ((160, 120), 2)]
)
def test_the_network_runs_once_on_a_frame_for_detector_and_features(
    tmp_path, monkeypatch, size, runs_per_frame
):
    """Twice only where the detector needs frames of another size; the result is the same."""
    images = [np.asarray(cv2.resize(image, size), np.uint8) for image in scene(1, seconds=2)]
    span = ClipSpan("a", write_video(tmp_path / "a.mp4", images, fps=FPS))
    detector = fewshot.load(DEMO / "drawer.npz", threshold=0.0)
    assert detector.side == 320
    runs: list[str] = []
    run = onnxruntime.InferenceSession.run

    def counted(session, names, *args, **options):
        runs.append(",".join(names))
        return run(session, names, *args, **options)

    monkeypatch.setattr(onnxruntime.InferenceSession, "run", counted)
    shared, log = observe(span, detector, Lite0(), ObserveSettings())
    assert len(log.times) == 5, "five in two seconds"
    assert sum(map(len, log.found)) > 0
    assert len(runs) == runs_per_frame * len(log.times)

    class Separate:
        """The same detector without the way to take the backbone's maps."""

        fingerprint = "separate"
        detect = staticmethod(detector.detect)

        def for_clip(self, _clip, _video, /):
            return self

    separate, other_log = observe(span, Separate(), Lite0(), ObserveSettings())
    assert_same(shared, separate)
    for name, values in log.arrays().items():
        np.testing.assert_array_equal(values, other_log.arrays()[name])


def test_known_detections_change_nothing(observed):
    first, log = observed()
    again = DetectionLog.from_arrays(log.arrays())
    second, _ = observed(known_detections=again)
    assert_same(first, second)


def test_long_clips_are_processed_in_parts(observed, monkeypatch):
    """Maps are not kept for longer than tracks are, and what comes out is nearly the same."""
    kept: list[int] = []
    close = _ClipPass._close

    def counted(clip_pass, *args):
        close(clip_pass, *args)
        kept.append(len(clip_pass.maps))

    monkeypatch.setattr(_ClipPass, "_close", counted)
    whole, _ = observed()
    assert max(kept) == 15, "2.5 a second, for six seconds"
    kept.clear()
    monkeypatch.setattr("objectstates.ingest.time_scale.TRACKLETS_PER_TRACK", 2)
    parts, _ = observed()
    assert max(kept) <= 2.5 * (2.0 + 0.8)
    for name in ("motion_time", "frame_time", "frame"):
        np.testing.assert_array_equal(getattr(parts, name), getattr(whole, name))
    np.testing.assert_allclose(parts.motion, whole.motion, atol=0.05)
    assert (np.diff(parts.tracklet_span[:, 0]) >= 0).all()
    covered = [np.diff(seen.tracklet_span).sum() for seen in (parts, whole)]
    assert covered[0] == pytest.approx(covered[1])


def test_lengths_and_rates_follow_the_scale(observed, monkeypatch):
    frames: list[int] = []
    maps = Lite0.maps

    def counted(backbone, images):
        frames.append(len(images))
        return maps(backbone, images)

    monkeypatch.setattr(Lite0, "maps", counted)
    usual, _ = observed()
    assert sum(frames) == 15, "five in two tracklets"
    frames.clear()
    fine, _ = observed(ObserveSettings(TimeScale(0.5, 0.2)))
    assert sum(frames) == 30, "five in two tracklets"
    assert (len(usual.frame), len(fine.frame)) == (15, 30)
    for seen, length in ((usual, 1.0), (fine, 0.5)):
        assert np.median(np.diff(seen.tracklet_span)) == pytest.approx(length, abs=0.1)


def test_frames_that_a_file_of_boxes_passes_over_are_no_evidence(clip, tmp_path):
    """Boxes of every fifth frame make the same tracks as boxes of all, however many are sampled."""
    x1, y1, x2, y2 = BOX
    rows = [f"{i + 1},1,{x1},{y1},{x2 - x1},{y2 - y1},0.8" for i in range(0, 60, 5)]
    (tmp_path / "a.csv").write_text("\n".join(rows) + "\n")
    sparse = BoxesDetector(tmp_path / "a.csv").for_clip(clip[0], probe(clip[0].video))
    settings = ObserveSettings(TimeScale(0.4, 0.16))
    seen, log = observe(clip[0], sparse, Lite0(), settings)
    assert log.times == pytest.approx(np.arange(0, 6, 0.5))
    assert np.diff(seen.tracklet_span).sum() > 0.8 * 6.0
    again, _ = observe(clip[0], sparse, Lite0(), settings, known_detections=log)
    assert_same(seen, again)


def test_only_the_span_of_a_clip_is_observed(observed, clip):
    seen, _ = observed(span=ClipSpan("part", clip[0].video, 2.0, 4.0))
    assert seen.span.tolist() == pytest.approx([2.0, 4.0])
    assert seen.tracklet_span.min() >= 2.0
    assert seen.tracklet_span.max() <= 4.0 + 1e-6
    assert [seen.frame_time.read()[k, 0] for k in (0, -1)] == pytest.approx([2.0, 3.6])


def test_every_frame_is_counted(observed):
    ticks: list[int] = []
    seen, _ = observed(tick=ticks.append)
    assert sum(ticks) == int(seen.frames[0]) == 60
